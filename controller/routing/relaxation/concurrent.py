"""Maximum concurrent flow between leaves, as a linear program (Shahrokhi and Matula, J. ACM 37(2), 1990).

Path classes that no leaf can distinguish share one column here: by averaging over their permutations there is an
optimum that treats them alike. So a fabric with a few failed links stays a small program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.relaxation import concurrent_tiers
from controller.routing.relaxation.concurrent_tiers import Solved
from controller.routing.relaxation.heaviest_phase import add_heaviest
from controller.routing.relaxation.solver import LinearProgram


@dataclass(frozen=True, eq=False)
class Routing:
    """The routing of demands between leaves through the fabric.

    Attributes:
        seconds: the time that the demands take.
        commodity: [C, 3] source leaf, destination leaf and phase group.
        of_demand: [N] the commodity of each demand.
        row, kind, gbit: [R] how much of a commodity goes through paths of a type (``Fabric.path_type``).
        variables: the number of variables of the program.
    """

    seconds: float
    commodity: Int64Array
    of_demand: Int64Array
    row: Int64Array
    kind: Int64Array
    gbit: FloatArray
    variables: int


def least_time(
    fabric: Fabric,
    src: IntArray,
    dst: IntArray,
    gbit: FloatArray,
    group: IntArray | None = None,
    group_job: IntArray | None = None,
    *,
    most: int | None = None,
) -> Solved | None:
    """Return the least number of seconds in which the demands fit through the live cables, split at will.

    Args:
        fabric: the fabric, of which live cables count.
        src: [N] source leaf of each demand.
        dst: [N] destination leaf of each demand, joined to the source by at least one live path.
        gbit: [N] size of each demand.
        group: [N] phase group (``Demand.group``): only the heaviest group of each job counts on a link.
        group_job: [G] job of each group; 0 for jobs of one phase, whose groups add up.
        most: most variables of the program; by default any number.

    Returns:
        ``None``: the program has more variables, or the solver did not solve it.
    """
    if not len(src) or not (gbit > 0).any():
        return Solved(0.0, 0)
    if group is None or group_job is None:
        group, group_job = np.zeros(len(src), dtype=np.int32), np.zeros(1, dtype=np.int32)
    if len(fabric.tiers) > 1:
        return concurrent_tiers.least_time(fabric, src, dst, gbit, group, group_job, most=most)
    if most is not None:
        kinds = len(np.unique(fabric.path_type[fabric.path_type >= 0]))
        n_pairs = len(np.unique(np.stack([src, dst, group], axis=1), axis=0))
        if n_pairs * kinds > most:
            return None
    routing = route(fabric, src, dst, gbit, group, group_job)
    return Solved(routing.seconds, routing.variables)


def route(
    fabric: Fabric,
    src: IntArray,
    dst: IntArray,
    gbit: FloatArray,
    group: IntArray | None = None,
    group_job: IntArray | None = None,
    *,
    seconds: float | None = None,
) -> Routing:
    """Return a routing of the demands at a vertex of the program: few commodities use several types.

    Args:
        fabric: the fabric, of which live leaf-spine links count.
        src: [N] source leaf of each demand.
        dst: [N] destination leaf of each demand.
        gbit: [N] size of each demand.
        group: [N] phase group; see ``least_time``.
        group_job: [G] job of each group; see ``least_time``.
        seconds: a time that is known to suffice: the vertex then prefers the types with the most capacity.
    """
    if group is None or group_job is None:
        group, group_job = np.zeros(len(src), dtype=np.int32), np.zeros(1, dtype=np.int32)
    commodity, inverse = np.unique(np.stack([src, dst, group], axis=1).astype(np.int64), axis=0, return_inverse=True)
    amount = np.bincount(inverse.reshape(-1), weights=gbit)
    scale = float(amount.max())
    a, b, g = commodity.T
    kinds, first, count = np.unique(fabric.path_type, return_index=True, return_counts=True)
    kinds, first, count = kinds[kinds >= 0], first[kinds >= 0], count[kinds >= 0]
    tier = fabric.tiers[0]
    up, down = tier.up[np.ix_(a, first)], tier.down[np.ix_(b, first)]
    pair, kind = np.nonzero((up >= 0) & (down >= 0))
    n = len(pair)
    links, row = np.unique(np.concatenate([up[pair, kind], down[pair, kind]]), return_inverse=True)
    row = row.reshape(-1)
    fat = np.ones(len(links))
    fat[row] = np.tile(count[kind], 2)
    capacity = fabric.link_gbps[links] * fat
    job = np.tile(group_job[g[pair]], 2)
    program = LinearProgram()
    if seconds is None:
        time = program.columns(1, cost=1.0)
    else:
        time = program.columns(1, lower=seconds / scale, upper=seconds / scale)
    carried = program.columns(n, cost=0.0 if seconds is None else 1.0 / count[kind])
    both_ends = np.tile(carried, 2)
    demand_rows = program.rows(len(amount), lower=amount / scale, upper=amount / scale)
    program.add(demand_rows[pair], carried, 1.0)
    link_rows = program.rows(len(links), upper=0.0)
    program.add(link_rows, int(time[0]), -capacity)
    program.add(link_rows[row[job == 0]], both_ends[job == 0], 1.0)
    add_heaviest(program, link_rows, row[job > 0], np.tile(g[pair], 2)[job > 0], group_job, both_ends[job > 0], 1.0)
    solution = program.solve()
    x = np.zeros(n) if solution.x is None else solution.x[carried] * scale
    used = np.flatnonzero(x > ROUNDING * scale)
    return Routing(
        solution.value * scale if seconds is None else seconds,
        commodity,
        inverse.reshape(-1),
        pair[used],
        kinds[kind[used]].astype(np.int64),
        x[used],
        program.n_columns,
    )
