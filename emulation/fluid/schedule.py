"""The schedule of a job's epoch: the steps that the simulator runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array, Traffic
from emulation.fluid.state import Program


@dataclass(frozen=True, eq=False)
class JobSchedule:
    """G groups and T transfers of one job; docs/reference/simulator.md says what a group is.

    Attributes:
        collective: [G] index into the job's collectives, for results.
        repeat: [G] runs of the group, one after the other.
        delay: [G] seconds of computation before the first.
        before, after: [N] group ``after`` waits for group ``before``.
        group: [T] ascending.
        flow: [T] of the job's traffic.
        bytes: [T] in one run, positive.
        lane: [G] groups of one lane compute one after the other, in the order in which they become ready; -1: no lane.
            Empty: no group has a lane.
    """

    collective: IntArray
    repeat: Int64Array
    delay: FloatArray
    before: IntArray
    after: IntArray
    group: IntArray
    flow: IntArray
    bytes: FloatArray
    lane: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def lanes(self) -> IntArray:
        """Lane of each group [G], -1 without one."""
        return self.lane if len(self.lane) else np.full(self.n_groups, -1, dtype=np.int32)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.repeat)


def one_step_each(traffic: Traffic, repeat: Int64Array | None = None) -> JobSchedule:
    """Every collective is one group, phase after phase.

    Args:
        traffic: of one job.
        repeat: [K] steps that each collective's bytes are sent in; ``None``: one.

    >>> from controller.model.traffic import Collective
    >>> pair = np.array([0, 1], np.int32)
    >>> traffic = Traffic(pair, pair[::-1], pair * 0 + 600, pair * 0, pair, pair + 50000, (Collective("j", "ring"),))
    >>> one_step_each(traffic, np.array([2])).bytes
    array([300., 300.])
    """
    n = len(traffic.collectives)
    steps = np.ones(n, dtype=np.int64) if repeat is None else np.maximum(repeat, 1)
    order = np.argsort(traffic.collective, kind="stable").astype(np.int32)
    before, after = by_phase(traffic.phase, np.arange(n), np.arange(n))
    group = traffic.collective[order]
    return JobSchedule(
        collective=np.arange(n, dtype=np.int32),
        repeat=steps.astype(np.int64),
        delay=np.zeros(n),
        before=before,
        after=after,
        group=group,
        flow=order,
        bytes=traffic.bytes[order] / steps[group],
    )


def by_phase(phase: IntArray, last: IntArray | Int64Array, first: IntArray | Int64Array) -> tuple[IntArray, IntArray]:
    """Return (before, after) such that collectives of a phase wait for all collectives of the previous phase.

    Args:
        phase: [K] phase of each collective.
        last: [K] the group that ends each collective.
        first: [K] the group that begins each collective.
    """
    pairs: list[tuple[int, int]] = []
    phases = np.unique(phase)
    for earlier, later in itertools.pairwise(phases):
        pairs += [(a, b) for a in last[phase == earlier].tolist() for b in first[phase == later].tolist()]
    ends: IntArray = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return ends[:, 0].copy(), ends[:, 1].copy()


@dataclass(frozen=True)
class SimulatedJob:
    """A job that computes and communicates by turns.

    Attributes:
        traffic: the job's flows alone.
        compute_seconds: before the communication of each epoch.
        epochs: how many; then it leaves.
        start: seconds, when it comes.
        least_seconds: that the schedule's computing and waiting take at least, on any network.
        alone_seconds: that the schedule takes at least without other jobs, if what its collectives wait for decides it.
    """

    name: str
    traffic: Traffic
    schedule: JobSchedule
    compute_seconds: float = 0.0
    epochs: int = 1
    start: float = 0.0
    least_seconds: float = 0.0
    alone_seconds: float | None = None


def joined(jobs: Sequence[SimulatedJob]) -> tuple[Traffic, JobSchedule, Int64Array]:
    """All jobs as one traffic and one schedule, and [J+1] where each job's groups begin."""
    if not jobs:
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        empty = JobSchedule(none, none.astype(np.int64), nothing, none, none, none, none, nothing)
        return Traffic.empty(), empty, np.zeros(1, dtype=np.int64)
    parts = [job.traffic for job in jobs]
    first_flow = np.cumsum([0, *(part.n_flows for part in parts)])
    first_collective = np.cumsum([0, *(len(part.collectives) for part in parts)])
    first_group = np.cumsum([0, *(job.schedule.n_groups for job in jobs)])

    def column(name: str, offset: Int64Array | None = None) -> IntArray:
        values = [getattr(job.schedule, name) for job in jobs]
        if offset is not None:
            values = [value + start for value, start in zip(values, offset.tolist(), strict=False)]
        joint: IntArray = np.concatenate(values)
        return joint

    traffic = Traffic(
        src=np.concatenate([part.src for part in parts]),
        dst=np.concatenate([part.dst for part in parts]),
        bytes=np.concatenate([part.bytes for part in parts]),
        collective=np.concatenate(
            [part.collective + k for part, k in zip(parts, first_collective.tolist(), strict=False)]
        ),
        number=np.concatenate([part.number for part in parts]),
        udp_src=np.concatenate([part.udp_src for part in parts]),
        collectives=tuple(row for part in parts for row in part.collectives),
    )
    schedule = JobSchedule(
        collective=column("collective", first_collective),
        repeat=column("repeat").astype(np.int64),
        delay=column("delay").astype(np.float64),
        before=column("before", first_group),
        after=column("after", first_group),
        group=column("group", first_group),
        flow=column("flow", first_flow),
        bytes=column("bytes").astype(np.float64),
        lane=_joined_lanes(jobs),
    )
    return traffic, schedule, first_group.astype(np.int64)


def _joined_lanes(jobs: Sequence[SimulatedJob]) -> IntArray:
    """[G]: no lane is of two jobs."""
    parts, first = [], 0
    for job in jobs:
        own = job.schedule.lanes
        parts.append(np.where(own >= 0, own + first, -1))
        first += int(own.max(initial=-1)) + 1
    lanes: IntArray = np.concatenate(parts).astype(np.int32)
    return lanes


def program_of(schedule: JobSchedule, first_group: Int64Array) -> Program:
    """Return the schedule of all jobs in the form that kernels read.

    Args:
        schedule: of all jobs, joined.
        first_group: [J+1] where the transfer groups of each job begin.
    """
    n = schedule.n_groups
    order = np.argsort(schedule.before, kind="stable")
    job = np.repeat(np.arange(len(first_group) - 1), np.diff(first_group))
    return Program(
        job=job.astype(np.int32),
        repeat=schedule.repeat,
        delay=schedule.delay,
        next_ptr=np.searchsorted(schedule.before[order], np.arange(n + 1)).astype(np.int64),
        following=schedule.after[order].astype(np.int64),
        waits_for=np.bincount(schedule.after, minlength=n).astype(np.int64),
        first_group=first_group,
        lane=schedule.lanes,
    )
