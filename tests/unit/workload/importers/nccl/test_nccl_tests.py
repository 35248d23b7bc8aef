"""Output of nccl-tests becomes the operation that was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source
from tests.unit.workload.importers.nccl.nccl_tables import table
from tests.unit.workload.importers.traces.small_traces import calls

EXAMPLE = Path(__file__).parents[5] / "examples" / "nccl-tests" / "all_reduce.txt"


def run(*texts: str, **request: object) -> Imported:
    sources = [text_source(f"run{i}.txt", text) for i, text in enumerate(texts)]
    return importer("nccl-tests")(sources, ImportRequest(**request))  # type: ignore[arg-type]


def test_the_example_is_one_all_reduce_of_the_largest_size() -> None:
    imported = importer("nccl-tests")(open_sources([EXAMPLE]), ImportRequest())
    assert calls(imported.job) == [("run0.all_reduce", "all_reduce", (0, 1, 2, 3), 4194304)]
    assert [(row.bytes, row.seconds, row.bus_gbps) for row in imported.measured[-1:]] == [
        (4194304, pytest.approx(330.1e-6), pytest.approx(152.48))
    ]


def test_bytes_choose_a_row_and_a_size_that_was_not_run_is_refused() -> None:
    text = table("all_gather", (1024, "none", -1, 0.75, "0"), (4096, "none", -1, 0.75, "0"))
    assert calls(run(text, bytes=1024).job)[0][3] == 1024
    with pytest.raises(InputError, match=r"bytes: 5: run0.txt:1: no row has this size; there are 2 from 1024 to 4096"):
        run(text, bytes=5)


def test_runs_in_one_output_are_phases_one_after_the_other() -> None:
    text = table("all_gather", (8, "none", -1, 0.75, "0")) + table("reduce", (8, "sum", 2, 1.0, "0"))
    imported = run(text)
    assert [(call.name, call.ranks, call.phase) for call in imported.job.collectives] == [
        ("run0.all_gather", (0, 1, 2, 3), 0),
        ("run1.reduce", (2, 3, 0, 1), 1),
    ]


def test_groups_of_a_split_test_each_have_the_operation() -> None:
    text = table("all_reduce", (8, "sum", -1, 1.0, "0")).replace("Rank  1 Group  0", "Rank  1 Group  1")
    text = text.replace("Rank  3 Group  0", "Rank  3 Group  1")
    assert [row[2] for row in calls(run(text).job)] == [(0, 2), (1, 3)]


@pytest.mark.parametrize("test", ["gather", "scatter", "sendrecv"])
def test_rooted_and_shifted_operations_are_messages_between_the_ranks(test: str) -> None:
    text = table(test, (400, "none", -1 if test == "sendrecv" else 1, 1.0, "0"))
    pairs = {(call.ranks, call.bytes) for call in run(text).job.collectives}
    if test == "sendrecv":
        assert pairs == {((i, (i + 1) % 4), 400) for i in range(4)}
    elif test == "gather":
        assert pairs == {((i, 1), 100) for i in (0, 2, 3)}
    else:
        assert pairs == {((1, i), 100) for i in (0, 2, 3)}


def test_ranks_are_on_the_servers_of_the_fabric_that_the_output_names() -> None:
    fabric = clos(1, 2, 2, nics_per_server=2)
    servers = sorted({host.server for host in fabric.hosts})
    text = table("all_reduce", (8, "sum", -1, 1.5, "0")).replace("node1", "b").replace("node0", "a")
    text = text.replace("on a", f"on {servers[0]}").replace("on b", f"on {servers[1]}")
    imported = run(text, fabric=fabric)
    assert (imported.placed, imported.job.hosts) == (True, ("h1", "h2", "h3", "h4"))
    assert not run(text).placed


def test_output_without_a_row_or_with_an_unknown_test_is_refused() -> None:
    with pytest.raises(InputError, match="has no table"):
        run(table("all_reduce"))
    with pytest.raises(InputError, match="'hypercube': the operation is unknown"):
        run(table("hypercube", (8, "none", -1, 0.75, "0")))


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter"])
def test_public_outputs_have_every_row_with_its_bandwidth(shared_data: Path, op: str) -> None:
    file = shared_data / "nccl-tests" / f"big_{op}_perf.txt"
    imported = importer("nccl-tests")(open_sources([file]), ImportRequest())
    rows = [line.split() for line in file.read_text().splitlines() if line.strip() and line.split()[0].isdigit()]
    rows = [row for row in rows if len(row) == 13]
    assert [(m.op, m.bytes, m.bus_gbps) for m in imported.measured] == [
        (op, int(row[0]), pytest.approx(8 * float(row[7]))) for row in rows
    ]
    assert len(rows) > 10
    # Bandwidth on the bus follows from size and time (two ranks: 1 and 1/2 of size over time).
    for row in imported.measured:
        assert row.bus_gbps == pytest.approx(
            row.bytes * 8e-9 / row.seconds * {"all_reduce": 1, "reduce_scatter": 0.5}[op], rel=0.01
        )
