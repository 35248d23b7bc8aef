"""Task graphs of FlexFlow become messages and computations that wait for each other."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.dag import Dag
from controller.model.errors import InputError
from controller.model.waits import FOR_COMPUTING
from controller.workload.collectives import flows_of
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from emulation.fluid.dag import ideal_switch, run
from tests.unit.laws import examples


def table(builder: Any, *fields: tuple[str, Any]) -> int:
    """A table with fields in order of the schema; zeros are left out, as FlatBuffers has it."""
    builder.StartObject(len(fields))
    for i, (kind, value) in enumerate(fields):
        add = {
            "b": builder.PrependInt8Slot,
            "i": builder.PrependInt32Slot,
            "u": builder.PrependUint64Slot,
            "f": builder.PrependFloat32Slot,
            "o": builder.PrependUOffsetTRelativeSlot,
        }[kind]
        add(i, value, 0)
    return int(builder.EndObject())


def vector(builder: Any, values: list[int], *, offsets: bool) -> int:
    size = 4 if offsets else 8
    builder.StartVector(size, len(values), size)
    for value in reversed(values):
        (builder.PrependUOffsetTRelative if offsets else builder.PrependUint64)(value)
    return int(builder.EndVector())


def graph(
    nodes: int, tasks: list[tuple[int, int, int, float, int, list[int]]], devices: list[tuple[int, int, int]]
) -> bytes:
    """Args: tasks: (type, number, device, ms, bytes, next). devices: (number, node, number among links)."""
    b = flatbuffers.Builder(1024)
    rows = []
    for kind, number, device, ms, size, following in tasks:
        after = vector(b, following, offsets=False)
        rows.append(table(b, ("b", kind), ("u", number), ("u", device), ("f", ms), ("u", size), ("o", after)))
    task_rows = vector(b, rows, offsets=True)
    seats = [table(b, ("b", 0), ("u", number), ("i", node), ("i", link)) for number, node, link in devices]
    device_rows = vector(b, seats, offsets=True)
    empty = vector(b, [], offsets=True)
    speeds = [("f", 1.0), ("f", 1.0), ("f", 12.5e6)]
    tables = [("o", at) for at in (empty, empty, task_rows, device_rows, empty)]
    b.Finish(table(b, ("i", 1), ("i", nodes), ("i", 1), *speeds, *tables))
    return bytes(b.Output())


def read(content: bytes, request: ImportRequest = ImportRequest()) -> Imported:  # noqa: B008 (frozen)
    return importer("taskgraph")([Source("x.fbuf", lambda: io.BytesIO(content), len(content))], request)


def seconds(imported: Imported, gbps: float = 100.0) -> float:
    assert isinstance(imported.dag, Dag)
    return run(imported.dag, ideal_switch(imported.dag, gbps)).seconds


# Node 0 computes 4 ms, sends node 1 12.5 MB (1 ms at 100 Gbit/s), both reduce 25 MB (a ring of two: 25 MB each way).
DEVICES = [(100, 0, 0), (101, 1, 1), (200, -1, 1)]
TASKS = [
    (0, 1, 100, 4.0, 0, [2]),
    (5, 2, 200, 1.0, 12_500_000, [3]),
    (1, 3, 101, 3.0, 0, [4]),
    (6, 4, 0, 0.0, 25_000_000, [0, 1]),
]


def test_a_graph_is_computed_sent_and_reduced_in_its_order() -> None:
    imported = read(graph(2, TASKS, DEVICES), ImportRequest(graph=True))
    assert seconds(imported) == pytest.approx((4 + 1 + 3 + 2) * 1e-3)
    assert dict(zip(imported.job.flows.dst, imported.job.flows.bytes.tolist(), strict=True)) == {
        "rank1": 12_500_000 + 25_000_000,
        "rank0": 25_000_000,
    }


def test_the_example_is_the_graph_above() -> None:
    example = Path(__file__).parents[4] / "examples" / "taskgraph" / "two-nodes.fbuf"
    assert example.read_bytes() == graph(2, TASKS, DEVICES)


@settings(deadline=None, max_examples=examples(15, 90))
@given(n=st.integers(2, 6), size=st.integers(1, 10**9))
def test_a_ring_takes_as_long_as_its_bytes_on_one_link(n: int, size: int) -> None:
    """2 (n - 1) / n of the bytes, each rank to the next (Patarasuk and Yuan)."""
    imported = read(graph(n, [(6, 1, 0, 0.0, size, list(range(n)))], []), ImportRequest(graph=True))
    part = -(-size // n)
    assert imported.job.flows.bytes.tolist() == [2 * (n - 1) * part] * n
    assert seconds(imported) == pytest.approx(2 * (n - 1) * part * 8e-9 / 100)


def test_a_job_keeps_the_groups_of_all_reduces_beside_the_messages() -> None:
    ring, other = [2, 0, 1], [0, 1, 2]
    tasks = [(6, 1, 0, 0.0, 30, ring), (6, 2, 0, 0.0, 12, ring), (6, 3, 0, 0.0, 5, other), (6, 4, 0, 0.0, 9, [1])]
    tasks.append((5, 5, 200, 0.0, 7, []))
    imported = read(graph(3, tasks, [(200, -1, 1)]))
    job = imported.job
    assert [(call.op, call.ranks, call.bytes) for call in job.collectives] == [
        ("all_reduce", (2, 0, 1), 42),
        ("all_reduce", (0, 1, 2), 5),
    ]
    assert (job.flows.src, job.flows.dst, job.flows.bytes.tolist()) == (("rank0",), ("rank1",), [7])
    assert parse_job(document_of(job)).collectives == job.collectives


@settings(deadline=None, max_examples=examples(15, 90))
@given(st.lists(st.tuples(st.permutations(range(5)).map(lambda p: p[:3]), st.integers(1, 10**6)), max_size=6))
def test_with_and_without_the_graph_the_same_bytes_are_sent(reductions: list[tuple[list[int], int]]) -> None:
    """Up to the rounding of the parts of a buffer, of which each member has one."""
    tasks: list[Any] = [(6, i, 0, 0.0, size, ranks) for i, (ranks, size) in enumerate(reductions)]
    content = graph(5, [*tasks, (5, 99, 200, 0.0, 7, [])], [(200, -1, 1)])
    summed, apart = (read(content, ImportRequest(graph=kept)).job for kept in (True, False))
    sent = apart.flows.bytes.sum() + sum(int(flows_of(call).bytes.sum()) for call in apart.collectives)
    assert abs(int(summed.flows.bytes.sum()) - int(sent)) <= 12 * len(reductions)


@pytest.mark.parametrize(("expected_ms", "overlaps"), [(0.0, True), (7.0, True), (9.0, False)])
def test_what_the_graph_need_not_wait_for_overlaps_with_its_computing(expected_ms: float, overlaps: bool) -> None:
    """Two nodes compute two layers of 4 ms; the first is reduced, and a message sent, while they compute the second."""
    tasks = [
        *((1, number, 99 + number, 4.0, 0, [number + 2, 5, 7][: 3 if number == 1 else 2]) for number in (1, 2)),
        *((1, number, 97 + number, 4.0, 0, [6]) for number in (3, 4)),
        (6, 5, 0, 0.0, 30, [0, 1]),
        (6, 6, 0, 0.0, 20, [1, 0]),
        (5, 7, 200, expected_ms, 9, []),
    ]
    job = read(graph(2, tasks, DEVICES)).job
    assert job.timing is not None
    assert dict(job.timing.compute) == pytest.approx({0: 8e-3})
    assert [(call.ranks, call.waits.computing) for call in job.collectives] == [((0, 1), False), ((1, 0), True)]
    assert job.waits_by_name.get("messages", FOR_COMPUTING).computing is not overlaps
    again = parse_job(document_of(job))
    assert (again.waits_by_name, again.timing) == (job.waits_by_name, job.timing)


def test_a_graph_that_computes_for_too_long_is_refused() -> None:
    with pytest.raises(InputError, match=r"x.fbuf: tasks: an iteration would compute for 1e\+07 s, more than 1000000"):
        read(graph(1, [(0, 1, 100, 1e10, 0, [])], [(100, 0, 0)]))


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ([(0, 1, 100, 1.0, 0, [9])], r"tasks\[0\].nexttasks: 9: no task has this number"),
        ([(0, 1, 999, 1.0, 0, [])], r"tasks\[0\].deviceid: 999: no device has this number"),
        ([(6, 1, 0, 1.0, 5, [0, 7])], r"tasks\[0\]: 7: there are 2 nodes"),
        ([(6, 1, 0, 1.0, 5, [0, 1, 0])], r"tasks\[0\]: an all-reduce has a node twice"),
        ([(9, 1, 100, 1.0, 5, [])], "is a task of an unsupported kind"),
        ([(0, 1, 100, 1.0, 0, []), (0, 1, 100, 1.0, 0, [])], "two tasks have this number"),
        ([(0, 1, 100, 1.0, 0, [2]), (0, 2, 101, 1.0, 0, [1])], "2 tasks of ranks 0, 1 wait for each other"),
        ([], "has no task"),
    ],
)
def test_what_is_no_graph_is_refused_with_its_field(tasks: list[Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(graph(2, tasks, DEVICES))


@settings(deadline=None, max_examples=examples(40, 240))
@given(at=st.integers(0, 500), byte=st.integers(0, 255), cut=st.integers(0, 100))
def test_damaged_files_are_read_or_refused_in_one_line(at: int, byte: int, cut: int) -> None:
    content = bytearray(graph(2, TASKS, DEVICES))
    if at < len(content):
        content[at] = byte
    try:
        read(bytes(content[: len(content) - cut]))
    except InputError as error:
        assert "\n" not in str(error)


# Files, and the milliseconds of TopoOpt's own packet simulator; it has TCP and headers, which a fluid has not.
REAL = [("100vgg_16.fbuf", 210.4, 0.04), ("100candle_16.fbuf", 512.9, 0.08)]


@pytest.mark.parametrize(("file", "truth", "tolerance"), REAL)
def test_public_graphs_take_about_as_long_as_in_a_packet_simulator(
    shared_data: Path, file: str, truth: float, tolerance: float
) -> None:
    path = shared_data / "topoopt" / file
    imported = importer("taskgraph")(open_sources([path]), ImportRequest())
    assert imported.ranks == 16
    assert seconds(imported) * 1e3 == pytest.approx(truth, rel=tolerance)
    assert [row.format for row in guess(open_sources([path]))] == ["taskgraph"]
