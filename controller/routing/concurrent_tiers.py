"""Maximum concurrent flow through several tiers of cables, as a linear program.

The amount between two leaves divides over the choices of the first tier; the amounts that thereby come to the same two
switches of the next tier divide again there, whichever leaves they are from. So variables are pairs of switches and
choices, tier by tier, and not whole paths.

Choices that nobody can distinguish share a variable, as in ``concurrent``: two cores of one aggregation switch, or two
aggregation switches with the same cables to leaves and alike cables to cores.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.traffic import Int64Array
from controller.model.ways import Ways
from controller.routing.heaviest_phase import add_heaviest
from controller.routing.solver import LinearProgram

MOST_VARIABLES = 200_000
"""Above this size the program is not solved: it would take minutes."""


def least_time(
    fabric: Fabric, src: IntArray, dst: IntArray, gbit: FloatArray, group: IntArray, group_job: IntArray
) -> float:
    """Return the least seconds in which the demands fit; 0, which is a lower bound, where the program is too large.

    The arguments are those of ``concurrent.least_time``.
    """
    ways, gbps = fabric.live_ways, fabric.link_gbps
    counts = _counts(ways, gbps)
    commodity, inverse = np.unique(np.stack([src, dst, group], axis=1).astype(np.int64), axis=0, return_inverse=True)
    amount = np.bincount(inverse.reshape(-1), weights=gbit)
    scale = float(amount.max())
    top = ways.meet(commodity[:, 0], commodity[:, 1])
    program = LinearProgram()
    time = int(program.columns(1, cost=1.0)[0])
    rows = program.rows(len(amount), lower=amount / scale, upper=amount / scale)
    for number in range(ways.n_tiers):
        if not len(commodity):
            break
        tier, count = ways.tier(number), counts[number]
        a, b, g = commodity.T
        usable = tier.possible(a, b) & (count[a] > 0)
        ends = None
        if number + 1 < ways.n_tiers:
            above = ways.above[ways.table[number] : ways.table[number + 1]].reshape(tier.up.shape)
            ends = above[a], above[b]
            usable &= (top == number)[:, None] | ((ends[0] >= 0) & (ends[1] >= 0))
        pair, choice = np.nonzero(usable)
        if program.n_columns + len(pair) > MOST_VARIABLES:
            return 0.0
        carried = program.columns(len(pair))
        program.add(rows[pair], carried, count[a[pair], choice].astype(np.float64))
        link = np.concatenate([tier.up[a[pair], choice], tier.down[b[pair], choice]])
        _limit(program, time, link, np.tile(carried, 2), np.tile(g[pair], 2), group_job, gbps)
        if ends is None:
            break
        onward = np.flatnonzero(top[pair] > number)
        there = np.stack(
            [ends[0][pair[onward], choice[onward]], ends[1][pair[onward], choice[onward]], g[pair[onward]],
             top[pair[onward]]], axis=1,
        ).astype(np.int64)  # fmt: skip
        commodity, place = np.unique(there, axis=0, return_inverse=True)
        commodity, top = commodity[:, :3], commodity[:, 3]
        # What leaves the next tier's variables equals what this tier's bring.
        rows = program.rows(len(commodity), lower=0.0, upper=0.0)
        program.add(rows[place.reshape(-1)], carried[onward], -1.0)
    solution = program.solve()
    return solution.value * scale if solution.optimal else 0.0


def _limit(
    program: LinearProgram,
    time: int,
    link: IntArray,
    variable: Int64Array,
    group: Int64Array,
    group_job: IntArray,
    gbps: FloatArray,
) -> None:
    """Let each link carry the variables on it within the time; of the phases of a job only the heaviest counts."""
    links, row = np.unique(link, return_inverse=True)
    row = row.reshape(-1)
    link_rows = program.rows(len(links), upper=0.0)
    program.add(link_rows, time, -gbps[links])
    steady = group_job[group] == 0
    program.add(link_rows[row[steady]], variable[steady], 1.0)
    rest = ~steady
    add_heaviest(program, link_rows, row[rest], group[rest].astype(np.int32), group_job, variable[rest], 1.0)


def _counts(ways: Ways, gbps: FloatArray) -> list[NDArray[np.int64]]:
    """Return [N_t, K_t] for each tier: the number of choices that a choice stands for, 0 where another does for it."""
    capacity = np.append(gbps, 0.0)
    counts = [np.zeros(ways.tier(t).up.shape, dtype=np.int64) for t in range(ways.n_tiers)]

    def visit(number: int, switch: NDArray[np.integer]) -> list[tuple[str, int]]:
        """Set the counts of these switches (-1: none), which are one plane, and return what distinguishes it."""
        tier = ways.tier(number)
        up = np.where(switch[:, None] >= 0, tier.up[switch], -1)
        down = np.where(switch[:, None] >= 0, tier.down[switch], -1)
        shared = [_shared(table) for table in (up, down)]
        kinds: dict[str, list[int]] = {}
        above = None
        if number + 1 < ways.n_tiers:
            table = ways.above[ways.table[number] : ways.table[number + 1]].reshape(tier.up.shape)
            above = np.where(switch[:, None] >= 0, table[switch], -1)
            shared.append(_shared(above))
        for k in range(up.shape[1]):
            mark = k if any(alone[k] for alone in shared) else -1
            beyond = [] if above is None else visit(number + 1, above[:, k])
            kind = repr((mark, capacity[up[:, k]].tobytes(), capacity[down[:, k]].tobytes(), beyond))
            kinds.setdefault(hashlib.blake2b(kind.encode()).hexdigest(), []).append(k)
        own = np.unique(switch[switch >= 0])
        for members in kinds.values():
            counts[number][own, members[0]] = len(members)
        return sorted((kind, len(members)) for kind, members in kinds.items())

    visit(0, np.arange(ways.group.shape[1]))
    return counts


def _shared(table: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return [K] whether a column of the table [N, K] has an entry (not -1) that another column has, too."""
    owner = np.full(int(table.max(initial=-1)) + 2, -1, dtype=np.int64)
    shared = np.zeros(table.shape[1], dtype=np.bool_)
    for k in range(table.shape[1]):
        entries = table[:, k][table[:, k] >= 0]
        others = owner[entries]
        others = np.unique(others[(others >= 0) & (others != k)])
        shared[others] = True
        shared[k] |= bool(len(others))
        owner[entries] = k
    return shared
