"""``fair``: the default. The best of the known placements, then a search on what still limits the slowest collective.

1. Edge colouring with units sorted by load: on a healthy symmetric fabric with equal loads this is optimal, and if its
   levels reach what host links and leaves allow, that proves it and nothing else is tried.
2. Else greedy and first fit as well, the lexicographically best of the three being the start.
3. While a level is below what is proved about it, local search moves and swaps units on the links that hold it down;
   levels are raised one after the other, those reached stay.

A plan is only ever replaced by a better one, so the answer is never worse than ``coloring``, ``greedy`` or
``first_fit``, however small ``Options.rounds``.
"""

from __future__ import annotations

from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing import coloring, first_fit, greedy
from controller.routing.base import Options, Result
from controller.routing.climb import Goal, climb, levels_of
from controller.routing.demand import Demand
from controller.routing.objective import compare_levels
from controller.routing.previous import Previous

ROUNDS = 1_000_000
"""Moves tried by default: about 50 ms."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: Previous | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Max-min fair paths; see the module. Status ``"optimal"`` where every level is proved."""
    demand = Demand.of(fabric, traffic)
    path, proved = fresh_plan(demand, seed, options)
    return Result(demand.assignment(path), status="optimal" if proved else "ok")


def fresh_plan(demand: Demand, seed: int, options: Options) -> tuple[IntArray, bool]:
    """[U] path class of each unit, and whether every level of it is proved optimal."""
    goal = Goal.of(demand)
    path = coloring.color_units(demand, seed)
    level = levels_of(demand, path)
    if goal.reached(level):
        return path, True
    for other in (greedy.place_units(demand), first_fit.place_units(demand, seed, options)):
        other_level = levels_of(demand, other)
        if compare_levels(other_level, level) > 0:
            path, level = other, other_level
    if goal.reached(level):
        return path, True
    path, level = climb(demand, goal, path, level, options.rounds if options.rounds is not None else ROUNDS, seed)
    return path, goal.reached(level)
