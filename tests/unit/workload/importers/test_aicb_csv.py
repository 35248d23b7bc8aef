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
from tests.unit.laws import examples

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


@settings(deadline=None, max_examples=examples(20, 120))
@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=6), epochs=st.integers(1, 3))
def test_epochs_after_the_first_are_iterations(sizes: list[int], epochs: int) -> None:
    body = "".join(row("all_reduce", "dp_group", 8, size) for size in sizes) + END
    imported = read(row("broadcast", "dp_group", 8, 999), END, *[body] * epochs)
    assert totals(imported) == {("all_reduce", 8): (1, sum(sizes))}


def test_experts_have_groups_of_their_own() -> None:
    imported = read(row("all_to_all", "ep_group", 2, 100), row("all_reduce", "ep_dp_group", 4, 7), ranks=8)
    assert totals(imported) == {("all_to_all", 2): (4, 100), ("all_reduce", 4): (2, 7)}


def computing(nanoseconds: float | None) -> str:
    shapes = "((2048, 4096), (4096, 1536))"
    return f"CommType.computation,CommGroup.all,1,{shapes},forward.A,None,None,None,{nanoseconds},None,None,1\n"


@settings(deadline=None, max_examples=examples(20, 120))
@given(
    times=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 10**9)), min_size=1, max_size=12),
    epochs=st.integers(1, 3),
)
def test_measured_computing_comes_before_the_operation_that_follows(times: list[tuple[int, int]], epochs: int) -> None:
    kinds = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
    body = [computing(ns) + row(kinds[kind], "dp_group", 8, 10) for kind, ns in times]
    last = computing(500)  # after the last operation: before the first one of the next iteration
    imported = read(computing(10**12), row("broadcast", "dp_group", 8, 9), END, *[*body, last, END] * epochs)
    order = list(dict.fromkeys(kind for kind, _ in times))
    expected = {phase: sum(ns for k, ns in times if k == kind) for phase, kind in enumerate(order)}
    expected[0] += 500
    timing = imported.job.timing
    assert timing is not None
    assert dict(timing.compute) == pytest.approx({phase: ns * 1e-9 for phase, ns in expected.items()})


def test_computing_without_a_measured_time_is_left_out_and_a_group_of_one_rank_has_no_phase() -> None:
    assert read(computing(None), row("reduce", "all", 8, 5)).job.timing is None
    rows = [computing(2000), row("reduce", "tp_group", 1, 5), computing(3000), row("reduce", "dp_group", 8, 5)]
    timing = read(*rows).job.timing
    assert timing is not None
    assert sum(seconds for _, seconds in timing.compute) == pytest.approx(5e-6)


def test_the_log_of_a_run_is_refused_because_it_has_no_ranks() -> None:
    with pytest.raises(InputError, match="the log of a run does not contain them"):
        importer("aicb")([text_source("x_log.csv", HEAD + row("reduce", "all", 8, 5))], ImportRequest())


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
        ([computing(-1.0)], "line 3: '-1.0': _elapsed_time is not a number"),
        ([computing(1e30)], "line 3: '1e.30': _elapsed_time is above"),
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
