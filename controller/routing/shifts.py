"""Plans in space and time: paths, and shifts of the jobs' iterations, searched together.

The slowdown of a schedule is defined in docs/explanation/objective.md ("Shifts"). From jobs that take turns with one
another, and from draws of shifts,
simulated annealing searches shifts and held periods on the paths of the plan without shifts. Then paths are searched
for the moments that the simulation of the best schedule has, and shifts for these paths, until neither improves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.timing import JobShift, Schedule
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array
from controller.routing import timed
from controller.routing.base import Options
from controller.routing.demand import Demand
from controller.routing.expected import iterations_of, log_arrays, schedule_bound
from controller.routing.flow_estimate import flow_slowdowns, schedule_slowdown
from controller.routing.kernels import shifts
from controller.routing.kernels.iterations import Iterations, Played, SpeedCache
from controller.routing.previous_plan import PreviousPlan
from controller.routing.stages import Stages, has_times

ITERATIONS = 40
"""Length of each simulation of a schedule, in iterations of the longest job."""

MOST_EVENTS = 20_000
"""Most events of each simulation; a limit for short jobs beside long ones."""

EVENTS_PER_ROUND = 50
"""Events simulated in all, for each round of ``Options.rounds``."""

WORK_PER_ROUND = 300
"""Links and entries examined for speeds in all (``SpeedCache.work``), for each round; many jobs reach this limit first,
because sets of sending jobs then seldom occur again."""

PLAYS_PER_JOB = 4000
"""Most simulations for each job: more gain little for few jobs."""

LASTING = 0.001
"""An exact ratio of periods may cost this part of the slowdown: its phases last beyond the simulated time."""

NEAR = 0.01
"""Relative distance of a held period from an exact ratio that is tried."""

STARTS = 3
"""Draws of shifts from which the search begins; they get half of the effort."""

ALTERNATIONS = 8
"""Most searches of paths, each followed by one of shifts."""


WAITING = 0.01
"""Gain over the plan without shifts that a schedule needs for jobs under way: they wait for their grids at first."""

_FOLLOWED = np.random.default_rng(0).random(4) * 1000.0
"""Times at which jobs under way begin to follow a schedule, in iterations of the longest job."""


@dataclass(frozen=True, eq=False)
class Shifts:
    """The shifts of J jobs (``Stages.names``).

    Attributes:
        shift: [J] seconds from the begin of the grid to that of the first iteration.
        hold: [J] held period in seconds; 0: iterations follow at once.
        slowdown: the mean slowdown on the paths of the search.
    """

    shift: FloatArray
    hold: FloatArray
    slowdown: float


@dataclass(frozen=True, eq=False)
class Simulator:
    """Schedules of jobs on given paths: their simulation, and the search for a better one."""

    stages: Stages
    iterations: Iterations
    cache: SpeedCache

    @staticmethod
    def of(stages: Stages, assignment: Assignment) -> Simulator:
        """Return a simulator of the jobs under an assignment."""
        return Simulator(stages, *iterations_of(stages, assignment))

    def play(self, shift: FloatArray, hold: FloatArray) -> tuple[Shifts, Played, Int64Array, FloatArray]:
        """Simulate a schedule; also return its states [M, J] and their durations [M]."""
        log = log_arrays(len(self.stages.names), MOST_EVENTS)
        mean, played = shifts.slowdown(self.iterations, self.cache, self._problem(), shift, hold, *log)
        return Shifts(shift, hold, float(mean)), played, log[0][: played.logged], log[1][: played.logged]

    def search(self, start: Shifts, rounds: int, parts: int, seed: int, movable: BoolArray) -> Shifts:
        """Search a better schedule for the movable jobs [J] with one of so many parts of the effort."""
        plays, work = self._plays(rounds) // parts, WORK_PER_ROUND * rounds // parts
        if not movable.any() or not plays:
            return self.play(start.shift, start.hold)[0]
        found = shifts.anneal(
            self.iterations, self.cache, self._problem(movable), start.shift, start.hold, plays, work,
            seed & 0xFFFFFFFF,
        )  # fmt: skip
        return Shifts(found[0], found[1], float(found[2]))

    def by_turns(self) -> FloatArray:
        """Return shifts [J] with which each job takes turns with one that it shares a link with, job after job.

        A stage of the job begins when one of the other job ends, or the reverse: whichever is the best beside the jobs
        that have a shift already. Where jobs and shared links form a forest, only that one is there (CASSINI, NSDI
        2024): if any two that share a link fit beside each other, so do all.
        """
        stages, problem, movable = self.stages, self._problem(), computing(self.stages)
        begin, end, first = problem.begin, problem.end, stages.first
        n_jobs = len(stages.names)
        # Jobs without a shift so far begin after the simulation.
        shift, hold = np.full(n_jobs, 2.0 * problem.horizon), np.zeros(n_jobs)
        for job, other in self._traversal():
            own, theirs = slice(first[job], first[job + 1]), slice(first[other], first[other + 1])
            choices = np.zeros(1)
            if movable[job] and other != job:
                ends = [np.subtract.outer(end[theirs], begin[own]), np.subtract.outer(begin[theirs], end[own])]
                choices = (shift[other] + np.concatenate(ends).ravel()) % stages.alone[job]
            slowdowns = []
            for choice in choices:
                shift[job] = choice
                slowdowns.append(self.play(shift, hold)[0].slowdown)
            shift[job] = choices[int(np.argmin(slowdowns))]
        return shift

    def _traversal(self) -> Iterator[tuple[int, int]]:
        """Yield each job after one that it shares a link with, together with that one; else with itself."""
        problem, n_jobs = self.iterations, len(self.stages.names)
        n_links = len(problem.link_ptr) - 1
        uses = np.zeros((n_links, n_jobs), dtype=np.bool_)
        uses[np.repeat(np.arange(n_links), np.diff(problem.link_ptr)), self.stages.job[problem.link_stage]] = True
        shared = uses.T.astype(np.int64) @ uses
        waiting = set(range(n_jobs))
        while waiting:
            queue = [(min(waiting),) * 2]
            for job, other in queue:
                if job in waiting:
                    waiting.remove(job)
                    yield job, other
                    queue += [(near, job) for near in np.flatnonzero(shared[job]).tolist() if near in waiting]

    def schedule(self, found: Shifts) -> Schedule:
        """Return the schedule in seconds by job; jobs without computing times have no shift."""
        stages, (_, played, _, _) = self.stages, self.play(found.shift, found.hold)
        took = np.where(played.ended > 0, played.took / np.maximum(played.ended, 1), played.seconds)
        busy = stages.by_job(played.busy)
        alone = np.where(busy > 0, stages.by_job(played.unhindered) / np.where(busy > 0, busy, 1.0), 1.0)
        rows = tuple(
            JobShift(
                stages.names[j],
                float(found.hold[j] or stages.alone[j]),
                float(found.shift[j]),
                bool(found.hold[j] > 0),
                # Apart from rounding, no iteration is shorter than alone.
                float(max(took[j], stages.alone[j])),
                float(alone[j]),
            )
            for j in np.flatnonzero(computing(stages)).tolist()
        )
        # A few iterations are simulated: what the first ones gain by an idle network is no gain in the long run.
        bound = schedule_bound(stages)
        return Schedule(rows, max(found.slowdown, bound), bound)

    def _plays(self, rounds: int) -> int:
        """Return the most simulations for this effort."""
        problem, stages = self._problem(), self.stages
        events = float((2.0 * np.diff(stages.first) * problem.horizon / stages.alone).sum())
        plays = EVENTS_PER_ROUND * rounds / max(1.0, min(events, problem.most_events))
        return int(min(plays, PLAYS_PER_JOB * len(stages.names)))

    def _problem(self, movable: BoolArray | None = None) -> shifts.ShiftProblem:
        stages = self.stages
        whole = np.cumsum(stages.compute + stages.send)
        end = whole - np.concatenate([[0.0], whole])[stages.first[:-1]][stages.job]
        return shifts.ShiftProblem(
            stages.alone, end - stages.send, end, stages.weight / stages.weight.sum(),
            np.flatnonzero(computing(stages) if movable is None else movable),
            ITERATIONS * float(stages.alone.max(initial=0.0)), MOST_EVENTS,
        )  # fmt: skip


def computing(stages: Stages) -> BoolArray:
    """Return whether each job [J] computes between its collectives, and so has something to shift."""
    return stages.by_job(stages.compute) > 0.0


def shift_only(demand: Demand, assignment: Assignment, rounds: int, seed: int) -> Schedule:
    """Return a schedule for fixed paths, which may be split."""
    stages = Stages.of(demand)
    simulator = Simulator.of(stages, assignment)
    return simulator.schedule(_lasting(simulator, _from_draws(simulator, rounds, STARTS, seed)))


def reuse_schedule(demand: Demand, assignment: Assignment, schedule: Schedule | None) -> Schedule | None:
    """Return an earlier schedule with its figures under an assignment; ``None`` where there was none.

    Jobs that it does not have begin at the begin of their grid.
    """
    if schedule is None or not has_times(demand.traffic):
        return None
    stages = Stages.of(demand)
    simulator = Simulator.of(stages, assignment)
    earlier = _kept_shifts(stages, schedule)[0]
    return simulator.schedule(simulator.play(earlier.shift, earlier.hold)[0])


def plan(
    demand: Demand, path: IntArray, previous: PreviousPlan | None, rounds: int, seed: int, options: Options
) -> tuple[IntArray, Schedule]:
    """Return the path class [U] of each unit, and the schedule of the jobs.

    Args:
        demand: the units to place.
        path: [U] the plan with the best levels.
        previous: the previous plan: its paths and shifts stay except where changes gain what ``options.churn_price``
            requires.
        rounds: effort of the search.
        seed: the seed of the search.
        options: the options of the policy.
    """
    problem = timed.Overlap.of(demand)
    stages = problem.stages
    plain = timed.plan(demand, path, previous, rounds, seed, options)
    if previous is None or previous.schedule is None or not previous.schedule.jobs:
        return _unless_worse(problem, plain, *_joint(problem, plain, rounds, seed), together=previous is None)
    kept_path, new_units = timed.kept(demand, previous)
    if new_units.any():
        kept_path = problem.search(kept_path, new_units, rounds, seed)
    simulator = Simulator.of(stages, demand.assignment(kept_path))
    start_shifts, new_jobs = _kept_shifts(stages, previous.schedule)
    kept = simulator.search(start_shifts, rounds, STARTS, seed, new_jobs)
    rows = {row.job for row in previous.schedule.jobs}
    if not new_units.any() and not new_jobs.any() and rows <= set(stages.names):
        return kept_path, simulator.schedule(kept)
    start = timed.plan(demand, path, None, rounds, seed, options)
    other_path, other = _joint(problem, start, rounds, seed)
    old, old_jobs = ~new_units, ~new_jobs & computing(stages)
    differs = (other.shift != kept.shift) | (other.hold != kept.hold)
    moved = max(_part(kept_path != other_path, old), _part(differs, old_jobs))
    # Jobs that keep their shifts are on their grids already; others would have to wait for new ones.
    together = _slowdown(problem, other_path, other, together=False) >= _slowdown(
        problem, kept_path, kept, together=True
    ) * (1.0 - options.churn_price * moved) * (1.0 - TOLERANCE)
    if not together:
        kept_path, kept = other_path, other
    return _unless_worse(problem, plain, kept_path, kept, together=together)


def _slowdown(problem: timed.Overlap, path: IntArray, found: Shifts, *, together: bool) -> float:
    """Return the expected slowdown of a schedule, by the finest affordable estimate; see ``_unless_worse``."""
    stages = problem.stages
    starts = [0.0] if together else (_FOLLOWED * float(stages.alone.max(initial=0.0))).tolist()
    by_flow = schedule_slowdown(stages, problem.demand.assignment(path), found.shift, found.hold, starts, ITERATIONS)
    return found.slowdown if by_flow is None else by_flow


def _unless_worse(
    problem: timed.Overlap, plain: IntArray, path: IntArray, found: Shifts, *, together: bool
) -> tuple[IntArray, Schedule]:
    """Return paths with the schedule that was found for them, or a plan without shifts if it is expected to be as fast.

    Args:
        problem: the units and the jobs.
        plain: [U] the plan without shifts.
        path: [U] the plan that the schedule is for.
        found: the schedule.
        together: whether all jobs begin at the begin of the grids; if not, some are under way, and begin to follow at a
            time that is not known.
    """
    demand, stages = problem.demand, problem.stages
    reached = _slowdown(problem, path, found, together=together)
    without = flow_slowdowns(stages, [demand.assignment(plain)])
    if without is None or reached <= _most(without[0], together):
        return path, Simulator.of(stages, demand.assignment(path)).schedule(found)
    bound = schedule_bound(stages)
    return plain, Schedule((), max(without[0], bound), bound)


def _most(without: float, together: bool) -> float:
    """Return the highest slowdown at which a schedule is advised instead of a plan without shifts."""
    most = without * (1.0 + TOLERANCE)
    return most if together else max(1.0 + TOLERANCE, min(most, without * (1.0 - WAITING)))


def _part(which: BoolArray, of: BoolArray) -> float:
    return float(which[of].mean()) if of.any() else 0.0


def _joint(problem: timed.Overlap, path: IntArray, rounds: int, seed: int) -> tuple[IntArray, Shifts]:
    """Search paths and shifts in turns."""
    demand, stages = problem.demand, problem.stages
    movable = computing(stages)
    simulator = Simulator.of(stages, demand.assignment(path))
    best = _from_draws(simulator, rounds, 2 * STARTS, seed)
    everyone = np.ones(demand.n_units, dtype=np.bool_)
    for turn in range(ALTERNATIONS):
        if best.slowdown <= 1.0 + TOLERANCE:
            break
        _, _, states, seconds = simulator.play(best.shift, best.hold)
        other_path = problem.at(states, seconds).search(path, everyone, rounds // ALTERNATIONS, seed + turn)
        other_simulator = Simulator.of(stages, demand.assignment(other_path))
        other = other_simulator.search(best, rounds, 2 * ALTERNATIONS, seed + turn, movable)
        if other.slowdown < best.slowdown * (1.0 - TOLERANCE):
            path, best, simulator = other_path, other, other_simulator
    return path, _lasting(simulator, best)


def _lasting(simulator: Simulator, found: Shifts) -> Shifts:
    """Return the schedule with held periods in exact ratios to others, where these are near and cost little."""
    alone, most = simulator.stages.alone, found.slowdown * (1.0 + LASTING)
    for j in np.flatnonzero(found.hold > 0).tolist():
        bases = np.delete(np.where(found.hold > 0, found.hold, alone), j)
        periods = np.outer(bases, shifts.RATIOS).ravel()
        near = (np.abs(periods / found.hold[j] - 1.0) <= NEAR) & (periods >= alone[j])
        for period in sorted(periods[near].tolist(), key=lambda each: abs(each - found.hold[j])):
            hold = found.hold.copy()
            hold[j] = period
            other = simulator.play(found.shift % np.where(hold > 0, hold, alone), hold)[0]
            if other.slowdown <= most:
                found = other
                break
    return found


def _from_draws(simulator: Simulator, rounds: int, parts: int, seed: int) -> Shifts:
    """Return the best schedule found from several draws of shifts, each with one part of the effort.

    In the first, jobs take turns.
    """
    stages = simulator.stages
    movable = computing(stages)
    n_jobs = len(stages.names)
    draws = np.random.default_rng(seed).random((STARTS, n_jobs))
    found = []
    for number, draw in enumerate(draws):
        drawn = draw * stages.alone if number else simulator.by_turns()
        start = Shifts(np.where(movable, drawn, 0.0), np.zeros(n_jobs), np.inf)
        found.append(simulator.search(start, rounds, parts, seed + number, movable))
        if found[-1].slowdown <= 1.0 + TOLERANCE:
            break
    return min(found, key=lambda each: each.slowdown)


def _kept_shifts(stages: Stages, schedule: Schedule) -> tuple[Shifts, BoolArray]:
    """Return the earlier shifts of the jobs, and which jobs [J] are new; a held period that is too short is dropped."""
    rows = [schedule.shift_of(name) for name in stages.names]
    shift = np.array([0.0 if row is None else row.shift_seconds for row in rows])
    hold = np.array([row.period_seconds if row is not None and row.hold else 0.0 for row in rows])
    hold[hold < stages.alone * (1.0 - TOLERANCE)] = 0.0
    new = np.array([row is None for row in rows], dtype=np.bool_)
    return Shifts(shift, hold, np.inf), new & computing(stages)
