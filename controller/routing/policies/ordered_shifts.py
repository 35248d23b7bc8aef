"""Shifts of iterations where some job states what its collectives wait for, on given paths.

Such jobs are simulated flow by flow (``ordered_estimate``). From no shifts or earlier ones, and from draws, the shift
of one job after the other is set to the best of those at which one of its collectives begins when one of another job
ends, or the reverse, as long as the slowdown falls. Periods are not held.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, FloatArray
from controller.model.timing import JobShift, Schedule
from controller.model.tolerances import TOLERANCE
from controller.routing.kernels.times import ordered_iterations as kernel
from controller.routing.times.expected import mean_slowdown, schedule_bound
from controller.routing.times.ordered_estimate import ordered_iterations
from controller.routing.times.phase_order import PhaseOrder
from controller.routing.times.stages import Stages

ITERATIONS = 40
"""Length of each simulation, in iterations of the longest job, from all times of begin together."""

MOST_SEARCHED = 20_000_000
"""Entries examined by all simulations of a search, after which it ends: about a fifth of a second."""

DRAWS = 3
"""Draws of shifts from which the search begins, after that without shifts."""

MOST_CHOICES = 32
"""Most shifts of a job that are tried in turn; of more, as many are drawn."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """Shifts [J] of jobs, and what a simulation says of them.

    Attributes:
        shift: seconds from the begin of the grid to that of the first iteration.
        slowdown: the mean over jobs.
        seconds: [J] of an iteration.
        speed: [J] the seconds that the collectives of the job take alone, over those that they take.
    """

    shift: FloatArray
    slowdown: float
    seconds: FloatArray
    speed: FloatArray


@dataclass
class OrderedSimulator:
    """Jobs on given paths that begin their first iterations after given shifts.

    Attributes:
        starts: times at which the jobs begin to follow their grids.
        examined: entries examined by all simulations so far.
    """

    stages: Stages
    order: PhaseOrder
    problem: kernel.OrderedIterations
    starts: FloatArray
    examined: int = field(default=0, init=False)

    @staticmethod
    def of(stages: Stages, assignment: Assignment, order: PhaseOrder, starts: FloatArray) -> OrderedSimulator:
        """Return a simulator of the jobs under an assignment."""
        return OrderedSimulator(stages, order, ordered_iterations(stages, assignment, order), starts)

    def play(self, shift: FloatArray) -> Shifted:
        """Simulate shifts."""
        stages = self.stages
        horizon = ITERATIONS / len(self.starts) * float(stages.alone.max(initial=0.0))
        took, iterations = np.zeros((2, len(stages.names)))
        busy = np.zeros(len(stages.row))
        for start in self.starts:
            played = kernel.play(self.problem, -((shift - start) % stages.alone), horizon, sys.maxsize)
            took += played.took
            iterations += played.iterations
            busy += played.busy
            self.examined += int(played.examined) + len(stages.row)
        # Apart from rounding, no job is faster than alone; one that completed none takes at least as long as it lasted.
        seconds = np.where(iterations > 0, took / np.maximum(iterations, 1.0), kernel.LONGEST * horizon)
        seconds = np.maximum(seconds, stages.alone)
        alone, sent = stages.by_job(stages.send) * iterations, stages.by_job(busy)
        speed = np.minimum(1.0, np.divide(alone, sent, out=np.ones(len(alone)), where=sent > 0))
        return Shifted(shift, mean_slowdown(stages, seconds), seconds, speed)

    def search(self, start: FloatArray, movable: BoolArray, seed: int) -> Shifted:
        """Return the best shifts, those of jobs that are not movable [J] as given.

        The search begins with the given ones, and then with draws for the movable jobs.
        """
        drawn = np.random.default_rng(seed)
        best = self._descended(self.play(start), movable, drawn)
        for _ in range(DRAWS):
            if best.slowdown <= 1.0 + TOLERANCE or self.examined > MOST_SEARCHED or not movable.any():
                break
            other = np.where(movable, drawn.random(len(start)) * self.stages.alone, start)
            best = min(best, self._descended(self.play(other), movable, drawn), key=lambda each: each.slowdown)
        return best

    def schedule(self, best: Shifted) -> Schedule:
        """Return the schedule in seconds by job; jobs that do not compute have no shift."""
        stages, bound = self.stages, schedule_bound(self.stages)
        rows = tuple(
            JobShift(
                stages.names[j],
                float(stages.alone[j]),
                float(best.shift[j] % stages.alone[j]),
                hold=False,
                iteration_seconds=float(best.seconds[j]),
                compatibility=float(best.speed[j]),
            )
            for j in np.flatnonzero(stages.by_job(stages.compute) > 0).tolist()
        )
        return Schedule(rows, max(best.slowdown, bound), bound)

    def _descended(self, best: Shifted, movable: BoolArray, drawn: np.random.Generator) -> Shifted:
        """Return shifts that no other shift of one job makes better, or as good as the effort allows."""
        improved = True
        while improved:
            improved = False
            for j in drawn.permutation(np.flatnonzero(movable)).tolist():
                for choice in self._choices(best.shift, j, drawn):
                    if best.slowdown <= 1.0 + TOLERANCE or self.examined > MOST_SEARCHED:
                        return best
                    shift = best.shift.copy()
                    shift[j] = choice
                    other = self.play(shift)
                    if other.slowdown < best.slowdown * (1.0 - TOLERANCE):
                        best, improved = other, True
        return best

    def _choices(self, shift: FloatArray, job: int, drawn: np.random.Generator) -> list[float]:
        """Return shifts of a job at which a collective of it begins when one of another job ends, or the reverse."""
        stages, order = self.stages, self.order
        opened = np.cumsum(order.alone) - order.alone
        opened = opened - np.repeat(opened[order.first[:-1]], np.diff(order.first))
        begin = order.begin + np.repeat(opened, np.diff(order.stage_first))
        end = begin + stages.send
        own, theirs = stages.job == job, stages.job != job
        other = shift[stages.job[theirs]]
        choices = np.concatenate(
            [
                np.subtract.outer(other + end[theirs], begin[own]).ravel(),
                np.subtract.outer(other + begin[theirs], end[own]).ravel(),
            ]
        )
        different = np.unique(np.round(choices % stages.alone[job], 12))
        if len(different) > MOST_CHOICES:
            different = np.sort(drawn.choice(different, MOST_CHOICES, replace=False))
        every: list[float] = different.tolist()
        return every
