"""Expected iteration times of jobs of which some state what stages wait for, with links shared flow by flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import FloatArray
from controller.model.timing import CollectiveTimes, JobTimes
from controller.routing.kernels.times import ordered_iterations as kernel
from controller.routing.times.expected import mean_slowdown
from controller.routing.times.flow_problem import flow_iterations
from controller.routing.times.phase_order import PhaseOrder, has_order
from controller.routing.times.stages import Stages


@dataclass(eq=False)
class OrderedDraws:
    """The draws of one plan so far: sums over iterations (``kernel.OrderedPlayed``), and seconds of the longest."""

    stages: Stages
    order: PhaseOrder
    problem: kernel.OrderedIterations
    took: FloatArray
    iterations: FloatArray
    sending: FloatArray
    busy: FloatArray
    slack: FloatArray
    binds: FloatArray
    longest: float = 0.0

    @staticmethod
    def of(stages: Stages, assignment: Assignment, order: PhaseOrder) -> OrderedDraws:
        """Begin without draws."""
        took, iterations = np.zeros((2, len(stages.names)))
        busy, slack, binds = np.zeros((3, len(stages.row)))
        sending = np.zeros(len(order.compute))
        problem = ordered_iterations(stages, assignment, order)
        return OrderedDraws(stages, order, problem, took, iterations, sending, busy, slack, binds)

    @property
    def is_limited(self) -> bool:
        """Whether there is a link that flows could fill."""
        return len(self.problem.links.capacity) > 0

    @property
    def is_known(self) -> bool:
        """Whether draws tell of each job how long it takes: each has completed an iteration."""
        return bool((self.iterations > 0).all())

    def play(self, offset: FloatArray, length: int, most_examined: int) -> int:
        """Simulate so many iterations of the longest job; return the entries examined."""
        horizon = length * float(self.stages.alone.max(initial=0.0))
        played = kernel.play(self.problem, offset, horizon, most_examined)
        self.longest = max(self.longest, kernel.LONGEST * horizon)
        self.took += played.took
        self.iterations += played.iterations
        self.sending += played.sending
        self.busy += played.busy
        self.slack += played.slack
        self.binds += played.binds
        return int(played.examined)

    def seconds(self) -> FloatArray:
        """Return the mean seconds [J] of an iteration."""
        # A job that has completed none takes as long as the longest draw, however short: more would rule out a plan
        # for one slow job before a draw that is long enough for it.
        took = np.where(self.iterations > 0, self.took / self._often(self.iterations), self.longest)
        # Apart from rounding, no job is faster than alone.
        seconds: FloatArray = np.maximum(took, self.stages.alone)
        return seconds

    def slowdown(self) -> float:
        """Return the mean slowdown so far."""
        return mean_slowdown(self.stages, self.seconds())

    def rows(self) -> tuple[JobTimes, ...]:
        """Return the expected iteration of each job; with its collectives, if it states what these wait for."""
        stages, order = self.stages, self.order
        seconds, compute = self.seconds(), stages.by_job(stages.compute)
        often = self._often(self.iterations)
        table = stages.demand.traffic.collectives
        rows = []
        for j, name in enumerate(stages.names):
            phases = range(int(order.first[j]), int(order.first[j + 1]))
            own = [table[k] for k in stages.row[stages.first[j] : stages.first[j + 1]].tolist()]
            sends = [float(self.sending[p] / often[j]) for p in phases]
            numbers = [table[int(stages.row[order.stage_first[p]])].phase for p in phases]
            collectives = tuple(
                CollectiveTimes(
                    row.name,
                    float(self.busy[s] / often[j]),
                    float(self.binds[s] / often[j]),
                    float(self.slack[s] / often[j]),
                )
                for s, row in enumerate(own, start=int(stages.first[j]))
            )
            rows.append(
                JobTimes(
                    name,
                    float(stages.weight[j]),
                    float(compute[j]),
                    float(stages.alone[j]),
                    float(seconds[j]),
                    min(1.0, sum(sends) / float(seconds[j])),
                    tuple(zip(numbers, sends, strict=True)),
                    collectives if has_order(own) else (),
                )
            )
        return tuple(rows)

    @staticmethod
    def _often(iterations: FloatArray) -> FloatArray:
        often: FloatArray = np.maximum(iterations, 1.0)
        return often


def ordered_iterations(stages: Stages, assignment: Assignment, order: PhaseOrder) -> kernel.OrderedIterations:
    """Return the jobs, their flows and the links that can be full, for the simulation under an assignment."""
    flows = flow_iterations(stages, assignment)
    return kernel.OrderedIterations(
        order.first,
        order.compute,
        order.alone,
        order.stage_first,
        order.waits,
        order.after_first,
        order.after,
        order.begin,
        order.due,
        order.reach,
        stages.send,
        flows.stage_ptr,
        flows.gbit,
        flows.links,
    )
