"""``fair``: the default policy. The best of the known placements, then a search on the links of the slowest collective.

1. Edge colouring with units sorted by load: on a healthy symmetric fabric with equal loads this is optimal, and if its
   levels reach what host links, leaves and pods allow, that proves it and the search ends. Where paths have a choice
   in several tiers, choices are coloured from below and from above (``coloring_by_tier``), and the better is taken;
   where cables have failed, stranded units are also added as in ``replan_by_tier``.
2. Else greedy and first fit as well, the lexicographically best of the three being the start.
3. While a level is below its proved bound, local search moves and swaps units on the links that limit it;
   levels are raised one after the other, those reached stay.

A plan is only ever replaced by a better one, so the answer is never worse than ``coloring``, ``greedy`` or
``first_fit``, however small ``Options.rounds``. Where jobs state computing times, ``timed`` decides: expected
iteration time comes before the levels; with ``Options.shifts``, ``shifts`` adds when iterations begin,
with ``Options.classes``, ``chosen_classes`` which packets go first. With a previous
plan, see ``replan``; with ``Options.max_splits``, ``split``. Phases of a job that load the network alike have the
same paths (``alike_phases``).
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.objective.bounds import split_bound
from controller.routing.objective.fairness import compare_levels
from controller.routing.objective.incidence import Incidence
from controller.routing.placing.improve_levels import Goal
from controller.routing.placing.pieces import Pieces
from controller.routing.placing.qp_spread import spread_qps
from controller.routing.policies import shifts, split, timed
from controller.routing.policies.chosen_classes import choose, kept_classes
from controller.routing.policies.replan import NEAR, demand_near, kept_pieces, replan
from controller.routing.policies.whole_paths import ROUNDS, fresh_plan
from controller.routing.problem.alike_phases import first_alike, for_all
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.times.flow_estimate import expected_slowdown
from controller.routing.times.stages import Stages, has_times

ENOUGH = 0.99
"""Flows are split only where one path each does not reach this fraction of ``bound_split``."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign max-min fair paths; see the module.

    The status is ``"optimal"`` where every level is proved to be the best for one path a unit.
    """
    first = first_alike(traffic)
    if first is None:
        return _assign(fabric, traffic, seed, previous, options)
    kept = np.flatnonzero(first == np.arange(traffic.n_flows))
    result = _assign(fabric, traffic.of_flows(kept), seed, previous, options)
    # Levels, and what is proved of them, are the same.
    return dataclasses.replace(result, assignment=for_all(first, kept, result.assignment), demand=None)


def _assign(fabric: Fabric, traffic: Traffic, seed: int, previous: PreviousPlan | None, options: Options) -> Result:
    """Assign paths to flows of which each has paths of its own."""
    timed = options.times == "use" and has_times(traffic)
    if previous is None or timed:
        demand = Demand.of(fabric, traffic)
        goal = Goal(demand)
        if timed:
            return dataclasses.replace(_with_times(demand, goal, seed, previous, options), demand=demand)
        path, level = fresh_plan(demand, goal, seed, options)
    else:
        demand, goal, near = demand_near(fabric, traffic, previous)
        rounds = options.rounds if options.rounds is not None else ROUNDS
        afresh = partial(fresh_plan, demand, goal, seed, options)
        path, level = replan(demand, goal, near, options.churn_price, rounds, seed, afresh)
    result = _placed(demand, goal, path, level, seed, previous, options)
    return dataclasses.replace(result, demand=demand)


def _placed(
    demand: Demand,
    goal: Goal,
    path: IntArray,
    level: FloatArray,
    seed: int,
    previous: PreviousPlan | None,
    options: Options,
) -> Result:
    """Return the result with these paths [U] and levels [K], or one with split flows where that is better."""
    path = spread_qps(demand, path, previous)
    result = Result(demand.assignment(path), status="optimal" if goal.reached(level) else "ok")
    if not options.max_splits or not len(goal.steps):
        return result
    return _split(demand, level, previous, seed, options) or result


def _with_times(demand: Demand, goal: Goal, seed: int, previous: PreviousPlan | None, options: Options) -> Result:
    """Plan for jobs of which some state computing times: the expected iteration time comes first."""
    rounds = options.rounds if options.rounds is not None else ROUNDS
    path, level = fresh_plan(demand, goal, seed, options)
    advise = options.shifts == "advise"
    schedule = None
    if advise:
        path, schedule = shifts.plan(demand, path, previous, rounds, seed, options)
    else:
        path = timed.plan(demand, path, previous, rounds, seed, options)
    path = spread_qps(demand, path, previous)
    if options.classes > 1:
        keep = () if previous is None else kept_classes(demand.traffic, previous.classes)
        grids = None if schedule is None else shifts.grids_of(demand, schedule, is_fresh=previous is None)
        path, classes = choose(demand, path, options, seed, keep, grids)
        if classes:
            assignment = demand.assignment(path)
            classified = dataclasses.replace(demand, traffic=demand.traffic.with_classes(classes))
            schedule = shifts.reuse_schedule(classified, assignment, schedule) if grids else schedule
            return Result(assignment, schedule=schedule, classes=classes)
    single = Result(demand.assignment(path), schedule=schedule)
    if not options.max_splits or not len(goal.steps):
        return single
    cut = _split(demand, level, previous, seed, options)
    if cut is None:
        return single
    if schedule is not None:
        cut = dataclasses.replace(cut, schedule=shifts.shift_only(demand, cut.assignment, rounds, seed))
    slowdown = [_slowdown(demand, each) for each in (single, cut)]
    return cut if slowdown[1] < slowdown[0] * (1 - TOLERANCE) else single


def _slowdown(demand: Demand, result: Result) -> float:
    """Return the mean slowdown: under the schedule of the result, or over random phases."""
    if result.schedule is not None:
        return result.schedule.slowdown
    return expected_slowdown(Stages.of(demand), result.assignment)


def _split(
    demand: Demand, level: FloatArray, previous: PreviousPlan | None, seed: int, options: Options
) -> Result | None:
    """Return a plan with split flows, if free splitting could be better by 1 % and this plan is better."""
    best = split_bound(demand).level
    if np.nanmin(level) >= ENOUGH * best:
        return None
    extra = split.budget(demand, options)
    pieces = None
    if previous is not None and previous.is_split():
        pieces = kept_pieces(demand, previous)
        if pieces is not None and (pieces.extra > extra or np.nanmin(_levels(demand, pieces)) < NEAR * best):
            pieces = None
    pieces = pieces or split.split_units(demand, best, seed, extra)
    if compare_levels(_levels(demand, pieces), level) <= 0:
        return None
    return Result(pieces.assignment(demand), status="ok")


def _levels(demand: Demand, pieces: Pieces) -> FloatArray:
    return Incidence.of(demand, pieces.assignment(demand)).levels(demand)[0]
