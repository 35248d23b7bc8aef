"""Breakout search where paths have choices in several tiers of cables: ``breakout_search`` on whole paths.

As there, a step takes an overloaded link and does the exchange that lowers the weighted overload most; where none does,
the weights of the links that are overloaded now grow, and units that have just moved rest. Exchanges are:

* a unit of the link moves to the best of all its paths: tier by tier, a choice whose links alone cost more than the
  best path so far is not followed;
* if none of these lowers the overload, pairs are drawn: a unit of the link and one that a switch on its path sends
  over, or receives by, another choice. Both are taken off their links, then the first gets its best other path, and the
  second the best of those that are left. So they may exchange a choice of one tier, of several, or whole paths, and the
  second may also go elsewhere.

Loads, and the units on each link, are in ``units_on_ways``.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import ROUNDING, SAME_VALUE
from controller.model.traffic import Int64Array
from controller.routing.kernels.drawing import draw
from controller.routing.kernels.paths import path_links
from controller.routing.kernels.placing.overloaded_links import OverloadedLinks, update_member
from controller.routing.kernels.placing.units_on_ways import (
    Crossings,
    LoadsOnWays,
    UnitsOnWays,
    entry_of,
    growth,
    level_reached,
    list_unit,
    load_path,
    move,
    n_links_of,
    reload,
    unlist_unit,
)
from controller.routing.kernels.without_runtime import without_runtime

MOST_UNITS = 24
"""At most this number of units on the chosen link is examined in a step."""

PAIRS = 48
"""Most pairs drawn in a step, if no unit alone can lower the overload."""

PATIENCE = 20
"""Steps for each unit without reaching a target before units are moved at random; only small instances get that far."""

SCATTERED = 4
"""One unit in this many is then moved at random."""

NODES = 4
"""Links of a path (up and down in one tier) that count as one move tried."""


class Descent(NamedTuple):
    """What the search for a unit's best path keeps, for each tier.

    Attributes:
        lower, upper: [T] the switches of the tier.
        choice: [T] the choice examined last.
        number: [T] the choices below as one number.
        cost: [T] cost of the links below.
        best: [1] cost of the best path.
        ties: [1] number of paths with that cost.
        nodes: [1] choices examined so far, of all units.
        links: [2T] the links of a path.
    """

    lower: Int64Array
    upper: Int64Array
    choice: Int64Array
    number: Int64Array
    cost: FloatArray
    best: FloatArray
    ties: Int64Array
    nodes: Int64Array
    links: IntArray


class BestPair(NamedTuple):
    """The best exchange of a step.

    Attributes:
        cost: [1] growth of the weighted overload.
        units: [4] the unit that moves, its new path, the other unit (-1: none), and its new path.
        ties: [1] number of exchanges seen at this cost.
    """

    cost: FloatArray
    units: Int64Array
    ties: Int64Array


@without_runtime
def _best_path(units, loads, ways, u, banned, descent, rng):
    """Return the path on which unit u grows the weighted overload least, other than ``banned``; -1: there is none.

    The growth is in ``descent.best``. Of equal paths, each is equally likely.
    """
    first, width, table, up, down, above, _ = ways
    top = units.meet[u]
    descent.best[0], descent.ties[0] = np.inf, 0
    if top >= len(width):
        return np.int64(-1)
    lower, upper, choice, number, cost = descent.lower, descent.upper, descent.choice, descent.number, descent.cost
    lower[0], upper[0], choice[0], number[0], cost[0] = units.src[u], units.dst[u], -1, 0, 0.0
    best, chosen, tier = np.inf, np.int64(-1), 0
    while tier >= 0:
        choice[tier] += 1
        if choice[tier] == width[tier]:
            tier -= 1
            continue
        out = table[tier] + lower[tier] * width[tier] + choice[tier]
        back = table[tier] + upper[tier] * width[tier] + choice[tier]
        if up[out] < 0 or down[back] < 0:
            continue
        descent.nodes[0] += 1
        grown = cost[tier] + growth(units, loads, np.int64(up[out]), u, 1.0)
        if grown > best + SAME_VALUE:
            continue
        grown += growth(units, loads, np.int64(down[back]), u, 1.0)
        if grown > best + SAME_VALUE:
            continue
        here = number[tier] * width[tier] + choice[tier]
        if tier < top:
            a, b = above[out], above[back]
            if a >= 0 and b >= 0:
                tier += 1
                lower[tier], upper[tier], choice[tier], number[tier], cost[tier] = a, b, -1, here, grown
            continue
        path = first[top] + here
        if path == banned:
            continue
        if grown < best - SAME_VALUE:
            best, chosen, descent.ties[0] = grown, path, 1
        else:
            descent.ties[0] += 1
            if draw(rng, descent.ties[0]) == 0:
                chosen = path
    descent.best[0] = best
    return chosen


@without_runtime
def _consider(exchange, cost, u, k, v, j, rng):
    """Take an exchange if it is the best so far; equal ones are equally likely, which avoids cycles."""
    if cost < exchange.cost[0] - SAME_VALUE:
        exchange.cost[0], exchange.ties[0] = cost, 1
    elif cost <= exchange.cost[0] + SAME_VALUE:
        exchange.ties[0] += 1
        if draw(rng, exchange.ties[0]) != 0:
            return
    else:
        return
    exchange.units[0], exchange.units[1], exchange.units[2], exchange.units[3] = u, k, v, j


@without_runtime
def _partner(units, ways, lists, path, u, rng):
    """Draw a unit that a switch on the path of unit u sends over, or receives by, another choice; -1: none there."""
    _, width, table, up, down, above, _ = ways
    tier_of, side = draw(rng, units.meet[u] + 1), draw(rng, 2)
    # The choices of a path, from its number: the last one is the number modulo the width of its tier, and so on.
    rest, after = path[u] - ways[0][units.meet[u]], np.int64(1)
    for tier in range(1, units.meet[u] + 1):
        after *= width[tier]
    switch = np.int64(units.src[u] if side == 0 else units.dst[u])
    choice = np.int64(0)
    for tier in range(tier_of + 1):
        choice = rest // after
        rest -= choice * after
        if tier < tier_of:
            switch = np.int64(above[table[tier] + switch * width[tier] + choice])
            after //= width[tier + 1]
    if width[tier_of] < 2:
        return np.int64(-1)
    other = draw(rng, width[tier_of] - 1)
    if other >= choice:
        other += 1
    at = table[tier_of] + switch * width[tier_of] + other
    link = up[at] if side == 0 else down[at]
    if link < 0 or lists.length[link] == 0:
        return np.int64(-1)
    return np.int64(entry_of(lists, link, draw(rng, lists.length[link])) // lists.of.shape[1])


@without_runtime
def _choose(units, loads, ways, lists, rests_until, path, turn, link, exchange, descent, rng):
    """Find the best exchange for the units on a link."""
    exchange.cost[0], exchange.ties[0], exchange.units[0] = np.inf, 1, -1
    width, length = lists.of.shape[1], np.int64(lists.length[link])
    begin = draw(rng, length - MOST_UNITS + 1) if length > MOST_UNITS else np.int64(0)
    entry = entry_of(lists, link, begin)
    examined = length if length < MOST_UNITS else np.int64(MOST_UNITS)
    for _ in range(examined):
        u = np.int64(entry // width)
        entry = lists.following[entry]
        if rests_until[u] > turn:
            continue
        n = n_links_of(lists, u)
        gone = load_path(units, loads, u, lists.of[u], n, -1.0)
        k = _best_path(units, loads, ways, u, np.int64(path[u]), descent, rng)
        if k >= 0:
            _consider(exchange, gone + descent.best[0], u, k, np.int64(-1), np.int64(-1), rng)
        load_path(units, loads, u, lists.of[u], n, 1.0)
    if exchange.cost[0] < -SAME_VALUE:
        return
    for _ in range(PAIRS):
        u = np.int64(entry_of(lists, link, draw(rng, length)) // width)
        v = _partner(units, ways, lists, path, u, rng)
        descent.nodes[0] += 1
        if v < 0 or v == u or rests_until[u] > turn or rests_until[v] > turn:
            continue
        n, m = n_links_of(lists, u), n_links_of(lists, v)
        cost = load_path(units, loads, u, lists.of[u], n, -1.0)
        cost += load_path(units, loads, v, lists.of[v], m, -1.0)
        k = _best_path(units, loads, ways, u, np.int64(path[u]), descent, rng)
        if k >= 0:
            cost += descent.best[0]
            n_new = path_links(ways, np.int64(units.src[u]), np.int64(units.dst[u]), k, descent.links)
            load_path(units, loads, u, descent.links, n_new, 1.0)
            j = _best_path(units, loads, ways, v, np.int64(-1), descent, rng)
            cost += descent.best[0]
            load_path(units, loads, u, descent.links, n_new, -1.0)
            _consider(exchange, cost, u, k, v, j, rng)
        load_path(units, loads, u, lists.of[u], n, 1.0)
        load_path(units, loads, v, lists.of[v], m, 1.0)
        if exchange.cost[0] < -SAME_VALUE:
            return


@nb.njit(nogil=True, cache=True)
def _scatter(units, ways, lists, path, links, rng):
    """Move one unit in ``SCATTERED`` to a random path, if the first one drawn is live."""
    for u in range(len(path)):
        if draw(rng, SCATTERED) != 0 or units.meet[u] >= len(ways.width):
            continue
        first = ways.first[units.meet[u]]
        k = first + draw(rng, ways.first[units.meet[u] + 1] - first)
        n = path_links(ways, np.int64(units.src[u]), np.int64(units.dst[u]), k, links)
        live = True
        for i in range(n):
            live = live and links[i] >= 0
        if live:
            unlist_unit(lists, u)
            path[u] = k
            list_unit(units, ways, lists, path, u)


@nb.njit(nogil=True, cache=True)
def _jobs_of_groups(group_job):
    """Return [2, G] the first of the groups of each group's job, and the one after the last."""
    same_job = np.empty((2, len(group_job)), np.int64)
    for g in range(len(group_job)):
        same_job[0, g] = same_job[0, g - 1] if g > 0 and group_job[g] == group_job[g - 1] else g
    for g in range(len(group_job) - 1, -1, -1):
        last = g + 1 == len(group_job) or group_job[g] != group_job[g + 1]
        same_job[1, g] = g + 1 if last else same_job[1, g + 1]
    return same_job


@nb.njit(nogil=True, cache=True)
def breakout_on_ways(
    src,
    dst,
    part_ptr,
    part_group,
    group_job,
    meet,
    ways,
    gbps,
    path,
    part_fixed,
    part_rising,
    target,
    limit,
    step,
    rounds,
    seed,
):
    """Raise the level of all rising parts towards ``limit`` while fixed parts keep theirs.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        part_ptr: [U+1] parts of each unit.
        part_group: [P] phase group of each part.
        group_job: [G] job of each phase group.
        meet: [U] the tier of cables above which the leaves of each unit meet.
        ways: the live ways.
        gbps: [E] capacity of each link.
        path: [U] a live path of each unit; not changed.
        part_fixed: [P] Gbit/s of each part that stays.
        part_rising: [P] Gbit/s of each part at level 1.
        target: the first level to try; each success is followed by one higher by the fraction ``step``.
        limit: the level at which the search ends.
        step: the relative rise of the target after a success.
        rounds: the most moves to try.
        seed: the seed of the search.

    Returns:
        best path [U], the level it reaches, rounds used. If no target was reached, the level is 0 and the path is
        the last one tried.
    """
    n_units, n_links, n_tiers = len(path), len(gbps), len(ways.width)
    one_phase = len(group_job) == 1
    units = UnitsOnWays(src, dst, meet, part_ptr, part_group, _jobs_of_groups(group_job), gbps, gbps * (1.0 + ROUNDING))
    loads = LoadsOnWays(
        np.empty(len(part_fixed)),
        np.empty(n_units),
        np.empty(n_links),
        np.zeros((1 if one_phase else n_links, len(group_job))),
        1.0 / gbps,
    )
    path = path.copy()
    best, best_level = path.copy(), 0.0
    entries = n_units * 2 * n_tiers
    lists = Crossings(
        np.full((n_units, 2 * n_tiers), -1, np.int32),
        np.full(n_links, -1, np.int32),
        np.zeros(n_links, np.int32),
        np.empty(entries, np.int32),
        np.empty(entries, np.int32),
    )
    for u in range(n_units):
        list_unit(units, ways, lists, path, np.int64(u))
    overloaded = OverloadedLinks(np.empty(n_links, np.int64), np.full(n_links, -1, np.int64), np.zeros(1, np.int64))
    descent = Descent(
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers),
        np.empty(1),
        np.empty(1, np.int64),
        np.zeros(1, np.int64),
        np.empty(2 * n_tiers, np.int32),
    )
    exchange = BestPair(np.empty(1), np.empty(4, np.int64), np.empty(1, np.int64))
    rests_until = np.zeros(n_units, np.int64)
    rng = np.full(1, np.uint64(seed) * np.uint64(2) + np.uint64(1))
    used, turn, since = 0, 0, 0
    new_target = True
    while used + descent.nodes[0] // NODES < rounds:
        if new_target:
            new_target = False
            for p in range(len(part_fixed)):
                loads.part[p] = part_fixed[p] + target * part_rising[p]
            reload(units, loads, lists, path)
            used += n_units // 8
            overloaded.place[:] = -1
            overloaded.size[0] = 0
            for e in range(n_links):
                update_member(loads.link, units.room, lists.head, overloaded, e)
        if overloaded.size[0] == 0:
            best[:] = path
            best_level = target
            if one_phase:
                best_level = max(target, level_reached(units, lists, part_fixed, part_rising))
            if best_level >= limit * (1.0 - ROUNDING):
                break
            target = min(limit, best_level * (1.0 + step))
            new_target, since = True, turn
            continue
        if turn - since > PATIENCE * n_units:
            _scatter(units, ways, lists, path, descent.links, rng)
            loads.price[:] = 1.0 / gbps
            new_target, since = True, turn
            continue
        turn += 1
        used += 1
        link = overloaded.links[draw(rng, overloaded.size[0])]
        _choose(units, loads, ways, lists, rests_until, path, turn, link, exchange, descent, rng)
        if exchange.units[0] < 0 or exchange.cost[0] >= -SAME_VALUE:
            for e in overloaded.links[: overloaded.size[0]]:
                loads.price[e] += 1.0 / gbps[e]
        if exchange.units[0] < 0:
            continue
        rest = 2 + draw(rng, 8)
        for at in (0, 2):
            if exchange.units[at] >= 0:
                rests_until[exchange.units[at]] = turn + rest
                move(units, loads, ways, lists, overloaded, path, exchange.units[at], exchange.units[at + 1])
    return (best if best_level > 0.0 else path), best_level, used + descent.nodes[0] // NODES
