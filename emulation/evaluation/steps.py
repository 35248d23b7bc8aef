"""Conversion of a job's collectives to communication steps: the ``JobSchedule`` of the simulator.

Steps of a collective are barriers if its algorithm has rounds (rings, halving and doubling, direct exchange), and
dependencies of single edges if data is forwarded (trees, chains). In all cases the steps move exactly the bytes of the
flows (``controller.workload.collectives``, which names the sources of the algorithms).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.job import CollectiveCall, Job
from controller.model.traffic import Int64Array, Traffic
from controller.workload.collectives import Flows, algorithm_of, one_channel
from controller.workload.rails import Servers
from emulation.fluid.schedule import JobSchedule


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one collective with F flows (of one channel): S steps, T parts of flows.

    Attributes:
        repeat: [S] number of runs of each step.
        before, after: step ``after`` waits for step ``before``.
        step, flow: [T] flow ``flow`` sends in step ``step``.
        share: [T] of the flow's bytes in one run of the step.
    """

    repeat: Int64Array
    before: IntArray
    after: IntArray
    step: IntArray
    flow: IntArray
    share: FloatArray

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.repeat)


def steps_of(call: CollectiveCall, flows: Flows, pieces: int = 1) -> Steps:
    """Return the steps of a described collective.

    Args:
        call: the collective.
        flows: the flows of one of its channels.
        pieces: number of parts in which trees and chains forward their data.
    """
    n, many = len(call.ranks), len(flows.src)
    match call.op, algorithm_of(call):
        case "all_reduce", "ring":
            # Patarasuk and Yuan 2009: a reduce-scatter and an all-gather of n - 1 steps each.
            return _rounds(many, [range(many)], repeat=2 * (n - 1))
        case (("all_gather" | "reduce_scatter"), "ring"):
            return _rounds(many, [range(many)], repeat=n - 1)
        case "all_reduce", "direct":
            return _rounds(many, [range(many)] * 2)
        case "all_reduce", "halving_doubling":
            return _rounds(many, _halving_doubling(n))
        case (("all_reduce" | "broadcast" | "reduce"), ("tree" | "chain")):
            return _passing_on(many, _waits(call, flows), pieces)
        case _:
            return _rounds(many, [range(many)])


def schedule_of(
    fabric: Fabric, job: Job, traffic: Traffic, *, pieces: int = 1, computing: Mapping[int, float] | None = None
) -> JobSchedule:
    """Return the steps of all collectives of a job, phase after phase.

    Args:
        fabric: the fabric of the job's hosts.
        job: the job.
        traffic: the flows of this job alone, as expanded on the fabric. Flows within a server take no time.
        pieces: as for ``steps_of``.
        computing: seconds by phase, with which collectives may overlap; then what collectives wait for counts, too.
            ``None``: those of a phase are sent together, and the schedule has no computing.
    """
    servers = Servers.of(fabric)
    hosts = np.array([fabric.host_index[name] for name in job.hosts], dtype=np.int64)
    described = {call.name: call for call in job.collectives}
    flow_of = np.split(np.argsort(traffic.collective, kind="stable"), _bounds(traffic))
    built = _Build()
    phases: dict[int, list[tuple[int, int]]] = {}
    for k, row in enumerate(traffic.collectives):
        own = flow_of[k]
        call = described.get(row.name)
        if call is None or _given_too(job, row.name):
            steps, many = _rounds(1, [range(1)]), 1
            number = np.zeros(len(own), dtype=np.int32)
        else:
            flows = one_channel(call, servers.server[hosts[np.array(call.ranks, dtype=np.int64)]])
            steps, many = steps_of(call, flows, pieces), max(len(flows.src), 1)
            # All QPs of a connection send in the connection's step, which ends with the last of them.
            number = traffic.number[own] // row.qps.count % many
        phases.setdefault(row.phase, []).append(built.add(k, steps, own, number, traffic.bytes))
    if computing is None:
        built.order(phases)
    else:
        built.order_in_phases(traffic, phases, computing)
    return built.schedule()


def _given_too(job: Job, name: str) -> bool:
    """Return whether flows or the matrix add to a described collective, in which case their step is not known."""
    return name in job.flows.collective or (job.matrix is not None and job.matrix.collective == name)


def _bounds(traffic: Traffic) -> Int64Array:
    bounds: Int64Array = np.cumsum(np.bincount(traffic.collective, minlength=len(traffic.collectives)))[:-1]
    return bounds


_Choice = Callable[[tuple[int, int]], list[int]]


class _Build:
    """Groups and transfers of a job, as they are added collective by collective."""

    def __init__(self) -> None:
        self.collective: list[int] = []
        self.repeat: list[int] = []
        self.edges: list[tuple[int, int]] = []
        self.delays: dict[int, float] = {}
        self.columns: list[tuple[Int64Array, Int64Array, FloatArray]] = []

    def add(self, k: int, steps: Steps, own: Int64Array, number: IntArray, size: Int64Array) -> tuple[int, int]:
        """Add collective ``k`` with flows ``own`` [F], flow ``number`` [F] of the steps; return groups (first, end)."""
        first = len(self.repeat)
        self.collective += [k] * steps.n_steps
        self.repeat += steps.repeat.tolist()
        self.edges += zip((steps.before + first).tolist(), (steps.after + first).tolist(), strict=True)
        order = np.argsort(steps.flow, kind="stable")
        start = np.searchsorted(steps.flow[order], number)
        count = np.searchsorted(steps.flow[order], number, side="right") - start
        flow = np.repeat(own, count)
        part = order[np.repeat(start - np.cumsum(count) + count, count) + np.arange(len(flow))]
        self.columns.append((steps.step[part].astype(np.int64) + first, flow, size[flow] * steps.share[part]))
        return first, len(self.repeat)

    def order(self, phases: dict[int, list[tuple[int, int]]]) -> None:
        """Let each phase wait for the previous one, by one empty group between them to limit the number of edges."""
        begins, ends = self._begins_and_ends()
        for earlier, later in itertools.pairwise(sorted(phases)):
            barrier = self._empty(self.collective[phases[later][0][0]])
            self.edges += [(g, barrier) for groups in phases[earlier] for g in ends(groups)]
            self.edges += [(barrier, g) for groups in phases[later] for g in begins(groups)]

    def order_in_phases(
        self, traffic: Traffic, phases: dict[int, list[tuple[int, int]]], computing: Mapping[int, float]
    ) -> None:
        """Let collectives wait for the computing of their phase or only for its begin, and for those they are after.

        Each phase has an empty group for its begin and one that computes; each collective has one for its end. For that
        the phase waits which follows its own, or the one until which it may take.
        """
        begins, ends = self._begins_and_ends()
        end_of: dict[str, int] = {}
        to_begin: list[int] = []
        awaited: dict[int, list[int]] = {}
        numbers = sorted(phases)
        for phase in numbers:
            k_first = self.collective[phases[phase][0][0]]
            opened = self._empty(k_first)
            self.edges += [(g, opened) for g in to_begin]
            computed = self._empty(k_first, computing.get(phase, 0.0))
            self.edges.append((opened, computed))
            to_begin = [computed]
            for groups in phases[phase]:
                row = traffic.collectives[self.collective[groups[0]]]
                gate = computed if row.waits.computing else opened
                self.edges += [(gate, g) for g in begins(groups)]
                end_of[row.name] = self._empty(self.collective[groups[0]])
                self.edges += [(g, end_of[row.name]) for g in ends(groups)]
                until = max(phase, phase if row.waits.until is None else row.waits.until)
                last = numbers[bisect.bisect_right(numbers, until) - 1]
                awaited.setdefault(last, []).append(end_of[row.name])
            to_begin += awaited.get(phase, [])
        for own in phases.values():
            for groups in own:
                waits = traffic.collectives[self.collective[groups[0]]].waits
                self.edges += [(end_of[name], g) for name in waits.after for g in begins(groups)]

    def _empty(self, k: int, seconds: float = 0.0) -> int:
        """Add a group that sends nothing, but may compute; return its number."""
        self.collective.append(k)
        self.repeat.append(1)
        self.delays[len(self.repeat) - 1] = seconds
        return len(self.repeat) - 1

    def _begins_and_ends(self) -> tuple[_Choice, _Choice]:
        """Return functions for those of some groups (first, end) that wait for none so far, and that none waits for."""
        waiting, waited = {after for _, after in self.edges}, {before for before, _ in self.edges}
        return (
            lambda groups: [g for g in range(*groups) if g not in waiting],
            lambda groups: [g for g in range(*groups) if g not in waited],
        )

    def schedule(self) -> JobSchedule:
        group, flow, size = (
            (np.concatenate(column) for column in zip(*self.columns, strict=True))
            if self.columns
            else (np.zeros(0), np.zeros(0), np.zeros(0))
        )
        order = np.argsort(group, kind="stable")
        edges = np.array(self.edges, dtype=np.int32).reshape(-1, 2)
        delay = np.zeros(len(self.repeat))
        delay[list(self.delays)] = list(self.delays.values())
        return JobSchedule(
            collective=np.array(self.collective, dtype=np.int32),
            repeat=np.array(self.repeat, dtype=np.int64),
            delay=delay,
            before=edges[:, 0].copy(),
            after=edges[:, 1].copy(),
            group=group[order].astype(np.int32),
            flow=flow[order].astype(np.int32),
            bytes=size[order].astype(np.float64),
        )


def _rounds(n_flows: int, rounds: Iterable[Iterable[int]], repeat: int = 1) -> Steps:
    """Return steps for consecutive rounds, each with some of the flows; a flow sends equal parts in all its rounds."""
    members = [np.array(list(each), dtype=np.int32) for each in rounds]
    times = np.bincount(np.concatenate([*members, np.zeros(0, dtype=np.int32)]), minlength=n_flows)
    flow = np.concatenate([*members, np.zeros(0, dtype=np.int32)])
    chain = np.arange(len(members) - 1, dtype=np.int32)
    return Steps(
        repeat=np.full(len(members), max(repeat, 1), dtype=np.int64),
        before=chain,
        after=chain + np.int32(1),
        step=np.repeat(np.arange(len(members), dtype=np.int32), [len(each) for each in members]),
        flow=flow,
        share=1.0 / (times[flow] * max(repeat, 1)),
    )


def _halving_doubling(n: int) -> list[range]:
    """Flows of each round, in ``halving_doubling.all_reduce``'s order: fold in, halve, double back, fold out."""
    power = 1 << (n.bit_length() - 1)
    outside = n - power
    halving = [range(outside + i * power, outside + (i + 1) * power) for i in range(power.bit_length() - 1)]
    last = outside + len(halving) * power
    rounds = [range(outside), *halving, *reversed(halving), range(last, last + outside)]
    return [each for each in rounds if len(each)]


def _waits(call: CollectiveCall, flows: Flows) -> list[tuple[int, int]]:
    """Return pairs (before, after) of edges: a rank must receive data before it forwards them.

    A rank of a binomial tree sends to one child after the other (Thakur et al. 2005, section 4.2: a step each).
    """
    if call.op == "all_reduce":
        return _double_tree(flows)
    src, dst = flows.src.tolist(), flows.dst.tolist()
    into: dict[int, list[int]] = {}
    for edge, receiver in enumerate(dst):
        into.setdefault(receiver, []).append(edge)
    pairs = [(before, edge) for edge, sender in enumerate(src) for before in into.get(sender, ()) if before != edge]
    if algorithm_of(call) == "chain":
        # A chain that reduces comes round to its root, which sends nothing.
        return pairs
    ends = into.values() if call.op == "reduce" else _by(src).values()
    return pairs + [pair for edges in ends for pair in itertools.pairwise(_by_bit(call, edges))]


def _by(ends: list[int]) -> dict[int, list[int]]:
    edges: dict[int, list[int]] = {}
    for edge, rank in enumerate(ends):
        edges.setdefault(rank, []).append(edge)
    return edges


def _by_bit(call: CollectiveCall, edges: list[int]) -> list[int]:
    """Return a rank's edges to its children in step order: edge e leads to child e + 1, the farthest is first."""
    return sorted(edges, reverse=call.op == "broadcast")


def _double_tree(flows: Flows) -> list[tuple[int, int]]:
    """Two trees, in each all edges up and then all edges down; a root turns round when it has heard all children."""
    pairs: list[tuple[int, int]] = []
    edges = len(flows.src) // 4
    for first in (0, 2 * edges):
        up, down = range(first, first + edges), range(first + edges, first + 2 * edges)
        into = _by(flows.dst[up.start : up.stop].tolist())
        heard = _by(flows.dst[down.start : down.stop].tolist())
        for edge in up:
            pairs += [(first + before, edge) for before in into.get(int(flows.src[edge]), ())]
        for edge in down:
            sender = int(flows.src[edge])
            above = heard.get(sender)
            pairs += [(down.start + before, edge) for before in above or ()]
            if not above:
                pairs += [(first + before, edge) for before in into.get(sender, ())]
    return pairs


def _passing_on(n_flows: int, waits: list[tuple[int, int]], pieces: int) -> Steps:
    """Return one step per edge and piece, which waits for the same piece on the edges before and for its last piece."""
    edge = np.arange(n_flows * pieces, dtype=np.int32) // pieces
    pairs = np.array(waits, dtype=np.int32).reshape(-1, 1, 2) * pieces + np.arange(pieces, dtype=np.int32)[:, None]
    follow = np.flatnonzero(np.arange(n_flows * pieces) % pieces).astype(np.int32)
    return Steps(
        repeat=np.ones(n_flows * pieces, dtype=np.int64),
        before=np.concatenate([pairs[..., 0].ravel(), follow - 1]).astype(np.int32),
        after=np.concatenate([pairs[..., 1].ravel(), follow]).astype(np.int32),
        step=np.arange(n_flows * pieces, dtype=np.int32),
        flow=edge,
        share=np.full(n_flows * pieces, 1.0 / pieces),
    )
