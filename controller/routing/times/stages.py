"""Stages: the parts of a job's iteration, for all jobs of a traffic, as arrays.

A job computes, sends the collectives of its first phase, computes, sends those of the next, and so on, repeatedly.
The collectives of a phase are taken as one: the job goes on when all of them have ended. In a job that states what
collectives wait for, each collective is a stage (``PhaseOrder``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.priority import shares as priority_shares
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.routing.problem.demand import Demand
from controller.routing.times.phase_order import (
    PhaseOrder,
    PhaseStages,
    computing_of_period,
    has_order,
    order_of,
    phases_of_job,
    ranks_in_order,
)


def has_times(traffic: Traffic) -> bool:
    """Return whether some job states its computing times."""
    return any(map(attrgetter("timing"), traffic.collectives))


@dataclass(frozen=True, eq=False)
class Stages:
    """S stages of J jobs in order; jobs without traffic, or with unroutable traffic, have no stages.

    Attributes:
        demand: the traffic with a collective for each stage; ``row`` gives the collective of each stage.
        names: [J] of the jobs.
        weight: [J].
        first: [J+1] where each job's stages begin.
        row: [S] collective of ``demand``.
        compute: [S] seconds of computing before the stage; of a phase with several stages at the first of them.
        send: [S] seconds that the stage takes alone.
        order: what stages wait for, if some job states it; ``None``: each stage waits for its computing, and that for
            the stage before.
        chosen: [J] a class of priority for all stages of each job; negative: those of the traffic. ``None``: all are.
    """

    demand: Demand
    names: tuple[str, ...]
    weight: FloatArray
    first: Int64Array
    row: IntArray
    compute: FloatArray
    send: FloatArray
    order: PhaseOrder | None = None
    chosen: IntArray | None = None

    @staticmethod
    def of(demand: Demand) -> Stages:
        """Return the stages of the traffic of a demand."""
        return Stages.on(demand.fabric, demand.traffic)

    @staticmethod
    def on(fabric: Fabric, traffic: Traffic) -> Stages:
        """Return the stages of a traffic; a job without computing times sends all the time, phase after phase."""
        ordered = has_order(traffic.collectives)
        rank = ranks_in_order(traffic) if ordered else np.zeros(len(traffic.collectives), dtype=np.int64)
        keys = np.stack([traffic.job_index, traffic.phase, rank], axis=1)
        pairs, sample, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        number = inverse.reshape(-1).astype(np.int32)
        merged = Traffic(
            traffic.src,
            traffic.dst,
            traffic.bytes,
            number[traffic.collective],
            traffic.number,
            traffic.udp_src,
            tuple(traffic.collectives[k] for k in sample.tolist()),
        )
        whole = Demand.of(fabric, merged)
        flows = np.bincount(merged.collective, minlength=len(pairs))
        names, weight, first, row, compute, send = [], [], [0], [], [], []
        phases: list[list[PhaseStages]] = []
        of_phases: list[list[float]] = []
        # Pairs are in order of jobs.
        sending = np.flatnonzero(flows > 0)
        begins = np.searchsorted(pairs[sending, 0], np.arange(len(traffic.jobs) + 1)).tolist()
        for name, begin, end in zip(traffic.jobs, begins, begins[1:], strict=False):
            mine = sending[begin:end]
            seconds = whole.ideal_seconds[mine]
            if not len(mine) or np.isnan(seconds).any():
                continue
            numbers, at = np.unique(pairs[mine, 1], return_index=True)
            if ordered:
                phases.append(phases_of_job(fabric, merged, mine.tolist(), whole.ideal_seconds))
                rest, before = _computing_beside(merged.collectives[mine[0]], phases[-1])
            else:
                rest, before = _computing(merged.collectives[mine[0]], seconds)
            of_phase = [before.get(number, 0.0) for number in numbers.tolist()]
            # Computing before phases that send nothing on this network still takes its time.
            of_phase[0] += rest + sum(before.values()) - sum(of_phase)
            of_phases.append(of_phase)
            compute_of = np.zeros(len(mine))
            compute_of[at] = of_phase
            names.append(name)
            weight.append(merged.collectives[mine[0]].weight)
            row += mine.tolist()
            compute += compute_of.tolist()
            send += seconds.tolist()
            first.append(len(row))
        return Stages(
            whole,
            tuple(names),
            np.array(weight, dtype=np.float64),
            np.array(first, dtype=np.int64),
            np.array(row, dtype=np.int32),
            np.array(compute, dtype=np.float64),
            np.array(send, dtype=np.float64),
            order_of(phases, of_phases) if ordered else None,
        )

    @cached_property
    def job(self) -> IntArray:
        """[S] the job of each stage."""
        return np.repeat(np.arange(len(self.names), dtype=np.int32), np.diff(self.first))

    @cached_property
    def alone(self) -> FloatArray:
        """[J] seconds of an iteration without other jobs; if a job states what stages wait for, at least so many."""
        if self.order is not None:
            return np.add.reduceat(self.order.alone, self.order.first[:-1]) if len(self.names) else np.zeros(0)
        total: FloatArray = self.by_job(self.compute + self.send)
        return total

    def classified(self, chosen: IntArray) -> Stages:
        """Return the stages if jobs have these classes of priority [J]; negative: those of the traffic."""
        return dataclasses.replace(self, chosen=chosen)

    @property
    def priority(self) -> IntArray:
        """[S] the class of priority of each stage."""
        stated = self.demand.traffic.priority[self.row]
        if self.chosen is None:
            return stated
        own = self.chosen[self.job]
        return np.where(own >= 0, own, stated).astype(np.int32)

    @property
    def rate_share(self) -> FloatArray:
        """[S] proportions of the rates of flows that share a full link: weights of jobs, and classes of priority."""
        share: FloatArray = self.weight[self.job] * priority_shares(self.priority)
        return share

    def split(self, values: FloatArray | IntArray) -> list[Any]:
        """Return values [S] as a list for each job."""
        return [part.tolist() for part in np.split(values, self.first[1:-1])] if len(self.names) else []

    def by_job(self, values: FloatArray) -> FloatArray:
        """Return the sums [J] of values [S] by job."""
        return np.bincount(self.job, weights=values, minlength=len(self.names)).astype(np.float64)


def _computing(row: Collective, send: FloatArray) -> tuple[float, dict[int, float]]:
    """Return the derived seconds of computing before the first stage, and the stated ones by phase."""
    timing = row.timing
    if timing is None:
        return 0.0, {}
    if timing.period_seconds is not None:
        return max(0.0, timing.period_seconds - float(send.sum())), {}
    return 0.0, dict(timing.compute)


def _computing_beside(row: Collective, phases: list[PhaseStages]) -> tuple[float, dict[int, float]]:
    """Return the same for a job whose stages may overlap with computing."""
    timing = row.timing
    if timing is None or timing.period_seconds is None:
        return _computing(row, np.zeros(0))
    return computing_of_period(phases, timing.period_seconds), {}
