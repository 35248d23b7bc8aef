"""Expected iteration times with links shared flow by flow: finer than ``expected``, to report and compare plans.

``expected`` takes the flows of a stage as one that ends at once. Here each flow has its own max-min fair rate
and leaves its links when it ends (docs/explanation/objective.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import FloatArray
from controller.model.timing import JobTimes, PlanTimes
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Int64Array
from controller.routing.kernels.levels import progressive_filling
from controller.routing.kernels.times import flow_iterations as kernel
from controller.routing.kernels.times.flow_sharing import FlowLinks
from controller.routing.problem.demand import Demand
from controller.routing.times.expected import DRAWS, ITERATIONS, mean_slowdown, schedule_bound, sending_seconds
from controller.routing.times.stages import Stages, has_times

MOST_COMPARED = 10_000_000
"""Flows and entries examined for the rates of all draws of all plans that are compared: about a tenth of a second."""

MOST_REPORTED = 25_000_000
"""The same, to report one plan."""

MOST_STEPS = 16
"""Most steps in which a ring is sent."""

UNSHIFTED_DRAWS = 5
"""Draws of random phases with which schedules are compared: together as long as the simulation of one."""

SHORT = 2
"""Length of a short draw, in iterations of the longest job: enough to tell good plans from bad ones."""


def plan_times(demand: Demand, assignment: Assignment) -> PlanTimes | None:
    """Return the iteration times of jobs under an assignment; ``None`` if no job states its computing times.

    Where one draw flow by flow is too much work (``MOST_REPORTED``), the flows of a stage are one that ends at once.
    """
    if not has_times(demand.traffic):
        return None
    stages = Stages.of(demand)
    by_flow = sending_by_flow(stages, [assignment], MOST_REPORTED)
    sending = sending_seconds(stages, assignment, DRAWS) if by_flow is None else by_flow[0]
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
    by_flow = sending_by_flow(stages, assignments, MOST_COMPARED)
    if by_flow is None:
        return None
    return [mean_slowdown(stages, stages.by_job(stages.compute + sending)) for sending in by_flow]


def sending_by_flow(stages: Stages, assignments: Sequence[Assignment], most_examined: int) -> FloatArray | None:
    """Return the expected seconds [A, S] that each stage is sent under each assignment, over the same random phases.

    There are as many draws as ``most_examined`` allows, at most ``DRAWS``; ``None`` where it allows no draw.
    """
    plans = [_Draws.of(stages, assignment) for assignment in assignments]
    spent = 0
    for number, offset in enumerate(_offsets(stages)):
        if spent * (number + 1) > most_examined * number:
            break
        for plan in plans:
            spent += plan.play(offset, ITERATIONS, most_examined - spent)
            if spent > most_examined:
                return None
    return np.array([plan.sending() for plan in plans])


def is_unhindered(stages: Stages, assignment: Assignment) -> bool:
    """Return whether no stage is slower than alone in any draw; ``False`` also where that is too much work to know."""
    plan, spent = _Draws.of(stages, assignment), 0
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
    plans, offsets = [_Draws.of(stages, assignment) for assignment in assignments], _offsets(stages)
    first = plans[0].play(offsets[0], SHORT, MOST_COMPARED) * len(plans)
    if first * len(offsets) * ITERATIONS // SHORT <= MOST_COMPARED:
        slowdowns = flow_slowdowns(stages, assignments)
        if slowdowns is not None:
            return int(np.argmin(slowdowns))
    if first > MOST_COMPARED:
        return None
    left = list(range(len(plans)))
    for offset in offsets:
        for i in left if offset is not offsets[0] else left[1:]:
            plans[i].play(offset, SHORT, MOST_COMPARED)
        # Sorting keeps the order of equal ones.
        left = sorted(left, key=lambda i: plans[i].slowdown())[: (len(left) + 1) // 2]
        if len(left) == 1:
            break
    return left[0]


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

    def slowdown(self) -> float:
        """Return the mean slowdown so far."""
        return mean_slowdown(self.stages, self.stages.by_job(self.stages.compute + self.sending()))


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
    return Trial(assignment, -_offsets(stages)[:UNSHIFTED_DRAWS], np.zeros(len(stages.names)), ITERATIONS)


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


def ring_steps(stages: Stages, most: int) -> Int64Array:
    """Return the number of steps [S] in which each stage is sent: several for a stage of rings, else 1.

    In a ring each host forwards what it has received, so no flow is more than a step ahead of the next one, and flows
    of which one is slow all end late. An all-reduce takes ``2 (n - 1)`` steps; more than ``most`` change little.
    """
    traffic = stages.demand.traffic
    steps = np.ones(len(stages.row), dtype=np.int64)
    if most <= 1:
        return steps
    for s, row in enumerate(stages.row.tolist()):
        of = traffic.collective == row
        pairs = np.unique(np.stack([traffic.src[of], traffic.dst[of]]), axis=1)
        if np.array_equal(pairs[0], np.sort(pairs[1])) and len(np.unique(pairs[0])) == pairs.shape[1]:
            steps[s] = max(1, min(most, 2 * (pairs.shape[1] - 1)))
    return steps


def flow_iterations(stages: Stages, assignment: Assignment, most_steps: int = 1) -> kernel.FlowIterations:
    """Return the jobs, their flows and the links that can be full, for the simulation under an assignment.

    With ``most_steps`` above 1, each step of a ring is a stage, and only the first computes (``ring_steps``).
    """
    demand, fabric = stages.demand, stages.demand.fabric
    stage_of = np.full(len(demand.traffic.collectives), -1, dtype=np.int64)
    stage_of[stages.row] = np.arange(len(stages.row))
    stage = stage_of[demand.traffic.collective[assignment.flow]]
    gbps = demand.gbps[assignment.flow] * assignment.share
    used = np.flatnonzero((stage >= 0) & (gbps > 0))
    used = used[np.argsort(stage[used], kind="stable")]
    steps = ring_steps(stages, most_steps)
    begin = np.concatenate([[0], np.cumsum(steps)])
    of_step = np.repeat(np.arange(len(steps)), steps)
    first = np.searchsorted(stage[used], np.arange(len(steps) + 1))
    rows = [used[first[s] : first[s + 1]] for s in of_step.tolist()]
    step = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    used = np.concatenate([used[:0], *rows])
    stage, gbps, flow = stage[used], gbps[used], assignment.flow[used]
    number = np.arange(len(used) + 1)
    ptr, link, _ = progressive_filling.incidence(
        number[:-1],
        number,
        number,
        assignment.path[used],
        np.ones(len(used)),
        demand.traffic.src[flow],
        demand.traffic.dst[flow],
        demand.leaf_src[flow],
        demand.leaf_dst[flow],
        gbps,
        fabric.n_hosts,
        fabric.ways,
        len(fabric.link_gbps),
    )
    row = np.repeat(number[:-1], np.diff(ptr))
    most = np.full(len(used), np.inf)
    np.minimum.at(most, row, fabric.link_gbps[link])
    # Links that all flows together cannot fill limit none beyond its highest rate.
    together = np.bincount(link, weights=(most / steps[stage])[row], minlength=len(fabric.link_gbps))
    full = together > fabric.link_gbps * (1.0 + ROUNDING)
    kept = full[link]
    limiting, link = np.unique(link[kept], return_inverse=True)
    flow_link, entry_flow = link.reshape(-1), row[kept]
    by_link = np.argsort(flow_link, kind="stable")
    links = FlowLinks(
        most,
        stages.weight[stages.job[stage]],
        np.searchsorted(entry_flow, number),
        flow_link,
        np.searchsorted(flow_link[by_link], np.arange(len(limiting) + 1)),
        entry_flow[by_link],
        fabric.link_gbps[limiting],
    )
    compute = np.zeros(len(of_step))
    compute[begin[:-1]] = stages.compute
    send = stages.send / steps
    return kernel.FlowIterations(
        begin[stages.first],
        compute,
        send[of_step],
        np.searchsorted(step, np.arange(len(of_step) + 1)),
        gbps * send[stage],
        links,
    )
