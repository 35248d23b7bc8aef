"""``ilp``: the optimum by integer programming (HiGHS), level after level as far as the limits allow.

The lowest level first: binary x[u, k] says that unit u takes path class k, and the fill factor of the fullest link
(the inverse of the level) is minimised. Then, with the collectives that are limited there kept at their speed, the
next level is maximised, and so on. Level times x is a product; for z[u, k] = level * x[u, k] the constraints
sum_k z[u, k] = level and z[u, k] <= most * x[u, k] say the same (McCormick, Math. Programming 10, 1976).

Only the lowest level is proved: for the next ones, the set of limited collectives below is taken from the solution.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.plan import Bound
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.placing.exact_level import better_plan, choices, lowest_level, starting_point
from controller.routing.placing.improve_levels import Goal
from controller.routing.placing.pairs import Pairs
from controller.routing.policies.whole_paths import fresh_plan
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.relaxation.solver import LinearProgram, Solution

MOST_BINARIES = 200_000
"""Above this size HiGHS would not finish its first relaxation in reasonable time; the status is then "too large"."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Return the best plan found, starting from that of ``fair``, with the proved bound on the lowest level.

    The status is ``"optimal"`` if the lowest level is proved, ``"limit"`` at a node or time limit, or ``"too large"``.
    """
    demand = Demand.of(fabric, traffic)
    goal = Goal(demand)
    path, level = fresh_plan(demand, goal, seed, options)
    pairs = Pairs.of(demand)
    if not len(goal.steps) or not demand.n_units:
        return Result(demand.assignment(path), status="optimal")
    most = float(goal.steps[0])
    if len(pairs.unit) > MOST_BINARIES:
        return Result(demand.assignment(path), status="too large")
    optimal = bool(np.nanmin(level) >= most * (1 - TOLERANCE))
    if not optimal:
        solution = lowest_level(demand, pairs, path, most, nodes=options.nodes, seconds=options.seconds)
        optimal = solution.optimal
        most = min(most, 1.0 / solution.bound)
        path, level = better_plan(demand, pairs, solution, path, level)
    frozen, finished = np.isnan(level), optimal
    while finished and not frozen.all():
        lowest = float(level[~frozen].min())
        frozen |= level <= lowest * (1 + TOLERANCE)
        if frozen.all():
            break
        limit = goal.above(level, frozen)
        if float(level[~frozen].min()) < limit * (1 - TOLERANCE):
            solution = _next_level(demand, pairs, path, level, frozen, limit, options)
            finished = solution.optimal
            path, level = better_plan(demand, pairs, solution, path, level)
    return Result(demand.assignment(path), Bound(single=most), "optimal" if optimal else "limit")


def _next_level(
    demand: Demand, pairs: Pairs, path: IntArray, level: FloatArray, frozen: BoolArray, limit: float, options: Options
) -> Solution:
    """Maximise the common level of the collectives that are not frozen, up to ``limit``."""
    program = LinearProgram()
    chosen = choices(program, demand, pairs)
    height = program.columns(1, upper=limit, cost=-1.0)
    product = program.columns(len(pairs.unit))
    program.add(program.rows(demand.n_units, lower=0.0, upper=0.0)[pairs.unit], product, 1.0)
    program.add(np.arange(program.n_rows - demand.n_units, program.n_rows), int(height[0]), -1.0)
    below = program.rows(len(pairs.unit), upper=0.0)
    program.add(below, product, 1.0)
    program.add(below, chosen, -limit)
    collective = demand.traffic.collective[demand.part_flow]
    load = demand.load[demand.part_flow]
    held = frozen[collective]
    rows = program.rows(len(pairs.links), upper=demand.fabric.link_gbps[pairs.links])
    kept = np.where(held, load * np.nan_to_num(level)[collective], load)[pairs.part]
    variable = np.where(held[pairs.part], chosen[pairs.pair], product[pairs.pair])
    pairs.add_loads(program, demand, rows, variable, kept)
    return program.solve(start=starting_point(program, pairs, path), nodes=options.nodes, seconds=options.seconds)
