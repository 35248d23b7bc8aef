"""Plans in space and time: paths, and shifts of the jobs' iterations, searched together.

The slowdown of a schedule is defined in docs/explanation/objective.md ("Shifts"). From jobs that take turns with one
another, and from draws of shifts,
simulated annealing searches shifts and held periods on the paths of the plan without shifts. Then paths are searched
for the moments that the simulation of the best schedule has, and shifts for these paths, until neither improves. Where
some job states what its collectives wait for, shifts are searched on the paths of the plan without shifts only
(``ordered_shifts``).
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
from controller.routing.base import Options
from controller.routing.kernels.times import shifts
from controller.routing.kernels.times.iterations import Iterations, Played, SpeedCache
from controller.routing.policies import timed
from controller.routing.policies.chosen_classes import Grids
from controller.routing.policies.ordered_shifts import OrderedSimulator, Shifted
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.times.expected import expected_seconds, iterations_of, log_arrays, mean_slowdown, schedule_bound
from controller.routing.times.flow_estimate import Trial, expected_slowdown, trial_slowdowns, unshifted_trial
from controller.routing.times.phase_order import PhaseOrder
from controller.routing.times.stages import Stages, has_times

ITERATIONS = 40
"""Length of each simulation of a schedule, in iterations of the longest job."""

MOST_EVENTS = 20_000
"""Most events of each simulation; a limit for short jobs beside long ones."""

EVENTS_PER_ROUND = 50
"""Events simulated in all, for each round of ``Options.rounds``."""

WORK_PER_ROUND = 80
"""Links and entries examined for speeds in all (``SpeedCache.work``), for each round; many jobs reach this limit first,
because sets of sending jobs then seldom occur again."""

PLAYS_PER_JOB = 4000
"""Most simulations for each job: more gain little for few jobs."""

LASTING = 0.001
"""An exact ratio of periods may cost this part of the slowdown: its phases last beyond the simulated time."""

NEAR = 0.01
"""Relative distance of a held period from an exact ratio that is tried."""

STARTS = 3
"""Draws of shifts from which the search begins where paths are fixed."""

PATH_DRAWS = 2
"""Draws of shifts for each plan from which the search of paths and shifts begins."""

TURNS = (6, 4, 2, 1, 1, 1)
"""How many of the best schedules are followed in each turn: a search of paths, then one of shifts."""

PARTS = 32
"""Each of these searches of shifts has one of so many parts of the effort."""

COMPARED = 8
"""Most schedules that are compared by the finest estimate."""

MOST_EXAMINED = 20_000_000
"""Flows and entries examined to compare them: about a fifth of a second."""


WAITING = 0.05
"""Gain that a schedule needs which changes the grids of jobs under way: each waits for its grid at first, for half a
period on average. With this gain that has paid after ten iterations."""

KEPT = 0.005
"""Part by which another plan must be faster than one that keeps the shifts: estimates differ by as much."""

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
        annealed = shifts.anneal(
            self.iterations,
            self.cache,
            self._problem(movable),
            start.shift,
            start.hold,
            plays,
            work,
            seed & 0xFFFFFFFF,
        )
        return Shifts(annealed[0], annealed[1], float(annealed[2]))

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

    def schedule(self, best: Shifts) -> Schedule:
        """Return the schedule in seconds by job; jobs without computing times have no shift."""
        stages, (_, played, _, _) = self.stages, self.play(best.shift, best.hold)
        took = np.where(played.ended > 0, played.took / np.maximum(played.ended, 1), played.seconds)
        busy = stages.by_job(played.busy)
        alone = np.where(busy > 0, stages.by_job(played.unhindered) / np.where(busy > 0, busy, 1.0), 1.0)
        rows = tuple(
            JobShift(
                stages.names[j],
                float(best.hold[j] or stages.alone[j]),
                float(best.shift[j]),
                bool(best.hold[j] > 0),
                # Apart from rounding, no iteration is shorter than alone.
                float(max(took[j], stages.alone[j])),
                float(alone[j]),
            )
            for j in np.flatnonzero(computing(stages)).tolist()
        )
        # A few iterations are simulated: what the first ones gain by an idle network is no gain in the long run.
        bound = schedule_bound(stages)
        return Schedule(rows, max(best.slowdown, bound), bound)

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
            stages.alone,
            end - stages.send,
            end,
            stages.weight / stages.weight.sum(),
            np.flatnonzero(computing(stages) if movable is None else movable),
            ITERATIONS * float(stages.alone.max(initial=0.0)),
            MOST_EVENTS,
        )


def computing(stages: Stages) -> BoolArray:
    """Return whether each job [J] computes between its collectives, and so has something to shift."""
    return stages.by_job(stages.compute) > 0.0


def shift_only(demand: Demand, assignment: Assignment, rounds: int, seed: int) -> Schedule:
    """Return a schedule for fixed paths, which may be split."""
    stages = Stages.of(demand)
    if stages.order is not None:
        ordered = OrderedSimulator.of(stages, assignment, stages.order, np.zeros(1))
        return _unless_slower(stages, assignment, ordered, ordered.search(*_unshifted(stages), seed))
    simulator = Simulator.of(stages, assignment)
    best = min(_draws(simulator, rounds, STARTS, STARTS, seed), key=lambda each: each.slowdown)
    return simulator.schedule(_lasting(simulator, best))


def reuse_schedule(demand: Demand, assignment: Assignment, schedule: Schedule | None) -> Schedule | None:
    """Return an earlier schedule with its figures under an assignment; ``None`` where there was none.

    Jobs that it does not have begin at the begin of their grid.
    """
    if schedule is None or not has_times(demand.traffic):
        return None
    stages = Stages.of(demand)
    earlier = _kept_shifts(stages, schedule)[0]
    if stages.order is not None:
        ordered = OrderedSimulator.of(stages, assignment, stages.order, np.zeros(1))
        return ordered.schedule(ordered.play(earlier.shift % stages.alone))
    simulator = Simulator.of(stages, assignment)
    return simulator.schedule(simulator.play(earlier.shift, earlier.hold)[0])


def grids_of(demand: Demand, schedule: Schedule, *, is_fresh: bool) -> Grids | None:
    """Return when iterations begin by a schedule; ``None`` if no job has a shift.

    Args:
        demand: the traffic.
        schedule: the shifts of its jobs.
        is_fresh: whether all jobs begin together, at the begin of the grids; if not, at times that are not known.
    """
    if not schedule.jobs:
        return None
    stages = Stages.of(demand)
    own = _kept_shifts(stages, schedule)[0]
    return Grids(_begins(stages, own, is_fresh=is_fresh), own.hold)


def _begins(stages: Stages, own: Shifts, *, is_fresh: bool) -> FloatArray:
    """Return seconds [D, J] after which each job begins its first iteration, by draw."""
    starts = np.zeros(1) if is_fresh else _FOLLOWED * float(stages.alone.max(initial=0.0))
    period = np.where(own.hold > 0, own.hold, stages.alone)
    begins: FloatArray = (own.shift - starts.reshape(-1, 1)) % period
    return begins


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
    if stages.order is not None:
        return plain, _plan_in_order(problem, stages.order, plain, previous, seed, options)
    if previous is None or previous.schedule is None or not previous.schedule.jobs:
        is_fresh = previous is None or bool(timed.kept(demand, previous)[1].all())
        worth = 1.0 if is_fresh else 1.0 - WAITING
        others = [(*each, worth) for each in _from_starts(problem, plain, path, rounds, seed, options)]
        return _fastest(problem, plain, others, is_fresh=is_fresh)
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
    old, old_jobs = ~new_units, ~new_jobs & computing(stages)
    # Jobs that keep their shifts are on their grids already; others have to wait for new ones.
    candidates = [(kept_path, kept, 1.0 + KEPT)]
    for other_path, other in _from_starts(problem, start, path, rounds, seed, options):
        differs = (other.shift != kept.shift) | (other.hold != kept.hold)
        moved = max(_part(kept_path != other_path, old), _part(differs, old_jobs))
        candidates.append((other_path, other, (1.0 - WAITING) * (1.0 - options.churn_price * moved)))
    return _fastest(problem, plain, candidates, is_fresh=False)


def _plan_in_order(
    problem: timed.Overlap,
    order: PhaseOrder,
    path: IntArray,
    previous: PreviousPlan | None,
    seed: int,
    options: Options,
) -> Schedule:
    """Return the schedule of jobs of which some state what their collectives wait for, on the paths [U] of a plan."""
    demand, stages = problem.demand, problem.stages
    assignment = demand.assignment(path)
    is_fresh = previous is None or bool(timed.kept(demand, previous)[1].all())
    starts = np.zeros(1) if is_fresh else _FOLLOWED * float(stages.alone.max(initial=0.0))
    simulator = OrderedSimulator.of(stages, assignment, order, starts)
    fresh = simulator.search(*_unshifted(stages), seed)
    if previous is None or previous.schedule is None or not previous.schedule.jobs:
        return _unless_slower(stages, assignment, simulator, fresh, 1.0 if is_fresh else 1.0 - WAITING)
    earlier, new = _kept_shifts(stages, previous.schedule)
    kept = OrderedSimulator.of(stages, assignment, order, starts).search(earlier.shift % stages.alone, new, seed)
    old = ~new & computing(stages)
    moved = _part(fresh.shift != kept.shift, old)
    if fresh.slowdown < kept.slowdown * (1.0 - WAITING) * (1.0 - options.churn_price * moved):
        kept = fresh
    return _unless_slower(stages, assignment, simulator, kept)


def _unshifted(stages: Stages) -> tuple[FloatArray, BoolArray]:
    """Return no shifts, and which jobs may have others."""
    return np.zeros(len(stages.names)), computing(stages)


def _unless_slower(
    stages: Stages, assignment: Assignment, simulator: OrderedSimulator, best: Shifted, worth: float = 1.0
) -> Schedule:
    """Return a schedule, or one without shifts if that is faster than the part ``worth`` of it."""
    without = expected_slowdown(stages, assignment)
    if best.slowdown <= without * worth * (1.0 + TOLERANCE):
        return simulator.schedule(best)
    bound = schedule_bound(stages)
    return Schedule((), max(without, bound), bound)


def _fastest(
    problem: timed.Overlap, plain: IntArray, candidates: list[tuple[IntArray, Shifts, float]], *, is_fresh: bool
) -> tuple[IntArray, Schedule]:
    """Return the paths and the schedule that are expected to be the fastest, by the finest affordable estimate.

    Args:
        problem: the units and the jobs.
        plain: [U] the plan without shifts, which is taken where it is as fast.
        candidates: paths [U], their schedule, and the part of the slowdown of others at which it is worth its changes;
            in the order of preference.
        is_fresh: whether all jobs begin together, at the begin of the grids; if not, at a time that is not known.
    """
    demand, stages = problem.demand, problem.stages
    starts = np.zeros(1) if is_fresh else _FOLLOWED * float(stages.alone.max(initial=0.0))
    trials = [unshifted_trial(stages, demand.assignment(plain))]
    for path, own_shifts, _ in candidates:
        period = np.where(own_shifts.hold > 0, own_shifts.hold, stages.alone)
        begins = (own_shifts.shift - starts.reshape(-1, 1)) % period
        trials.append(Trial(demand.assignment(path), begins, own_shifts.hold, ITERATIONS // len(starts)))
    without, *with_shifts = trial_slowdowns(stages, trials, MOST_EXAMINED) or [np.inf]
    if not with_shifts:
        without = mean_slowdown(stages, expected_seconds(stages, demand.assignment(plain), timed.FEW_DRAWS))
        with_shifts = [own_shifts.slowdown for _, own_shifts, _ in candidates]
    needed = [
        slowdown / worth if worth > 0 else np.inf
        for slowdown, (_, _, worth) in zip(with_shifts, candidates, strict=False)
    ]
    best = int(np.argmin(needed))
    if needed[best] <= without * (1.0 + TOLERANCE):
        path, own_shifts, _ = candidates[best]
        return path, Simulator.of(stages, demand.assignment(path)).schedule(own_shifts)
    bound = schedule_bound(stages)
    return plain, Schedule((), max(without, bound), bound)


def _part(which: BoolArray, of: BoolArray) -> float:
    return float(which[of].mean()) if of.any() else 0.0


def _from_starts(
    problem: timed.Overlap, plain: IntArray, path: IntArray, rounds: int, seed: int, options: Options
) -> list[tuple[IntArray, Shifts]]:
    """Return the fastest of ``_joint`` from each of ``Options.starts`` seeds, which also draw the plans to begin with.

    Args:
        problem: the units and the jobs.
        plain: [U] the plan without shifts, of the first seed.
        path: [U] the plan with the best levels.
        rounds: effort of each search.
        seed: the first seed.
        options: the options of the policy.
    """
    candidates = _joint(problem, plain, rounds, seed, options)
    for other in range(seed + 1, seed + options.starts):
        start = timed.plan(problem.demand, path, None, rounds, other, options)
        candidates += _joint(problem, start, rounds, other, options)
    return candidates


def _joint(
    problem: timed.Overlap, path: IntArray, rounds: int, seed: int, options: Options
) -> list[tuple[IntArray, Shifts]]:
    """Search paths and shifts in turns, from several plans; return the fastest ones found, by their slowdown."""
    demand, stages = problem.demand, problem.stages
    movable = computing(stages)
    everyone = np.ones(demand.n_units, dtype=np.bool_)

    def simulated(paths: IntArray) -> Simulator:
        return Simulator.of(stages, demand.assignment(paths))

    trials: list[tuple[IntArray, Shifts]] = []
    starts = [path, *timed.plans_to_compare(problem, path, rounds, seed, options)]
    for number, start in enumerate({each.tobytes(): each for each in starts}.values()):
        draws = _draws(simulated(start), rounds, PATH_DRAWS, PARTS, seed, by_turns=number == 0)
        trials += [(start, each) for each in draws]
    for turn, count in enumerate(TURNS):
        trials.sort(key=lambda each: each[1].slowdown)
        if trials[0][1].slowdown <= 1.0 + TOLERANCE:
            break
        for path, best in trials[:count]:
            _, _, states, seconds = simulated(path).play(best.shift, best.hold)
            other_path = problem.at(states, seconds).search(path, everyone, rounds // len(TURNS), seed + turn)
            trials.append((other_path, simulated(other_path).search(best, rounds, PARTS, seed + turn, movable)))
    trials.sort(key=lambda each: each[1].slowdown)
    different = {(path.tobytes(), each.shift.tobytes(), each.hold.tobytes()): (path, each) for path, each in trials}
    return [(path, _lasting(simulated(path), each)) for path, each in list(different.values())[:COMPARED]]


def _lasting(simulator: Simulator, lasting: Shifts) -> Shifts:
    """Return the schedule with held periods in exact ratios to others, where these are near and cost little."""
    alone, most = simulator.stages.alone, lasting.slowdown * (1.0 + LASTING)
    for j in np.flatnonzero(lasting.hold > 0).tolist():
        bases = np.delete(np.where(lasting.hold > 0, lasting.hold, alone), j)
        periods = np.outer(bases, shifts.RATIOS).ravel()
        near = (np.abs(periods / lasting.hold[j] - 1.0) <= NEAR) & (periods >= alone[j])
        for period in sorted(periods[near].tolist(), key=lambda each: abs(each - lasting.hold[j])):
            hold = lasting.hold.copy()
            hold[j] = period
            other = simulator.play(lasting.shift % np.where(hold > 0, hold, alone), hold)[0]
            if other.slowdown <= most:
                lasting = other
                break
    return lasting


def _draws(
    simulator: Simulator, rounds: int, number: int, parts: int, seed: int, *, by_turns: bool = True
) -> list[Shifts]:
    """Return the best schedules found from so many draws of shifts, each with one part of the effort.

    With ``by_turns``, jobs take turns in the first.
    """
    stages = simulator.stages
    movable = computing(stages)
    n_jobs = len(stages.names)
    draws = np.random.default_rng(seed).random((number, n_jobs))
    searched = []
    for i, draw in enumerate(draws):
        drawn = simulator.by_turns() if by_turns and not i else draw * stages.alone
        start = Shifts(np.where(movable, drawn, 0.0), np.zeros(n_jobs), np.inf)
        searched.append(simulator.search(start, rounds, parts, seed + i, movable))
        if searched[-1].slowdown <= 1.0 + TOLERANCE:
            break
    return searched


def _kept_shifts(stages: Stages, schedule: Schedule) -> tuple[Shifts, BoolArray]:
    """Return the earlier shifts of the jobs, and which jobs [J] are new; a held period that is too short is dropped."""
    rows = [schedule.shift_of(name) for name in stages.names]
    shift = np.array([0.0 if row is None else row.shift_seconds for row in rows])
    hold = np.array([row.period_seconds if row is not None and row.hold else 0.0 for row in rows])
    hold[hold < stages.alone * (1.0 - TOLERANCE)] = 0.0
    new = np.array([row is None for row in rows], dtype=np.bool_)
    return Shifts(shift, hold, np.inf), new & computing(stages)
