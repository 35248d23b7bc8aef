"""Expected iteration times with links shared flow by flow: finer than ``expected``, to report and compare plans.

``expected`` takes the flows of a stage as one that ends at once. Here each flow has its own max-min fair rate
and leaves its links when it ends (docs/explanation/objective.md).
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import FloatArray
from controller.model.timing import JobTimes, PlanTimes
from controller.model.tolerances import TOLERANCE
from controller.routing.kernels.times import flow_iterations as kernel
from controller.routing.problem.demand import Demand
from controller.routing.times.expected import (
    DRAWS,
    ITERATIONS,
    expected_seconds,
    mean_slowdown,
    schedule_bound,
    sending_seconds,
)
from controller.routing.times.flow_problem import flow_iterations
from controller.routing.times.ordered_estimate import OrderedDraws
from controller.routing.times.stages import Stages, has_times

MOST_COMPARED = 10_000_000
"""Flows and entries examined for the rates of all draws of all plans that are compared: about a tenth of a second."""

MOST_REPORTED = 25_000_000
"""The same, to report one plan."""

MOST_REFINED = 20_000_000
"""The same, for all plans that are tried one after the other."""

TRIED = 100_000
"""Entries that a tried plan counts in addition: its input takes as long."""

MOST_STEPS = 16
"""Most steps in which a ring is sent."""

UNSHIFTED_DRAWS = 5
"""Draws of random phases with which schedules are compared: together as long as the simulation of one."""

LASTING = 32
"""Length of a long draw, in the same: what happens once, as a job is pushed into a gap of another, is a small part."""

SHORT = 2
"""Length of a short draw, in iterations of the longest job: enough to tell good plans from bad ones."""


def plan_times(demand: Demand, assignment: Assignment) -> PlanTimes | None:
    """Return the iteration times of jobs under an assignment; ``None`` if no job states its computing times.

    Where one draw flow by flow is too much work (``MOST_REPORTED``), the flows of a stage are one that ends at once.
    """
    if not has_times(demand.traffic):
        return None
    stages = Stages.of(demand)
    played = _played(stages, [assignment], MOST_REPORTED)
    if played is not None and isinstance(played[0], OrderedDraws):
        return PlanTimes(played[0].rows(), played[0].slowdown(), schedule_bound(stages))
    sending = sending_seconds(stages, assignment, DRAWS) if played is None else played[0].sending()
    seconds = stages.by_job(stages.compute + sending)
    compute = stages.by_job(stages.compute)
    phase = stages.demand.traffic.phase[stages.row]
    rows = tuple(
        JobTimes(name, weight, own, alone, took, 1.0 - own / took, tuple(zip(phases, sends, strict=True)))
        for name, weight, own, alone, took, phases, sends in zip(
            stages.names,
            stages.weight.tolist(),
            compute.tolist(),
            stages.alone.tolist(),
            seconds.tolist(),
            stages.split(phase),
            stages.split(sending),
            strict=True,
        )
    )
    return PlanTimes(rows, mean_slowdown(stages, seconds), schedule_bound(stages))


def flow_slowdowns(stages: Stages, assignments: Sequence[Assignment]) -> list[float] | None:
    """Return the expected slowdown of each assignment, over the same random phases.

    ``None`` where one draw is more work than ``MOST_COMPARED``.
    """
    played = _played(stages, assignments, MOST_COMPARED)
    return None if played is None else [plan.slowdown() for plan in played]


def expected_slowdown(stages: Stages, assignment: Assignment, draws: int = DRAWS) -> float:
    """Return the mean expected slowdown; where no job states an order, with the flows of a stage as one."""
    if stages.order is None:
        return mean_slowdown(stages, expected_seconds(stages, assignment, draws))
    (slowdown,) = flow_slowdowns(stages, [assignment]) or [1.0]
    return slowdown


def _draws_of(stages: Stages, assignment: Assignment) -> _Draws | OrderedDraws:
    return _Draws.of(stages, assignment) if stages.order is None else OrderedDraws.of(stages, assignment, stages.order)


def _played(
    stages: Stages, assignments: Sequence[Assignment], most_examined: int
) -> list[_Draws] | list[OrderedDraws] | None:
    """Return the draws of each assignment, over the same random phases.

    There are as many draws as ``most_examined`` allows, at most ``DRAWS``; ``None`` where it allows no draw.
    """
    if stages.order is not None:
        return _played_in_order(
            stages, [OrderedDraws.of(stages, each, stages.order) for each in assignments], most_examined
        )
    plans = [_Draws.of(stages, assignment) for assignment in assignments]
    spent = 0
    for number, offset in enumerate(_offsets(stages)):
        if spent * (number + 1) > most_examined * number:
            break
        for plan in plans:
            spent += plan.play(offset, ITERATIONS, most_examined - spent)
            if spent > most_examined:
                return None
    return plans


def _played_in_order(stages: Stages, plans: list[OrderedDraws], most_examined: int) -> list[OrderedDraws]:
    """Return the same where jobs state an order: no coarser estimate knows it, so there is a short draw at least."""
    offsets, spent = _offsets(stages), 0
    for number, offset in enumerate(offsets):
        if spent * (number + 1) > most_examined * number:
            break
        # What is too much for a short draw of the first plan is so for whole ones of all.
        length = SHORT if number == 0 else ITERATIONS
        for plan in plans:
            spent += plan.play(offset, length, sys.maxsize)
    return plans


def is_unhindered(stages: Stages, assignment: Assignment) -> bool:
    """Return whether no stage is slower than alone in any draw; ``False`` also where that is too much work to know."""
    plan, spent = _draws_of(stages, assignment), 0
    # Where no link can be full, flows have the same rates in each draw.
    offsets = _offsets(stages) if plan.is_limited else _offsets(stages)[:1]
    # A plan that is hindered at all mostly is so in the first short draw.
    for length in (SHORT, ITERATIONS):
        for offset in offsets:
            spent += plan.play(offset, length, MOST_COMPARED - spent)
            if spent > MOST_COMPARED or plan.slowdown() > 1.0 + TOLERANCE:
                return False
    return True


def fastest(stages: Stages, assignments: Sequence[Assignment]) -> int | None:
    """Return which assignment has the lowest expected slowdown, the first of equal ones.

    Where all draws of all assignments are more work than ``MOST_COMPARED``, draws are short, and after each of them the
    slower half of the assignments drops out (successive halving: Jamieson and Talwalkar, AISTATS 2016). ``None`` where
    one short draw of each is more work.
    """
    plans, offsets = [_draws_of(stages, assignment) for assignment in assignments], _offsets(stages)
    most = MOST_COMPARED if stages.order is None else sys.maxsize
    first = plans[0].play(offsets[0], SHORT, most) * len(plans)
    if first * len(offsets) * ITERATIONS // SHORT <= MOST_COMPARED:
        slowdowns = flow_slowdowns(stages, assignments)
        if slowdowns is not None:
            return int(np.argmin(slowdowns))
    if first > most:
        return None
    for plan in plans[1:]:
        plan.play(offsets[0], SHORT, most)
    if not all(plan.is_known for plan in plans):
        # What such a job takes is known from a long draw only; by a short one, good plans drop out.
        for plan in plans:
            plan.play(offsets[0], ITERATIONS, most)
    left = list(range(len(plans)))
    for number, offset in enumerate(offsets):
        for i in left if number else ():
            plans[i].play(offset, SHORT, most)
        # Sorting keeps the order of equal ones.
        left = sorted(left, key=lambda i: plans[i].slowdown())[: (len(left) + 1) // 2]
        if len(left) == 1:
            break
    return left[0]


def job_seconds(
    stages: Stages, assignment: Assignment, draws: int, most_examined: int = sys.maxsize
) -> tuple[FloatArray, int]:
    """Return the expected seconds [J] of an iteration by the first so many draws, and the entries examined.

    Where these are more than ``most_examined``, the seconds are not to be used.
    """
    plan, examined = _draws_of(stages, assignment), TRIED
    for offset in _offsets(stages)[:draws]:
        if examined <= most_examined:
            examined += plan.play(offset, ITERATIONS, most_examined - examined)
    return plan.seconds(), examined


def lasting_seconds(stages: Stages, assignment: Assignment) -> FloatArray:
    """Return the mean seconds [J] of an iteration over few long draws, with rings in steps if no job states an order.

    A job that completes none takes as long as a draw.
    """
    if stages.order is not None:
        plan = OrderedDraws.of(stages, assignment, stages.order)
        for offset in _offsets(stages)[:UNSHIFTED_DRAWS]:
            plan.play(offset, LASTING, sys.maxsize)
        return plan.seconds()
    return scheduled_seconds(stages, assignment, *_at_random(stages), MOST_STEPS)[0]


def scheduled_seconds(
    stages: Stages, assignment: Assignment, begins: FloatArray, hold: FloatArray, most_steps: int
) -> tuple[FloatArray, int]:
    """Return the mean seconds [J] of an iteration in long draws, and the entries examined.

    A job that completes no iteration takes as long as a draw. No job states an order.

    Args:
        stages: the stages of the jobs.
        assignment: the paths.
        begins: [D, J] as of a ``Trial``.
        hold: [J] as of a ``Trial``.
        most_steps: in which rings are sent.
    """
    problem = flow_iterations(stages, assignment, most_steps)
    horizon = LASTING * float(stages.alone.max(initial=0.0))
    took, ended, examined = np.zeros(len(stages.names)), np.zeros(len(stages.names)), TRIED
    for begin in begins:
        played = kernel.play(problem, -begin, hold, horizon, sys.maxsize)
        took, ended, examined = took + played.took, ended + played.ended, examined + int(played.examined)
    seconds: FloatArray = np.maximum(np.where(ended > 0, took / np.maximum(ended, 1), horizon), stages.alone)
    return seconds, examined


def _at_random(stages: Stages) -> tuple[FloatArray, FloatArray]:
    """Return begins and holds of jobs in random phases."""
    return -_offsets(stages)[:UNSHIFTED_DRAWS], np.zeros(len(stages.names))


class Estimate:
    """The expected slowdowns of plans that are tried one after the other, over the same draws."""

    def __init__(self, stages: Stages) -> None:
        """Begin without a plan."""
        self._stages, self._spent, self._most = stages, 0, 0

    @property
    def affords_one_more(self) -> bool:
        """Whether another plan may be tried: all of them together examine ``MOST_REFINED`` entries at most."""
        return self._spent + self._most <= MOST_REFINED

    def slowdown(self, assignment: Assignment) -> float:
        """Return the expected slowdown of a plan."""
        plan = _draws_of(self._stages, assignment)
        examined = TRIED + sum(plan.play(offset, ITERATIONS, sys.maxsize) for offset in _offsets(self._stages))
        self._spent, self._most = self._spent + examined, max(self._most, examined)
        return plan.slowdown()


@dataclass(eq=False)
class _Draws:
    """The draws of one plan so far: the seconds [S] for which each stage was sent, and how often."""

    stages: Stages
    problem: kernel.FlowIterations
    busy: FloatArray
    sent: FloatArray

    @staticmethod
    def of(stages: Stages, assignment: Assignment) -> _Draws:
        return _Draws(stages, flow_iterations(stages, assignment), *np.zeros((2, len(stages.row))))

    @property
    def is_limited(self) -> bool:
        """Whether there is a link that flows could fill."""
        return len(self.problem.links.capacity) > 0

    @property
    def is_known(self) -> bool:
        """Whether draws tell of each job how long it takes: here also parts of iterations do."""
        return True

    def play(self, offset: FloatArray, length: int, most_examined: int) -> int:
        """Simulate so many iterations of the longest job; return the entries examined."""
        horizon = length * float(self.stages.alone.max(initial=0.0))
        played = kernel.play(self.problem, offset, np.zeros(len(offset)), horizon, most_examined)
        self.busy += played.busy
        self.sent += played.sent
        return int(played.examined)

    def sending(self) -> FloatArray:
        """Return the mean seconds [S] that each stage is sent."""
        send, often = self.stages.send, np.where(self.sent > 0, self.sent, 1.0)
        # Apart from rounding, no stage is faster than alone.
        sending: FloatArray = np.maximum(np.where(self.sent > 0, self.busy / often, send), send)
        return sending

    def seconds(self) -> FloatArray:
        """Return the mean seconds [J] of an iteration so far."""
        return self.stages.by_job(self.stages.compute + self.sending())

    def slowdown(self) -> float:
        """Return the mean slowdown so far."""
        return mean_slowdown(self.stages, self.seconds())


def _offsets(stages: Stages) -> FloatArray:
    """Return the draws [DRAWS, J] of seconds by which each job has advanced in its iteration; the same in each call."""
    return np.random.default_rng(0).random((DRAWS, len(stages.names))) * stages.alone


@dataclass(frozen=True, eq=False)
class Trial:
    """A plan, and when its jobs begin: what ``trial_slowdowns`` simulates.

    Attributes:
        assignment: the paths.
        begins: [D, J] seconds after which each job begins its first iteration, by draw; negative: it began before.
        hold: [J] period in seconds of a grid that has this time, to which iterations are held; 0: they follow at once.
        length: of each draw, in iterations of the longest job.
    """

    assignment: Assignment
    begins: FloatArray
    hold: FloatArray
    length: int

    def play(self, stages: Stages, draws: FloatArray, most_steps: int, most_examined: int) -> tuple[float, int]:
        """Return the mean slowdown over draws [D, J] of ``begins``, and the entries examined."""
        problem = flow_iterations(stages, self.assignment, most_steps)
        horizon = self.length * float(stages.alone.max(initial=0.0))
        slowdowns, spent = [], 0
        for begins in draws:
            played = kernel.play(problem, -begins, self.hold, horizon, most_examined - spent)
            spent += int(played.examined)
            seconds = np.where(played.ended > 0, played.took / np.maximum(played.ended, 1), horizon)
            slowdowns.append(mean_slowdown(stages, np.maximum(seconds, stages.alone)))
        return float(np.mean(slowdowns)), spent


def unshifted_trial(stages: Stages, assignment: Assignment) -> Trial:
    """Return the trial of a plan without shifts, over random phases."""
    return Trial(assignment, *_at_random(stages), ITERATIONS)


def trial_slowdowns(stages: Stages, trials: Sequence[Trial], most_examined: int) -> list[float]:
    """Return the mean slowdowns of the first trials, of as many as ``most_examined`` allows.

    The flows of rings are sent in steps (``ring_steps``). Where that is too much work for all trials, long ones have a
    quarter of their length, and else rings one step, too.
    """
    if not trials or not len(stages.names):
        return [1.0] * len(trials)
    short = dataclasses.replace(trials[0], length=SHORT)
    # What is too much for a short draw is so for whole trials, too.
    examined = {steps: short.play(stages, short.begins[:1], steps, most_examined // 4)[1] for steps in (MOST_STEPS, 1)}
    for most_steps, part in ((MOST_STEPS, 1), (MOST_STEPS, 4), (1, 4)):
        shorter = [dataclasses.replace(each, length=max(ITERATIONS, each.length // part)) for each in trials]
        length = np.cumsum([each.length * len(each.begins) for each in shorter])
        count = int(np.searchsorted(length * examined[most_steps], most_examined * SHORT, side="right"))
        if count == len(trials):
            break
    return [each.play(stages, each.begins, most_steps, most_examined)[0] for each in shorter[:count]]
