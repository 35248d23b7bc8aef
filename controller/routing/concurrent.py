"""Maximum concurrent flow between leaves, as a linear program (Shahrokhi and Matula, J. ACM 37(2), 1990).

Path classes that no leaf can tell apart are one column here: by averaging over their permutations there is an optimum
that treats them alike. So a fabric with a few failed links stays a small program.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.routing.solver import INFINITY, Program, solve


def least_time(
    fabric: Fabric,
    src: IntArray,
    dst: IntArray,
    gbit: FloatArray,
    group: IntArray | None = None,
    group_job: IntArray | None = None,
) -> float:
    """The least number of seconds in which the demands fit through the live leaf-spine links, split at will.

    Args:
        src, dst: [N] leaves, joined by at least one live path.
        gbit: [N] demand of each.
        group: [N] phase group (``Demand.group``): only the heaviest group of each job counts on a link.
        group_job: [G] job of each group; 0 for jobs of one phase, whose groups add up.
    """
    if not len(src) or not (gbit > 0).any():
        return 0.0
    if group is None or group_job is None:
        group, group_job = np.zeros(len(src), dtype=np.int32), np.zeros(1, dtype=np.int32)
    commodity, inverse = np.unique(np.stack([src, dst, group], axis=1), axis=0, return_inverse=True)
    amount = np.bincount(inverse.reshape(-1), weights=gbit)
    scale = float(amount.max())
    a, b, g = commodity.T
    kinds, first, count = np.unique(fabric.path_type, return_index=True, return_counts=True)
    first, count = first[kinds >= 0], count[kinds >= 0]
    up, down = fabric.live_up[np.ix_(a, first)], fabric.live_down[np.ix_(b, first)]
    pair, kind = np.nonzero((up >= 0) & (down >= 0))
    n = len(pair)
    links, row = np.unique(np.concatenate([up[pair, kind], down[pair, kind]]), return_inverse=True)
    row = row.reshape(-1)
    fat = np.ones(len(links))
    fat[row] = np.concatenate([count[kind], count[kind]])
    capacity = fabric.link_gbps[links] * fat
    # Columns: n shares, then one heaviest-phase load for each (job, link) that needs it, then the time.
    job = group_job[g[pair]]
    variable = np.tile(np.arange(n), 2)
    steady = np.tile(job == 0, 2)
    phased = np.stack([np.tile(g[pair], 2), row], axis=1)[~steady]
    heavy_rows, heavy_of = np.unique(phased, axis=0, return_inverse=True)
    heavy_keys = np.stack([group_job[heavy_rows[:, 0]], heavy_rows[:, 1]], axis=1)
    heavies, heavy_column = np.unique(heavy_keys, axis=0, return_inverse=True)
    heavy_of, heavy_column = heavy_of.reshape(-1), heavy_column.reshape(-1)
    n_pairs, n_links, n_heavy, n_rows = len(amount), len(links), len(heavies), len(heavy_rows)
    time = n + n_heavy
    at_link, at_heavy = n_pairs, n_pairs + n_links
    rows = [pair, at_link + row[steady], at_link + np.arange(n_links), at_link + heavies[:, 1], at_heavy + heavy_of,
            at_heavy + np.arange(n_rows)]  # fmt: skip
    columns = [np.arange(n), variable[steady], np.full(n_links, time), n + np.arange(n_heavy), variable[~steady],
               n + heavy_column]  # fmt: skip
    values = [np.ones(n), np.ones(int(steady.sum())), -capacity, np.ones(n_heavy), np.ones(len(heavy_of)),
              -np.ones(n_rows)]  # fmt: skip
    cost = np.zeros(time + 1)
    cost[time] = 1.0
    needed = amount / scale
    solution = solve(
        Program(
            cost,
            np.zeros(time + 1),
            np.full(time + 1, INFINITY),
            np.concatenate([needed, np.full(n_links + n_rows, -INFINITY)]),
            np.concatenate([needed, np.zeros(n_links + n_rows)]),
            np.concatenate(rows),
            np.concatenate(columns),
            np.concatenate(values),
        )
    )
    return solution.value * scale
