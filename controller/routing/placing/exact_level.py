"""The highest lowest level of one path a unit, as an integer program, and a bounded attempt to reach it.

Binary x[u, k] says that unit u takes path class k; the fill factor of the fullest link (the inverse of the level) is
minimised.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array
from controller.routing.objective.fairness import compare_levels
from controller.routing.placing.improve_levels import levels_of
from controller.routing.placing.pairs import Pairs
from controller.routing.problem.demand import Demand
from controller.routing.relaxation.solver import LinearProgram, Solution

MOST_PAIRS = 5_000
"""Most (unit, path class) pairs for which the bounded attempt is made: above, HiGHS needs longer to begin."""


def raised(
    demand: Demand, path: IntArray, level: FloatArray, most: float, seconds: float
) -> tuple[IntArray, FloatArray]:
    """Return a plan with a higher lowest level, and its levels [K], if the program finds one in these seconds.

    Args:
        demand: the units to place.
        path: [U] the path class of each unit in the plan to begin from.
        level: [K] the levels of that plan.
        most: a bound of the lowest level.
        seconds: the limit on the solver's clock.
    """
    if not 0 < demand.n_units * demand.fabric.live_ways.n_paths <= MOST_PAIRS:
        return path, level
    pairs = Pairs.of(demand)
    solution = lowest_level(demand, pairs, path, most, nodes=None, seconds=seconds)
    return better_plan(demand, pairs, solution, path, level)


def choices(program: LinearProgram, demand: Demand, pairs: Pairs) -> Int64Array:
    """Add one binary variable for each pair, of which each unit takes one."""
    chosen = program.columns(len(pairs.unit), upper=1.0, integer=True)
    program.add(program.rows(demand.n_units, lower=1.0, upper=1.0)[pairs.unit], chosen, 1.0)
    return chosen


def starting_point(program: LinearProgram, pairs: Pairs, path: IntArray) -> FloatArray:
    """Return the current plan as a point of the program: HiGHS completes the continuous variables."""
    point = np.full(program.n_columns, np.inf)
    point[: len(pairs.unit)] = (path[pairs.unit] == pairs.path).astype(np.float64)
    return point


def lowest_level(
    demand: Demand, pairs: Pairs, path: IntArray, most: float, *, nodes: int | None, seconds: float | None
) -> Solution:
    """Minimise the fill factor of the fullest link; values below ``1 / most`` bring no gain."""
    program = LinearProgram()
    chosen = choices(program, demand, pairs)
    full = program.columns(1, lower=1.0 / most, cost=1.0)
    load = demand.load[demand.part_flow]
    rows = program.rows(len(pairs.links), upper=0.0)
    pairs.add_loads(program, demand, rows, chosen[pairs.pair], load[pairs.part])
    program.add(rows, int(full[0]), -demand.fabric.link_gbps[pairs.links])
    return program.solve(start=starting_point(program, pairs, path), nodes=nodes, seconds=seconds)


def better_plan(
    demand: Demand, pairs: Pairs, solution: Solution, path: IntArray, level: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the solution's plan if it is better than the current one."""
    if solution.x is None:
        return path, level
    order = np.lexsort((solution.x[: len(pairs.unit)], pairs.unit))
    last = np.searchsorted(pairs.unit[order], np.arange(demand.n_units), side="right") - 1
    solved = pairs.path[order[last]].astype(np.int32)
    solved_level = levels_of(demand, solved)
    return (solved, solved_level) if compare_levels(solved_level, level) > 0 else (path, level)
