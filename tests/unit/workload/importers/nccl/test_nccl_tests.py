"""Output of nccl-tests becomes the operation that was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.guess import guess
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


def as_json(test: str, *, gpus: int, each: int, named: bool = True, version: int = 2) -> str:
    """What ``-J`` writes: the first GPU of each process."""
    devices = [
        {"rank": i, "group": 0, "pid": 1000 + i, "hostname": f"node{i // 4}", "device": i % 4, "device_info": "GPU"}
        for i in range(0, gpus, each)
    ]
    measured = {"time": 100.5, "alg_bw": 10.0, "bus_bw": 17.5, "nwrong": 0.0}
    rows = [
        {
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": measured,
            "in_place": measured | {"time": 99.0},
            "actual_iterations": 20,
            "experiment_name": "AllReduce",
        }
        for size in (1024, 4096)
    ]
    args = [f"/opt/nccl-tests/build/{test}_perf", "-g", str(each)] if named else ["mine"]
    config = {"nthreads": 1, "ngpus": each, "minimum_bytes": 1024, "devices": devices}
    return json.dumps(
        {"version": version, "args": args, "env": [], "nccl_version": 22703, "config": config, "results": rows}
    )


@pytest.mark.parametrize("each", [1, 2, 4])
@pytest.mark.parametrize("named", [True, False])
def test_output_as_json_is_the_same_operation_on_the_same_gpus(each: int, named: bool) -> None:
    text = as_json("all_reduce", gpus=8, each=each, named=named)
    assert [row.format for row in guess([text_source("x", text)])] == ["nccl-tests"]
    one = run(text)
    assert calls(one.job) == [("run0.all_reduce", "all_reduce", tuple(range(8)), 4096)]
    assert [(row.ranks, row.bytes, row.seconds, row.bus_gbps) for row in one.measured] == [
        (8, size, pytest.approx(100.5e-6), 140.0) for size in (1024, 4096)
    ]
    fabric = clos(2, 2, 4, nics_per_server=4)
    placed = run(
        text,
        fabric=replace(fabric, hosts=tuple(replace(h, server=f"node{i // 4}") for i, h in enumerate(fabric.hosts))),
    )
    assert placed.job.hosts == tuple(host.name for host in fabric.hosts)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"size": 4096', '"size": -1', r"results\[1\].size: -1: is not a whole number"),
        ('"root": "    -1"', '"root": "x"', r"results\[0\].root: 'x': is not a rank"),
        ('"bus_bw": 17.5', '"bus_bw": "nan"', r"results\[0\].out_of_place.bus_bw: 'nan': is not a number"),
        ('"hostname": "node0"', '"hostname": 3', r"config.devices\[0\].hostname: 3: is not a name"),
        ('"results": [', '"results": 3, "more": [', r"results: 3: is not a list"),
    ],
)
def test_a_wrong_value_in_json_is_refused_with_its_field(old: str, new: str, reason: str) -> None:
    text = as_json("all_reduce", gpus=8, each=4)
    assert old in text
    with pytest.raises(InputError, match=reason):
        run(text.replace(old, new))


def test_a_table_whose_first_lines_were_not_kept_is_read_if_it_lists_its_gpus() -> None:
    text = table("all_reduce", (1024, "sum", -1, 1.5, "0"), (4096, "sum", -1, 1.5, "0"), name=False)
    lines = [line for line in text.splitlines(keepends=True) if "nThread" not in line]
    assert calls(run("".join(lines)).job) == calls(run(text).job)
    assert calls(run("".join(line.removeprefix("#") for line in text.splitlines(keepends=True))).job) == calls(
        run(text).job
    )
    heading = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    rows = [heading, *(line for line in lines if "Rank" not in line)]
    assert [row.format for row in guess([text_source("x", "".join(rows))])] == ["nccl-tests"]
    with pytest.raises(InputError, match=r"does not list its GPUs.*: keep the lines '# Rank 0 Group 0 Pid ..'"):
        run("".join(rows))
