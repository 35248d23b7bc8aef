"""Importer ``taskgraph``: FlexFlow's task graphs in TopoOpt's form (FlatBuffers, ``*.fbuf``).

The schema is ``taskgraph.fbs`` of FlexFlow for TopoOpt (hipersys-team/TopoOpt): a table with the number of GPUs of a
node, of nodes and of switches, with tasks and with devices. A task is a computation (forward, backward, update; ms) of
a device, a message of bytes between two nodes (its device's number is sender x (nodes + switches) + receiver), or an
all-reduce of bytes among nodes, which are listed in place of the successors of other tasks. In the graph, an all-reduce
is a ring in the order of its nodes, step by step. The job has the all-reduces of each group of nodes as one collective,
so that another order of the ring may be chosen, beside the messages; a job that goes with the graph has the sum of both
for each pair of nodes. The job computes as long as the graph does if communication takes no time, and what may take
longer without that the graph does overlaps with this (``order``).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flatbuffers import number_types
from flatbuffers.table import Table

from controller.model.errors import InputError
from controller.model.job import CollectiveCall, Job
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.timing import JobTiming
from controller.model.waits import Waits
from controller.workload.importers.base import GraphRing, Imported, ImportRequest, Source
from controller.workload.importers.dags import MESSAGES, DagBuilder, imported
from controller.workload.importers.documents import content
from controller.workload.importers.fabrics.graph import one
from controller.workload.importers.fields import MAX_RANKS, job_name
from controller.workload.importers.head import Head
from controller.workload.importers.taskgraph.order import GraphOrder, GraphTask, order_of
from controller.workload.job_file import MAX_SECONDS

MAX_SIZE = 256 << 20
_GPUS, _NODES, _SWITCHES, _, _, _, _CONNECTIONS, _OPS, _TASKS, _DEVICES, _ROUTES = range(11)
_FORWARD, _BACKWARD, _MESSAGE, _ALL_REDUCE = 0, 1, 5, 6
_COMPUTING = (0, 1, 3)  # forward, backward, update
_WAITING = (4, 5)
_TASK_TYPES = {2: "communication", 7: "point-to-point", 8: "part of an all-reduce", 9: "all-reduce of copies"}
_NO_DEVICE = -1

_KINDS = {
    "int8": number_types.Int8Flags,
    "int32": number_types.Int32Flags,
    "float": number_types.Float32Flags,
    "uint64": number_types.Uint64Flags,
}


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if head.is_text or len(head.data) < 64:
        return ""
    try:
        root = _root(bytearray(head.data))
        nodes, gpus = _number(root, _NODES, "int32"), _number(root, _GPUS, "int32")
        fields = (root.Get(number_types.VOffsetTFlags, _vtable(root)) - 4) // 2
    except (struct.error, IndexError, TypeError, ValueError):
        return ""
    if fields == 11 and 1 <= nodes <= MAX_RANKS and 1 <= gpus <= 1024:
        return f"a task graph of FlexFlow (TopoOpt), of {int(nodes)} nodes"
    return ""


@dataclass
class _Ends:
    """The first and the last graph tasks of a task in the file."""

    begin: list[int]
    end: list[int]


@dataclass
class _Task:
    kind: int
    device: int
    ms: float
    bytes: int
    next: list[int]


@dataclass
class _File:
    source: Source
    nodes: int
    switches: int
    gpus: int
    devices: dict[int, tuple[int, int]] = field(default_factory=dict)  # by number: node, number among links or GPUs
    tasks: dict[int, _Task] = field(default_factory=dict)

    def error(self, reason: str, where: str, value: object = None) -> InputError:
        return InputError(reason, source=self.source.name, field=where, value=value)


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job with a rank for each node, and the graph of its tasks.

    Raises:
        InputError: the file is not a task graph, or a task has an unknown successor.
    """
    source = one(sources, "TopoOpt")
    try:
        file = _read(source)
    except (struct.error, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("is not a task graph of FlexFlow (FlatBuffers), or is truncated", source=source.name) from None
    build, steps = _build(file)
    dag = build.dag(file.nodes)
    reductions = {number: task for number, task in file.tasks.items() if task.kind == _ALL_REDUCE}
    name = request.name or job_name(source, "taskgraph")
    if request.graph:
        return imported(dag, name, source.name, len(reductions))
    of_rings = np.zeros(dag.n_tasks, dtype=np.bool_)
    for ring in steps:
        of_rings[ring.first : ring.end] = True
    order = order_of({number: _in_order(file, task) for number, task in file.tasks.items()})
    calls = _collectives(file, reductions, order)
    made = imported(dag, name, source.name, len(reductions), collectives=calls, of_collectives=of_rings)
    if order is not None:
        made = dataclasses.replace(made, job=_with_times(file, made.job, order))
    return dataclasses.replace(made, rings=tuple(steps))


def _in_order(file: _File, task: _Task) -> GraphTask:
    """Return a task as its order is examined: the nodes of an all-reduce are no tasks that wait for it."""
    computes = task.kind in _COMPUTING
    waits = task.kind in _WAITING and task.device not in file.devices
    return GraphTask(
        task.ms * 1e-3 if computes or waits else 0.0,
        file.devices[task.device] if computes else None,
        () if task.kind == _ALL_REDUCE else tuple(task.next),
        0.0 if computes or waits else task.ms * 1e-3,
    )


def _with_times(file: _File, job: Job, order: GraphOrder) -> Job:
    """Return the job with the time that the graph computes, and whether its messages overlap with that.

    Raises:
        InputError: it computes for longer than any job.
    """
    sizes = {number: task.bytes for number, task in file.tasks.items() if task.kind == _MESSAGE}
    if order.seconds > MAX_SECONDS:
        reason = f"an iteration would compute for {order.seconds:.3g} s, more than {MAX_SECONDS:.0f}"
        raise InputError(reason, field="tasks", source=file.source.name)
    waits = {MESSAGES: Waits(computing=False)} if job.flows.src and _mostly(sizes, order) else {}
    return dataclasses.replace(job, timing=JobTiming(((0, order.seconds),)), waits=waits)


def _mostly(sizes: Mapping[int, int], order: GraphOrder | None) -> bool:
    """Return whether most bytes of some tasks, by their numbers, overlap with computing."""
    beside = sum(size for number, size in sizes.items() if order is not None and number in order.overlapping)
    return 2 * beside > sum(sizes.values())


def _collectives(file: _File, reductions: Mapping[int, _Task], order: GraphOrder | None) -> tuple[CollectiveCall, ...]:
    """Return the all-reduces of more than one node, those of equal nodes in one; they have the names ``ar0`` and so on.

    Raises:
        InputError: the bytes of a group are more than any job has.
    """
    sizes: dict[tuple[int, ...], dict[int, int]] = {}
    for number, task in reductions.items():
        if len(task.next) > 1:
            sizes.setdefault(tuple(task.next), {})[number] = task.bytes
    for each in sizes.values():
        if sum(each.values()) > MAX_BYTES:
            raise file.error("all-reduces of one group have too many bytes", "tasks", sum(each.values()))
    return tuple(
        CollectiveCall(
            f"ar{i}", "all_reduce", ranks, sum(each.values()), "ring", waits=Waits(computing=not _mostly(each, order))
        )
        for i, (ranks, each) in enumerate(sizes.items())
    )


def _read(source: Source) -> _File:
    data = bytearray(content(source, MAX_SIZE))
    root = _root(data)
    gpus, nodes, switches = (int(_number(root, i, "int32")) for i in (_GPUS, _NODES, _SWITCHES))
    file = _File(source, nodes, switches, gpus)
    if not 1 <= nodes <= MAX_RANKS or not 1 <= gpus <= 1024 or not 0 <= switches <= MAX_RANKS:
        raise file.error("is not a number of nodes, of GPUs or of switches", "nnode", nodes)
    for device in _tables(root, _DEVICES):
        number = int(_number(device, 1, "uint64"))
        file.devices[number] = int(_number(device, 2, "int32")), int(_number(device, 3, "int32"))
    for i, row in enumerate(_tables(root, _TASKS)):
        number = int(_number(row, 1, "uint64"))
        if number in file.tasks:
            raise file.error("two tasks have this number", f"tasks[{i}].taskid", number)
        size = int(_number(row, 4, "uint64"))
        ms = float(_number(row, 3, "float"))
        if size > MAX_BYTES:
            raise file.error("is not a number of bytes", f"tasks[{i}].xfersize", size)
        if not 0 <= ms < 1e12:
            raise file.error("is not a time in ms", f"tasks[{i}].runtime", ms)
        kind, device_of = int(_number(row, 0, "int8")), int(_number(row, 2, "uint64"))
        file.tasks[number] = _Task(kind, device_of, ms, size, list(_numbers(row, 5)))
    if not file.tasks:
        raise file.error("has no task", "tasks")
    return file


def _build(file: _File) -> tuple[DagBuilder, list[GraphRing]]:
    """Return the tasks of the graph, and those of them that are steps of all-reduces."""
    build = DagBuilder()
    steps: list[GraphRing] = []
    ends: dict[int, _Ends] = {}
    for i, (number, task) in enumerate(file.tasks.items()):
        before = len(build)
        ends[number] = _add(file, build, task, f"tasks[{i}]")
        if task.kind == _ALL_REDUCE and len(task.next) > 1:
            steps.append(GraphRing(before, len(build), tuple(task.next)))
    for i, (number, task) in enumerate(file.tasks.items()):
        if task.kind == _ALL_REDUCE:
            continue
        for other in task.next:
            if other not in ends:
                raise file.error("no task has this number", f"tasks[{i}].nexttasks", other)
            for one_end in ends[number].end:
                for begin in ends[other].begin:
                    build.edge(one_end, begin)
    return build, steps


def _add(file: _File, build: DagBuilder, task: _Task, where: str) -> _Ends:
    if task.kind == _ALL_REDUCE and len(task.next) > 1:
        for rank in task.next:
            if not 0 <= rank < file.nodes:
                raise file.error(f"there are {file.nodes} nodes", where, rank)
        if len(set(task.next)) < len(task.next):
            raise file.error("an all-reduce has a node twice", where)
        return _ring(build, task.next, task.bytes)
    number = _single(file, build, task, where)
    return _Ends([number], [number])


def _single(file: _File, build: DagBuilder, task: _Task, where: str) -> int:
    if task.kind == _ALL_REDUCE:
        return build.computation(0, 0.0, _NO_DEVICE)  # of one node: nothing is sent
    if task.kind in _WAITING and task.device not in file.devices:
        return build.computation(0, task.ms * 1e-3, _NO_DEVICE)
    if task.device not in file.devices:
        raise file.error("no device has this number", f"{where}.deviceid", task.device)
    node, number = file.devices[task.device]
    if task.kind in _COMPUTING:
        if not 0 <= node < file.nodes:
            raise file.error(f"there are {file.nodes} nodes", f"{where}.deviceid", node)
        return build.computation(node, task.ms * 1e-3, number)
    if task.kind == _MESSAGE:
        src, dst = divmod(number, file.nodes + file.switches)
        if not (0 <= src < file.nodes and 0 <= dst < file.nodes):
            raise file.error(f"there are {file.nodes} nodes", f"{where}.deviceid", number)
        return build.message(src, dst, task.bytes)
    raise file.error(f"is a task of an unsupported kind ({_TASK_TYPES.get(task.kind, 'unknown')})", where, task.kind)


def _ring(build: DagBuilder, ranks: list[int], size: int) -> _Ends:
    """Add a ring all-reduce in its 2 (n - 1) steps: a rank sends in each step what it received in the one before."""
    n = len(ranks)
    part = -(-size // n)
    begin = [build.message(ranks[i], ranks[(i + 1) % n], part) for i in range(n)]
    last = begin
    for _ in range(2 * (n - 1) - 1):
        now = [build.message(ranks[i], ranks[(i + 1) % n], part) for i in range(n)]
        for i in range(n):
            build.edge(last[i - 1], now[i])
            build.edge(last[i], now[i])
        last = now
    return _Ends(begin, last)


# -- FlatBuffers -------------------------------------------------------------------------------------------------------


def _root(data: bytearray) -> Table:
    return Table(data, struct.unpack_from("<I", data)[0])


def _vtable(table: Table) -> int:
    at: int = table.Pos - table.Get(number_types.SOffsetTFlags, table.Pos)
    if at < 0:
        raise ValueError(at)
    return at


def _offset(table: Table, index: int) -> int:
    _vtable(table)
    return int(table.Offset(4 + 2 * index))


def _number(table: Table, index: int, kind: str) -> float:
    at = _offset(table, index)
    value: float = table.Get(_KINDS[kind], table.Pos + at) if at else 0
    return value


def _tables(table: Table, index: int) -> Iterator[Table]:
    at = _offset(table, index)
    for i in range(table.VectorLen(at) if at else 0):
        yield Table(table.Bytes, table.Indirect(table.Vector(at) + 4 * i))


def _numbers(table: Table, index: int) -> Iterator[int]:
    at = _offset(table, index)
    for i in range(table.VectorLen(at) if at else 0):
        yield int(table.Get(_KINDS["uint64"], table.Vector(at) + 8 * i))
