"""One path for each unit: the best of the known placements, then a search. ``fair`` without times and earlier plans."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.routing.base import Options
from controller.routing.objective.fairness import compare_levels
from controller.routing.placing import exact_level
from controller.routing.placing.improve_levels import Goal, improve_levels
from controller.routing.policies import coloring, first_fit, greedy
from controller.routing.policies.replan import color_units_with_room
from controller.routing.problem.demand import Demand

ROUNDS = 300_000
"""Moves tried by default: about 50 ms."""

NEAR_BOUND = 0.99
"""From this fraction of its bound on, the lowest level is left as the search has it: see ``Options.exact_ms``."""


def fresh_plan(demand: Demand, goal: Goal, seed: int, options: Options) -> tuple[IntArray, FloatArray]:
    """Return path classes [U] and levels [K] of a plan that ignores any earlier plan."""
    path = coloring.color_units(demand, seed)
    level = goal.levels(path)
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
    rounds = options.rounds if options.rounds is not None else ROUNDS
    path, level = improve_levels(demand, goal, path, level, rounds, seed)
    most = float(goal.steps[0])
    if options.exact_ms and float(np.nanmin(level)) < most * NEAR_BOUND:
        other, other_level = exact_level.raised(demand, path, level, most, options.exact_ms / 1000)
        if other_level is not level:
            path, level = improve_levels(demand, goal, other, other_level, rounds, seed)
    return path, level
