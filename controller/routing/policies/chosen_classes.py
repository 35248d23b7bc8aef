"""Classes of priority for jobs that state none, together with paths, under guards.

The expected slowdown falls, no job gets slower than ``Options.class_loss`` allows, relative to the plan without chosen
classes, and no class starves (docs/explanation/objective.md, "Chosen classes").

1. Classes alone are searched on the paths of that plan, by simulated annealing at three prices of slower jobs, with
   few draws of random phases. One job alone can seldom change its class without a loss for another, but several can;
   so what breaks a guard is not left out here.
2. From the best classes at each price, single changes of classes and of paths are taken while they make the plan
   better, slower jobs being at a high price, with all draws.
3. The best plans are judged by few long draws, with rings in steps. The best that keeps to the guards is taken.

Each plan is judged by the expected iteration times themselves. The work is bounded by counts, so that equal inputs
give equal plans.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.priority import JobClass
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.routing.base import Options
from controller.routing.problem.demand import Demand
from controller.routing.times.expected import DRAWS, mean_slowdown
from controller.routing.times.flow_estimate import MOST_STEPS, job_seconds, lasting_seconds, scheduled_seconds
from controller.routing.times.stages import Stages
from controller.routing.times.starving import any_starves

PRICES = (0.1, 0.3, 1.0)
"""Prices of the parts by which jobs are too slow, together, in units of the mean slowdown; the last one in step 2."""

FEW_DRAWS = 4
"""Draws of random phases in step 1."""

TRIALS = 300
"""Most classes that are tried at each price."""

HEAT = (0.03, 0.001)
"""Temperature of the annealing at its begin and its end, in units of the mean slowdown."""

EXCHANGED = 0.4
"""Part of its moves that exchange the classes of two jobs."""

FOLLOWED = 4
"""How many of the best classes at each price are followed in step 2."""

STEPS = 100
"""Most plans that are tried from each of them."""

MOST_EXAMINED = 300_000_000
"""Most flows and entries examined for the rates of all plans: some four seconds."""

MOST_OF_ONE = 6_000_000
"""The same for one plan: where it is more, there is no time to search, and no class is chosen."""

PAIRS = 1000
"""Most exchanges of two units' paths beside a plan: drawn ones where there are more."""

COMPARED = 16
"""Most plans that are judged in step 3."""

LEAST_GAIN = 0.002
"""Part by which the mean slowdown has to fall: less is within what estimates differ by."""

KEPT = 0.01
"""The same for other classes than those of the plan in force: jobs lose time once, as they find their new gaps."""


class Grids(NamedTuple):
    """When iterations begin: ``begins`` [D, J] and ``hold`` [J] of a ``flow_estimate.Trial``."""

    begins: FloatArray
    hold: FloatArray


class _Choice(NamedTuple):
    """Paths [U] of units, and classes [J] of jobs; -1: those that the job states."""

    path: IntArray
    classes: IntArray


class _Outcome(NamedTuple):
    """The mean slowdown, and the parts by which jobs are too slow, together; infinite where a class starves."""

    slowdown: float
    excess: float

    def value(self, price: float) -> float:
        """Return what the search lowers."""
        return self.slowdown + price * self.excess


@dataclass(eq=False)
class _Judge:
    """The outcomes of plans by a number of draws, each computed once.

    Attributes:
        limit: [J] seconds of an iteration beyond which a job is too slow.
        free: [J] which jobs get a class.
        slowdown: that of the plan without chosen classes.
        grids: when iterations begin; ``None``: in random phases.
    """

    demand: Demand
    stages: Stages
    draws: int
    free: BoolArray
    limit: FloatArray
    slowdown: float
    examined: int
    grids: Grids | None
    outcomes: dict[bytes, tuple[_Outcome, _Choice]] = field(default_factory=dict)

    @staticmethod
    def of(
        demand: Demand, stages: Stages, path: IntArray, free: BoolArray, loss: float, draws: int, grids: Grids | None
    ) -> _Judge:
        """Return a judge of plans beside the one without chosen classes, of these paths [U]."""
        judge = _Judge(demand, stages, draws, free, np.zeros(0), 1.0, 0, grids)
        seconds = judge.seconds(stages, path)
        judge.limit, judge.slowdown = seconds * (1.0 + loss), mean_slowdown(stages, seconds)
        return judge

    def seconds(self, stages: Stages, path: IntArray) -> FloatArray:
        """Return the seconds [J] of an iteration on paths [U], with the classes of ``stages``."""
        assignment = self.demand.assignment(path)
        if self.grids is None:
            seconds, examined = job_seconds(stages, assignment, self.draws, MOST_OF_ONE)
        else:
            seconds, examined = scheduled_seconds(stages, assignment, *self.grids, 1)
        self.examined += examined
        return seconds

    def lasting(self, choice: _Choice) -> FloatArray:
        """Return the same for a choice, by the finest estimate."""
        stages, assignment = self.stages.classified(choice.classes), self.demand.assignment(choice.path)
        if self.grids is None:
            return lasting_seconds(stages, assignment)
        return scheduled_seconds(stages, assignment, *self.grids, MOST_STEPS)[0]

    def outcome(self, choice: _Choice) -> _Outcome:
        """Return the outcome of a plan."""
        choice = self.lowest(choice)
        key = choice.path.tobytes() + choice.classes.tobytes()
        if key not in self.outcomes:
            self.outcomes[key] = self._judged(choice), choice
        return self.outcomes[key][0]

    def lowest(self, choice: _Choice) -> _Choice:
        """Return the choice with the lowest classes that have this order, if no job states one."""
        if not self.free.all():
            return choice
        ranks = np.unique(choice.classes, return_inverse=True)[1].reshape(-1)
        return _Choice(choice.path, ranks.astype(np.int32))

    def best(self, price: float, count: int) -> list[_Choice]:
        """Return the best of the plans so far at this price, with none in which a class starves."""
        rows = [(each.value(price), choice) for each, choice in self.outcomes.values() if np.isfinite(each.slowdown)]
        return [choice for _, choice in sorted(rows, key=lambda row: row[0])[:count]]

    def _judged(self, choice: _Choice) -> _Outcome:
        stages, assignment = self.stages.classified(choice.classes), self.demand.assignment(choice.path)
        if any_starves(stages, assignment):
            return _Outcome(np.inf, np.inf)
        seconds = self.seconds(stages, choice.path)
        excess = float(np.maximum(seconds / self.limit - 1.0 - TOLERANCE, 0.0).sum())
        return _Outcome(mean_slowdown(stages, seconds), excess)


def choose(
    demand: Demand,
    path: IntArray,
    options: Options,
    seed: int,
    keep: Sequence[JobClass] = (),
    grids: Grids | None = None,
) -> tuple[IntArray, tuple[JobClass, ...]]:
    """Return the path class [U] of each unit, and the chosen classes of jobs; none where they would gain too little.

    Args:
        demand: the units to place.
        path: [U] the plan without chosen classes.
        options: the options of the policy.
        seed: of the search.
        keep: the chosen classes of the plan in force. Its paths stay then, and the classes unless others gain more.
        grids: when iterations begin, with and without chosen classes; ``None``: in random phases.
    """
    stages = Stages.of(demand)
    free = free_jobs(stages)
    is_planned = grids is not None and stages.order is not None
    if options.classes < 2 or not free.any() or len(stages.names) < 2 or is_planned:
        return path, ()
    finest = _Judge.of(demand, stages, path, free, options.class_loss, DRAWS, grids)
    if finest.slowdown <= 1.0 + TOLERANCE or finest.examined > MOST_OF_ONE:
        return path, ()
    none = _Choice(path, np.where(free, 0, -1).astype(np.int32))
    of_job = dict(keep)
    before = np.where(free, [min(of_job.get(name, 0), options.classes - 1) for name in stages.names], -1)
    kept = finest.lowest(_Choice(path, before.astype(np.int32)))
    quick = _Judge.of(demand, stages, path, free, options.class_loss, FEW_DRAWS, grids)
    starts = {kept.classes.tobytes(): kept}
    most = MOST_EXAMINED * options.starts
    for turn in range(options.starts):
        for number, price in enumerate(PRICES):
            _anneal(quick, kept, options.classes, price, seed + number + turn * len(PRICES), most)
            starts |= {each.classes.tobytes(): each for each in quick.best(price, FOLLOWED)}
    for turn in range(options.starts):
        for number, start in enumerate(starts.values()):
            if quick.examined + finest.examined > most:
                break
            other = seed + number + turn * len(starts)
            _descend(finest, start, options.classes, other, most, move_units=not keep)
    choice = _worth(finest, none, kept, options.class_loss)
    rows = zip(stages.names, choice.classes.tolist(), free.tolist(), strict=True)
    return choice.path, tuple(JobClass(name, priority) for name, priority, mine in rows if mine and choice is not none)


def _worth(judge: _Judge, none: _Choice, kept: _Choice, loss: float) -> _Choice:
    """Return the best plan within the guards by long draws; ``none``, or the kept classes, if it gains too little."""
    limit = judge.lasting(none) * (1.0 + loss)
    without = mean_slowdown(judge.stages, limit / (1.0 + loss))
    within = []
    for choice in [kept, *judge.best(PRICES[-1], COMPARED)]:
        # Other paths without chosen classes are the business of the policy itself.
        if choice.classes.max() > 0 and np.isfinite(judge.outcome(choice).slowdown):
            seconds = judge.lasting(choice)
            slowdown = mean_slowdown(judge.stages, seconds)
            if (seconds <= limit * (1.0 + TOLERANCE)).all() and slowdown <= without * (1.0 - LEAST_GAIN):
                within.append((slowdown * (1.0 - KEPT) if choice is kept else slowdown, choice))
    return min(within, key=lambda row: row[0], default=(without, none))[1]


def free_jobs(stages: Stages) -> BoolArray:
    """Return the jobs [J] that may get a class: they state none, and share no 5-tuple with another job."""
    traffic = stages.demand.traffic
    index = {name: j for j, name in enumerate(stages.names)}
    job = np.array([index.get(row.job, -1) for row in traffic.collectives], dtype=np.int64)
    free = np.ones(len(stages.names), dtype=np.bool_)
    free[job[(traffic.priority > 0) & (job >= 0)]] = False
    unit, of_unit = np.unique(np.stack([traffic.unit, traffic.job_index[traffic.collective]]), axis=1)
    shared = np.bincount(unit, minlength=traffic.n_units)[unit] > 1
    names = np.array([index.get(name, -1) for name in traffic.jobs], dtype=np.int64)[of_unit[shared]]
    free[names[names >= 0]] = False
    return free


def kept_classes(traffic: Traffic, classes: Sequence[JobClass]) -> tuple[JobClass, ...]:
    """Return the chosen classes of an earlier plan for the jobs that are still there and state none."""
    there = set(traffic.jobs) - {row.job for row in traffic.collectives if row.priority}
    return tuple(row for row in classes if row.job in there)


def _anneal(judge: _Judge, start: _Choice, classes: int, price: float, seed: int, most: int) -> None:
    """Try classes of jobs at random, and follow worse ones less and less (Kirkpatrick, Gelatt and Vecchi 1983)."""
    drawn = np.random.default_rng(seed)
    jobs = np.flatnonzero(judge.free)
    now, value = start, judge.outcome(start).value(price)
    for trial in range(TRIALS):
        if judge.examined * len(PRICES) > most:
            break
        heat = HEAT[0] * (HEAT[1] / HEAT[0]) ** (trial / TRIALS)
        after = now.classes.copy()
        one, other = drawn.choice(jobs, 2)
        if drawn.random() < EXCHANGED:
            after[[one, other]] = after[[other, one]]
        else:
            after[one] = drawn.integers(classes)
        then = _Choice(now.path, after)
        rise = judge.outcome(then).value(price) - value
        if not rise > 0 or drawn.random() < np.exp(-rise / heat):
            now, value = then, value + rise


def _descend(judge: _Judge, start: _Choice, classes: int, seed: int, most: int, *, move_units: bool) -> None:
    """Take single changes that make a plan better, at the last price, until there are none or ``STEPS`` were tried."""
    drawn, price = np.random.default_rng(seed), PRICES[-1]
    first = len(judge.outcomes)
    value = judge.outcome(start).value(price)
    moved = True
    while moved:
        moved = False
        for other in _near(judge, start, classes, drawn, move_units=move_units):
            if len(judge.outcomes) - first >= STEPS or judge.examined > most:
                return
            then = judge.outcome(other).value(price)
            if then < value * (1.0 - TOLERANCE):
                start, value, moved = other, then, True
                break


def _near(
    judge: _Judge, at: _Choice, classes: int, drawn: np.random.Generator, *, move_units: bool
) -> Iterator[_Choice]:
    """Yield the plans that differ by the class of a job, the path of a unit, or an exchange of two, in random order."""
    demand, live = judge.demand, judge.demand.fabric.live_ways
    jobs = np.flatnonzero(judge.free).tolist()
    ways = [live.between(a, b).tolist() for a, b in zip(demand.unit_src, demand.unit_dst, strict=True)]
    units = [unit for unit, own in enumerate(ways) if len(own) > 1] if move_units else []
    path = at.path
    # (what changes, its number, the new value), or two numbers for an exchange.
    every: list[tuple[bool, tuple[int, ...], tuple[int, ...]]]
    every = [(True, (job,), (q,)) for job in jobs for q in range(classes) if q != at.classes[job]]
    every += [(False, (unit,), (way,)) for unit in units for way in ways[unit] if way != path[unit]]
    every += [
        (True, pair, tuple(at.classes[list(pair[::-1])].tolist()))
        for pair in itertools.combinations(jobs, 2)
        if at.classes[pair[0]] != at.classes[pair[1]]
    ]
    every += [
        (False, (a, b), (int(path[b]), int(path[a])))
        for a, b in _pairs(units, drawn)
        if path[a] != path[b] and path[b] in ways[a] and path[a] in ways[b]
    ]
    for number in drawn.permutation(len(every)).tolist():
        is_class, which, values = every[number]
        after = (at.classes if is_class else path).copy()
        after[list(which)] = values
        yield _Choice(path, after) if is_class else _Choice(after, at.classes)


def _pairs(units: Sequence[int], drawn: np.random.Generator) -> list[tuple[int, int]]:
    """Return all pairs of units, or ``PAIRS`` drawn ones where there are more."""
    if len(units) * (len(units) - 1) // 2 <= PAIRS:
        return list(itertools.combinations(units, 2))
    pairs = drawn.choice(units, (PAIRS, 2))
    return [(a, b) for a, b in pairs.tolist() if a != b]
