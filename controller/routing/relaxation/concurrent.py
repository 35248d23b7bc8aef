"""Maximum concurrent flow between leaves, as a linear program (Shahrokhi and Matula, J. ACM 37(2), 1990).

The amount between two leaves divides over the choices of the first tier; the amounts that thereby come to the same two
switches of the next tier, if there is one, divide again there, whichever leaves they are from. So variables are pairs
of switches and choices, tier by tier, and not whole paths.

Choices that nobody can distinguish share a variable: by averaging over their permutations there is an optimum that
treats them alike. So a fabric with a few failed links stays a small program. Such are two spines with cables to the
same leaves, two cores of one aggregation switch, or two aggregation switches with the same cables to leaves and alike
cables to cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paths.ways import Ways
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.relaxation.heaviest_phase import add_heaviest
from controller.routing.relaxation.solver import LinearProgram

MOST_VARIABLES = 200_000
"""Above this size the program is not solved: it would take minutes."""


class Solved(NamedTuple):
    """The least time, and how many variables its program had."""

    seconds: float
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
        most: most variables of the program beside the time, by default ``MOST_VARIABLES``.

    Returns:
        ``None``: the program has more variables, or the solver did not solve it.
    """
    if not len(src) or not (gbit > 0).any():
        return Solved(0.0, 0)
    if group is None or group_job is None:
        group, group_job = np.zeros(len(src), dtype=np.int32), np.zeros(1, dtype=np.int32)
    ways, gbps = fabric.live_ways, fabric.link_gbps
    if most is not None and len(np.unique(np.stack([src, dst, group], axis=1), axis=0)) > most:
        return None
    ends, met = (src, dst), ways.meet(src, dst)
    routing = route(ways, fabric.choice_kinds, gbps, 0, ends, met, gbit, group, group_job, most=most)
    return None if routing is None else Solved(routing.seconds, routing.variables)


class Routing(NamedTuple):
    """How demands divide over the choices of one tier, at a vertex of the program.

    Attributes:
        seconds: the time that the demands take.
        of_demand: [N] the commodity of each demand: demands with equal ends and group.
        row, kind, gbit: [R] how much of a commodity goes by the choices for which choice ``kind`` stands.
        variables: the number of variables of the program.
    """

    seconds: float
    of_demand: Int64Array
    row: Int64Array
    kind: Int64Array
    gbit: FloatArray
    variables: int


def route(
    ways: Ways,
    kind: Sequence[NDArray[np.int64]],
    gbps: FloatArray,
    tier: int,
    ends: tuple[NDArray[np.integer], NDArray[np.integer]],
    top: NDArray[np.integer],
    gbit: FloatArray,
    group: IntArray,
    group_job: IntArray,
    *,
    seconds: float | None = None,
    most: int | None = None,
) -> Routing | None:
    """Return how demands divide over the choices of a tier such that they fit through it and all tiers above.

    Args:
        ways: the live ways.
        kind: ``Fabric.choice_kinds``.
        gbps: [E] capacity of each link.
        tier: the number t of the tier of cables.
        ends: [N] switches of tier t where each demand comes from and goes to.
        top: [N] tier above which each demand turns down, not less than t.
        gbit: [N] size of each demand.
        group: [N] phase group; see ``concurrent.least_time``.
        group_job: [G] job of each group.
        seconds: a time that is known to suffice; few commodities then use several kinds of choices.
        most: most variables of the program, by default ``MOST_VARIABLES``.

    Returns:
        ``None``: the program is too large, or they do not fit in this time.
    """
    key = np.stack([*ends, group, top], axis=1).astype(np.int64)
    commodity, inverse = np.unique(key, axis=0, return_inverse=True)
    amount = np.bincount(inverse.reshape(-1), weights=gbit)
    scale = float(amount.max())
    program = LinearProgram()
    if seconds is None:
        time = int(program.columns(1, cost=1.0)[0])
    else:
        time = int(program.columns(1, lower=seconds / scale, upper=seconds / scale)[0])
    rows = program.rows(len(amount), lower=amount / scale, upper=amount / scale)
    first = None
    for number in range(tier, ways.n_tiers):
        if not len(commodity):
            break
        links, count = ways.tier(number), _counts(kind[number])
        a, b, g, highest = commodity.T
        usable = links.possible(a, b) & (count[a] > 0)
        above = None
        if number + 1 < ways.n_tiers:
            table = ways.above[ways.table[number] : ways.table[number + 1]].reshape(links.up.shape)
            above = table[a], table[b]
            usable &= (highest == number)[:, None] | ((above[0] >= 0) & (above[1] >= 0))
        pair, choice = np.nonzero(usable)
        if program.n_columns - 1 + len(pair) > (MOST_VARIABLES if most is None else most):
            return None
        alike = count[a[pair], choice].astype(np.float64)
        # On one tier a variable is what its alike choices carry together. On several it is what each of them carries:
        # so scaled, vertices of the program cut fewer flows.
        each = alike if ways.n_tiers > 1 else np.ones(len(alike))
        carried = program.columns(len(pair), cost=0.0 if seconds is None or first is not None else 1.0 / alike)
        program.add(rows[pair], carried, each)
        link = np.concatenate([links.up[a[pair], choice], links.down[b[pair], choice]])
        width = gbps[link] * np.tile(alike / each, 2)
        _limit(program, time, link, width, np.tile(carried, 2), np.tile(g[pair], 2), group_job)
        first = first or (pair, choice, carried, each)
        if above is None:
            break
        onward = np.flatnonzero(highest[pair] > number)
        there = np.stack(
            [
                above[0][pair[onward], choice[onward]],
                above[1][pair[onward], choice[onward]],
                g[pair[onward]],
                highest[pair[onward]],
            ],
            axis=1,
        ).astype(np.int64)
        commodity, place = np.unique(there, axis=0, return_inverse=True)
        # What the next tier's variables carry on equals what this tier's bring: a switch above is behind one choice.
        rows = program.rows(len(commodity), lower=0.0, upper=0.0)
        program.add(rows[place.reshape(-1)], carried[onward], -each[onward] / alike[onward])
    solution = program.solve()
    if not solution.optimal or solution.x is None or first is None:
        return None
    pair, choice, carried, each = first
    x = solution.x[carried] * each * scale
    used = np.flatnonzero(x > ROUNDING * scale)
    return Routing(
        solution.value * scale if seconds is None else seconds,
        inverse.reshape(-1),
        pair[used],
        choice[used].astype(np.int64),
        x[used],
        program.n_columns,
    )


def _limit(
    program: LinearProgram,
    time: int,
    link: IntArray,
    width: FloatArray,
    variable: Int64Array,
    group: Int64Array,
    group_job: IntArray,
) -> None:
    """Let the links carry the variables on them within the time; of the phases of a job only the heaviest counts.

    Args:
        program: the program to extend.
        time: column of the time.
        link: [N] link of each term, which stands for those of alike choices.
        width: [N] its capacity, or that of all for which it stands; equal for terms of one link.
        variable: [N] column of each term.
        group: [N] phase group of each term.
        group_job: [G] job of each group.
    """
    links, first, row = np.unique(link, return_index=True, return_inverse=True)
    row = row.reshape(-1)
    link_rows = program.rows(len(links), upper=0.0)
    program.add(link_rows, time, -width[first])
    steady = group_job[group] == 0
    program.add(link_rows[row[steady]], variable[steady], 1.0)
    rest = ~steady
    add_heaviest(program, link_rows, row[rest], group[rest].astype(np.int32), group_job, variable[rest], 1.0)


def _counts(kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [N, K] the number of choices for which a choice stands, 0 where another stands for it."""
    count = np.zeros(kind.shape, dtype=np.int64)
    switch, choice = np.nonzero(kind >= 0)
    np.add.at(count, (switch, kind[switch, choice]), 1)
    return count
