"""One path for each unit: the best of the known placements, then a search. ``fair`` without times and earlier plans."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.tolerances import TOLERANCE
from controller.routing.base import Options
from controller.routing.objective.fairness import compare_levels
from controller.routing.placing import exact_level
from controller.routing.placing import place_units as placing
from controller.routing.placing.improve_levels import SHARE, Goal, improve_levels, raise_lowest
from controller.routing.policies import coloring, first_fit, greedy
from controller.routing.policies.replan import color_units_with_room
from controller.routing.problem.demand import Demand

ROUNDS = 300_000
"""Moves tried by default: about 50 ms."""

MOST_UNITS = 20_000
"""Most units that are put in order before the search: for more, orders and colourings take longer than it."""

QUICK = 10
"""Moves tried for each unit after the colouring without slow cables, before others are made."""

NEAR_BOUND = 0.99
"""From this fraction of its bound on, the lowest level is left as the search has it: see ``Options.exact_ms``."""


def fresh_plan(demand: Demand, goal: Goal, seed: int, options: Options) -> tuple[IntArray, FloatArray]:
    """Return path classes [U] and levels [K] of a plan that ignores any earlier plan."""
    path, level = _placed(demand, goal, seed, options)
    if goal.reached(level):
        return path, level
    rounds = options.rounds if options.rounds is not None else ROUNDS
    most = float(goal.steps[0])
    if rounds and (demand.n_units > MOST_UNITS or float(np.nanmin(level)) >= most * (1 - TOLERANCE)):
        path, level = improve_levels(demand, goal, path, level, rounds, seed)
    elif rounds:
        other, other_level = _by_ends(demand, most, rounds, seed, options)
        if compare_levels(other_level, level) > 0:
            path, level = other, other_level
    if options.exact_ms and float(np.nanmin(level)) < most * NEAR_BOUND:
        other, other_level = exact_level.raised(demand, path, level, most, options.exact_ms / 1000)
        if other_level is not level:
            path, level = improve_levels(demand, goal, other, other_level, rounds, seed)
    return path, level


def _by_ends(demand: Demand, most: float, rounds: int, seed: int, options: Options) -> tuple[IntArray, FloatArray]:
    """Return paths [U] and levels [K] of a search that does not depend on the order of flows in files.

    Which of several plans a search ends in depends on the order of units, so they are put in order by their hosts.
    Where the lowest level stays below ``most``, the search begins once more with the reversed order.
    """
    order = demand.order_of_ends()
    there = demand.in_order(order)
    goal = Goal(there)
    path, level = improve_levels(there, goal, *_placed(there, goal, seed, options), rounds, seed)
    path = demand.from_order(there, order, path)
    if float(np.nanmin(level)) >= most * NEAR_BOUND:
        return path, level
    order = np.ascontiguousarray(order[::-1])
    there = demand.in_order(order)
    goal = Goal(there)
    other, other_level = _placed(there, goal, seed, options)
    effort = int(rounds * SHARE)
    other, other_level, _ = raise_lowest(
        there, goal, other, other_level, np.isnan(other_level), effort, seed, again=False
    )
    if float(np.nanmin(other_level)) <= float(np.nanmin(level)) * (1 + TOLERANCE):
        return path, level
    other, other_level = improve_levels(there, goal, other, other_level, rounds, seed)
    return demand.from_order(there, order, other), other_level


def _placed(demand: Demand, goal: Goal, seed: int, options: Options) -> tuple[IntArray, FloatArray]:
    """Return paths [U] and levels [K] of the best of the known placements."""
    on_fast = _without_slow(demand, goal, seed)
    if on_fast is not None and not goal.reached(on_fast[1]) and options.rounds != 0:
        # Often a few units are left over, for which the search has room before another colouring is made.
        effort = QUICK * demand.n_units
        on_fast = raise_lowest(demand, goal, *on_fast, np.isnan(on_fast[1]), effort, seed, again=False)[:2]
    if on_fast is not None and goal.reached(on_fast[1]):
        return on_fast
    path = coloring.color_units(demand, seed)
    level = goal.levels(path)
    if on_fast is not None and compare_levels(on_fast[1], level) > 0:
        path, level = on_fast
    if not demand.one_choice and not goal.reached(level):
        other = coloring.color_units(demand, seed, from_above=True)
        other_level = goal.levels(other)
        if compare_levels(other_level, level) > 0:
            path, level = other, other_level
        if not goal.reached(level):
            other = color_units_with_room(demand, goal.relaxed, seed)
            other_level = goal.levels(other)
            if compare_levels(other_level, level) > 0:
                path, level = other, other_level
    if coloring.has_rounds(demand):
        other = coloring.color_units(demand, seed, apart=True)
        other_level = goal.levels(other)
        if compare_levels(other_level, level) >= 0:
            path, level = other, other_level
    if goal.reached(level):
        return path, level
    for other in (greedy.place_units(demand), first_fit.place_units(demand, seed, options)):
        other_level = goal.levels(other)
        if compare_levels(other_level, level) > 0:
            path, level = other, other_level
    return path, level


def _without_slow(demand: Demand, goal: Goal, seed: int) -> tuple[IntArray, FloatArray] | None:
    """Return paths [U] and levels [K] of a colouring without cables that are too slow for any unit at the bound.

    ``None``: there are no such cables, or a path is one choice, where the colouring is repaired unit by unit. Where a
    cable that most units need is so slow, they get it all the same.
    """
    fabric = demand.fabric
    least = float(demand.unit_load.min(where=demand.unit_load > 0, initial=np.inf)) * (1 - TOLERANCE)
    if demand.one_choice or not demand.in_game.any() or not np.isfinite(least):
        return None
    too_slow = _slower(fabric, least * float(np.nanmin(goal.relaxed)))
    # The bound of whole units takes longer, and is not needed where all cables are fast enough without it.
    if too_slow.any():
        too_slow = _slower(fabric, least * float(goal.steps[0]))
    if not too_slow.any():
        return None
    ways = fabric.live_ways.only(~too_slow)
    best: tuple[IntArray, FloatArray] | None = None
    for with_room in (False, True):
        if with_room:
            # Room for whole units, which reach the other bound only: the cables left out count there.
            path = color_units_with_room(demand, np.minimum(goal.relaxed, goal.steps[0]), seed, ways)
        else:
            path = coloring.color_units(demand, seed, ways=ways)
        placing.repair(demand, path)
        level = goal.levels(path)
        if best is None or compare_levels(level, best[1]) > 0:
            best = path, level
        if goal.reached(level):
            break
    return best


def _slower(fabric: Fabric, gbps: float) -> BoolArray:
    """Return [E] whether each link is that of a live cable and has less capacity."""
    slower: BoolArray = fabric.link_up & (fabric.link_gbps < gbps)
    slower[: fabric.first_cable_link] = False
    return slower
