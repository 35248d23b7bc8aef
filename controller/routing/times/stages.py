"""Stages: the parts of a job's iteration, for all jobs of a traffic, as arrays.

A job computes, sends the collectives of its first phase, computes, sends those of the next, and so on, repeatedly.
The collectives of a phase are taken as one: the job goes on when all of them have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.routing.problem.demand import Demand


def has_times(traffic: Traffic) -> bool:
    """Return whether some job states its computing times."""
    return any(map(attrgetter("timing"), traffic.collectives))


@dataclass(frozen=True, eq=False)
class Stages:
    """S stages of J jobs in order; jobs without traffic, or with unroutable traffic, have no stages.

    Attributes:
        demand: the traffic with a collective for each (job, phase); ``row`` gives the collective of each stage.
        names: [J] of the jobs.
        weight: [J].
        first: [J+1] where each job's stages begin.
        row: [S] collective of ``demand``.
        compute: [S] seconds of computing before the stage.
        send: [S] seconds that the stage takes alone.
    """

    demand: Demand
    names: tuple[str, ...]
    weight: FloatArray
    first: Int64Array
    row: IntArray
    compute: FloatArray
    send: FloatArray

    @staticmethod
    def of(demand: Demand) -> Stages:
        """Return the stages of a traffic; a job without computing times sends all the time, phase after phase."""
        traffic = demand.traffic
        keys = np.stack([traffic.job_index, traffic.phase], axis=1)
        pairs, inverse = np.unique(keys, axis=0, return_inverse=True)
        number = inverse.reshape(-1).astype(np.int32)
        sample = [int(np.flatnonzero(number == s)[0]) for s in range(len(pairs))]
        merged = Traffic(
            traffic.src,
            traffic.dst,
            traffic.bytes,
            number[traffic.collective],
            traffic.number,
            traffic.udp_src,
            tuple(traffic.collectives[k] for k in sample),
        )
        whole = Demand.of(demand.fabric, merged)
        flows = np.bincount(merged.collective, minlength=len(pairs))
        names, weight, first, row, compute, send = [], [], [0], [], [], []
        for j, name in enumerate(traffic.jobs):
            mine = np.flatnonzero((pairs[:, 0] == j) & (flows > 0))
            seconds = whole.ideal_seconds[mine]
            if not len(mine) or np.isnan(seconds).any():
                continue
            rest, before = _computing(merged.collectives[mine[0]], seconds)
            compute_of = [before.get(int(pairs[s, 1]), 0.0) for s in mine]
            # Computing before phases that send nothing on this network still takes its time.
            compute_of[0] += rest + sum(before.values()) - sum(compute_of)
            names.append(name)
            weight.append(merged.collectives[mine[0]].weight)
            row += mine.tolist()
            compute += compute_of
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
        )

    @cached_property
    def job(self) -> IntArray:
        """[S] the job of each stage."""
        return np.repeat(np.arange(len(self.names), dtype=np.int32), np.diff(self.first))

    @cached_property
    def alone(self) -> FloatArray:
        """[J] seconds of an iteration without other jobs."""
        total: FloatArray = self.by_job(self.compute + self.send)
        return total

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
