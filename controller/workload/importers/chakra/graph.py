"""The graph of tasks in Chakra's traces: the dependencies and computing times of nodes.

Nodes wait for those in ``data_deps`` and ``ctrl_deps``. The k-th run of a collective of a group on one rank is the k-th
on the others: it begins when all of them have reached it, and ends when all of its messages have arrived.
Computations of a rank's processor run one after the other, and those of its GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from controller.model.dag import Dag
from controller.model.job import CollectiveCall, Op
from controller.model.units import MICROSECOND
from controller.workload.collectives import flows_of
from controller.workload.importers.chakra.members import Members
from controller.workload.importers.chakra.protobuf import (
    BARRIER,
    COLLECTIVE,
    OPS,
    RECEIVE,
    SEND,
    attributes,
    nodes,
    whole,
)
from controller.workload.importers.chakra.trace import WORLD, RankTrace
from controller.workload.importers.goal.match import NO_LANE, GoalSchedule

_ON_GPU, _ON_CPU = 0, 1


@dataclass
class _Run:
    """One run of a collective: bytes from the ranks' traces, and the tasks at which each begins and ends it."""

    op: str
    ranks: tuple[int, ...]
    root: int
    size: int = 0
    begin: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)


def graph_of(by_rank: Mapping[int, RankTrace], members: Members) -> tuple[Dag, tuple[str, ...]]:
    """Build the graph of all ranks, and warnings.

    Raises:
        InputError: a node lacks a necessary attribute.
    """
    schedule = GoalSchedule(next(iter(by_rank.values())).source, members.n)
    runs: dict[tuple[object, ...], _Run] = {}
    for rank, trace in sorted(by_rank.items()):
        _Rank(schedule, rank, trace, members, runs).read()
    for run in runs.values():
        _messages(schedule, run)
    return schedule.dag(), tuple(schedule.warnings[:3])


class _Rank:
    """The nodes of one rank."""

    def __init__(
        self,
        schedule: GoalSchedule,
        rank: int,
        trace: RankTrace,
        members: Members,
        runs: dict[tuple[object, ...], _Run],
    ) -> None:
        self.schedule, self.rank, self.trace, self.members, self.runs = schedule, rank, trace, members, runs
        self.begin: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.times: dict[tuple[object, ...], int] = {}

    def read(self) -> None:
        waits: list[tuple[int, tuple[int, ...]]] = []
        for node, where in nodes(self.trace.source):
            self.begin[node.id], self.end[node.id] = self._add(node, where)
            waits.append((node.id, (*node.data_deps, *node.ctrl_deps)))
        for number, others in waits:
            for other in dict.fromkeys(others):
                # Converters drop nodes, and leave references to them.
                if other in self.end:
                    self.schedule.requires(self.begin[number], self.end[other])

    def _add(self, node: Any, where: str) -> tuple[int, int]:
        """Add a node and return the tasks with which it begins and ends."""
        has = attributes(node)
        if node.type in (SEND, RECEIVE) and ("comm_dst" if node.type == SEND else "comm_src") in has:
            return self._message(node.type, has, where)
        if node.type == COLLECTIVE and "comm_size" in has:
            number = whole(self.trace, has, "comm_type", where)
            if number != BARRIER:
                return self._collective(OPS.get(number, "all_reduce"), has, where)
        seconds = node.duration_micros * MICROSECOND
        lane = (_ON_CPU if has.get("is_cpu_op") is True else _ON_GPU) if seconds else NO_LANE
        task = self.schedule.build.computation(self.rank, seconds, lane)
        return task, task

    def _message(self, kind: int, has: Mapping[str, Any], where: str) -> tuple[int, int]:
        peer = whole(self.trace, has, "comm_dst" if kind == SEND else "comm_src", where)
        size = whole(self.trace, has, "comm_size", where)
        tag = whole(self.trace, has, "comm_tag", where) if "comm_tag" in has else 0
        add = self.schedule.send if kind == SEND else self.schedule.receive
        task = add(self.rank, peer, size, tag, f"{self.trace.source.name}: {where}")
        return task, task

    def _collective(self, op: str, has: Mapping[str, Any], where: str) -> tuple[int, int]:
        named = has.get("pg_name", has.get("comm_group", WORLD))
        group = self.trace.name_of(str(named)) if isinstance(named, (str, int)) else WORLD
        ranks = self.members.of(group)
        root = whole(self.trace, has, "root_rank", where) if "root_rank" in has else 0
        key = (ranks, op, root)
        number = self.times[key] = self.times.get(key, 0) + 1
        run = self.runs.setdefault((*key, number), _Run(op, ranks, root))
        run.size = max(run.size, whole(self.trace, has, "comm_size", where))
        build = self.schedule.build
        run.begin[self.rank] = build.computation(self.rank, 0.0, NO_LANE)
        run.end[self.rank] = build.computation(self.rank, 0.0, NO_LANE)
        return run.begin[self.rank], run.end[self.rank]


def _messages(schedule: GoalSchedule, run: _Run) -> None:
    """Add a run's messages between a task after all ranks' beginnings and one before their ends."""
    build, n = schedule.build, len(run.ranks)
    start, done = (build.computation(run.ranks[0], 0.0, NO_LANE) for _ in range(2))
    for task in run.begin.values():
        build.edge(task, start)
    for task in run.end.values():
        build.edge(done, task)
    build.edge(start, done)
    size = run.size * (n if run.op == "all_gather" else 1)
    root = run.root % n
    if run.op in ("gather", "scatter"):
        part = run.size if run.op == "gather" else -(-run.size // n)
        others = [rank for i, rank in enumerate(run.ranks) if i != root]
        rows = [
            (rank, run.ranks[root], part) if run.op == "gather" else (run.ranks[root], rank, part) for rank in others
        ]
    else:
        ranks = run.ranks[root:] + run.ranks[:root] if run.op in ("broadcast", "reduce") else run.ranks
        flows = flows_of(CollectiveCall("", cast(Op, run.op), ranks, size)) if n > 1 else None
        rows = (
            []
            if flows is None
            else [
                (ranks[src], ranks[dst], amount)
                for src, dst, amount in zip(flows.src.tolist(), flows.dst.tolist(), flows.bytes.tolist(), strict=True)
            ]
        )
    for src, dst, amount in rows:
        message = build.message(src, dst, amount)
        build.edge(start, message)
        build.edge(message, done)
