"""AICB's workloads for real GPUs."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source

HEAD = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"
EXAMPLE = Path(__file__).parents[4] / "examples" / "aicb" / "gpus.csv"
END = "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1\n"


def row(op: str, group: str, size: int, amount: int, times: int = 1) -> str:
    return f"CommType.{op},CommGroup.{group},{size},{amount},step,None,None,,None,None,None,{times}\n"


def read(*rows: str, ranks: int = 8) -> Imported:
    text = f"[rank0 ~ rank{ranks - 1}]\n" + HEAD + "".join(rows)
    return importer("aicb")([text_source("x.csv", text)], ImportRequest())


def totals(imported: Imported) -> dict[tuple[str, int], tuple[int, int]]:
    """Groups and bytes by (operation, ranks of a group)."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for call in imported.job.collectives:
        groups, size = found.get((call.op, len(call.ranks)), (0, call.bytes))
        found[call.op, len(call.ranks)] = groups + 1, size
    return found


def test_the_example_is_one_iteration_without_its_initialisation() -> None:
    imported = importer("aicb")(open_sources([EXAMPLE]), ImportRequest())
    assert totals(imported) == {
        ("all_reduce", 2): (4, 3 * 1048576),
        ("reduce_scatter", 4): (2, 8388608),
        ("all_gather", 4): (2, 4194304),
    }
    ranks = {call.name: call.ranks for call in imported.job.collectives}
    assert (ranks["tp0.all_reduce"], ranks["dp1.all_gather"]) == ((0, 1), (1, 3, 5, 7))


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=6), epochs=st.integers(1, 3))
def test_epochs_after_the_first_are_iterations(sizes: list[int], epochs: int) -> None:
    body = "".join(row("all_reduce", "dp_group", 8, size) for size in sizes) + END
    imported = read(row("broadcast", "dp_group", 8, 999), END, *[body] * epochs)
    assert totals(imported) == {("all_reduce", 8): (1, sum(sizes))}


def test_experts_have_groups_of_their_own() -> None:
    imported = read(row("all_to_all", "ep_group", 2, 100), row("all_reduce", "ep_dp_group", 4, 7), ranks=8)
    assert totals(imported) == {("all_to_all", 2): (4, 100), ("all_reduce", 4): (2, 7)}


def test_incomplete_information_is_reported_as_a_warning() -> None:
    imported = read(row("isend", "pp_group", 2, 100), row("all_reduce", "odd_group", 2, 1), row("reduce", "all", 8, 5))
    assert "sends between pipeline stages are left out" in imported.warnings[0]
    assert "operations in odd_group are left out" in imported.warnings[1]
    assert totals(imported) == {("reduce", 8): (1, 5)}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([row("teleport", "all", 8, 1)], "line 3: 'CommType.teleport': is an unknown operation"),
        ([row("reduce", "all", 7, 1)], "line 3: 7: this group must have all 8 ranks"),
        ([row("reduce", "tp_group", 3, 1)], "tp 3 x dp 2 does not divide"),
        (
            [row("reduce", "tp_group", 2, 1), row("reduce", "tp_group", 4, 1)],
            "line 4: 4: tp_group has 2 ranks",
        ),
        ([row("reduce", "all", 8, -1)], "msg_size is not a number"),
        (["CommType.reduce,CommGroup.all\n"], "a row must have 12 columns, not 2"),
    ],
)
def test_a_row_that_is_wrong_is_refused_with_its_line(rows: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(*rows)


FILES = ["G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1.csv", "L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1.csv"]


@pytest.mark.parametrize("file", [*FILES, "L7B-D1-C01_Llama7B_zero2_mbs1.csv"])
def test_public_workloads_have_the_bytes_of_their_rows(shared_data: Path, file: str) -> None:
    path = shared_data / "aicb" / file
    with path.open() as text:
        next(text)
        rows = list(csv.DictReader(text))
    expected: Counter[tuple[str, int]] = Counter()
    epoch = 0
    for line in rows:
        epoch += line["comm_type"] == "CommType.epoch_end"
        if epoch == 1 and line["comm_group"] != "None" and line["comm_type"] != "CommType.barrier":
            op = line["comm_type"].removeprefix("CommType.")
            expected[op, int(line["comm_group_size"])] += int(line["msg_size"])
    imported = importer("aicb")(open_sources([path]), ImportRequest())
    assert {key: size for key, (_, size) in totals(imported).items()} == expected
    assert all(groups * size == 128 for (_, size), (groups, _) in totals(imported).items())
