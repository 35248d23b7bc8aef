"""Local search on the busiest links: moves and swaps of whole units until every link fits a target level.

Feasibility search with link weights, as in breakout local search for constraint satisfaction (Morris, AAAI 1993): take
an overloaded link, try to move each of its units to every other path or to swap it with a unit there, do the exchange
that lowers the weighted overload most. Where none does, the weights of the links that are overloaded now grow. Units
that have just moved are not moved for a while. When nothing is overloaded the target is reached: store the plan, raise
the target. After many steps without success, all weights are reset and a part of the units is moved at random:
weights alone can lead to cycles.

Named tuples hold the arrays that functions share. Numba's cache on disk knows their classes by name: after a change
of such a name, delete ``__pycache__``.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.paths.ways import Tier
from controller.model.tolerances import ROUNDING, SAME_VALUE
from controller.model.traffic import Int64Array
from controller.routing.kernels.drawing import advance, below, draw
from controller.routing.kernels.phases import group_total
from controller.routing.kernels.placing.overloaded_links import OverloadedLinks, update_member
from controller.routing.kernels.without_runtime import inner

MOST_UNITS = 24
"""At most this number of units on the chosen link, and of those on a link to swap with, is examined in a step."""

PATIENCE = 20
"""Steps for each unit without reaching a target before units are moved at random; only small instances get that far."""

SCATTERED = 4
"""One unit in this many is then moved at random."""

UP, DOWN = np.int64(0), np.int64(1)
"""The two links of a unit's path, and the two lists of units on links. Functions are compiled once for a value of
``np.int64``, and again for each literal number."""


class Instance(NamedTuple):
    """The constants of a search: U units of P parts, and the fabric's links.

    Attributes:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        part_ptr: [U+1] parts of each unit.
        part_group: [P] phase group of each part.
        group_job: [G] job of each phase group.
        tier: the live links of the units' choices.
        gbps: [E] capacity of each link.
        room: [E] the load above which a link is overloaded.
    """

    src: IntArray
    dst: IntArray
    part_ptr: IntArray
    part_group: IntArray
    group_job: IntArray
    tier: Tier
    gbps: FloatArray
    room: FloatArray


class Loads(NamedTuple):
    """Loads in Gbit/s at the target level, updated with every move.

    Attributes:
        part: [P] load of each part.
        unit: [U] load of each unit.
        link: [E] load of each link.
        by_group: [E, G] load of each link by phase group; [1, G] and unused where there is one phase.
        price: [E] cost of a Gbit/s of overload.
        scratch: [G] scratch.
    """

    part: FloatArray
    unit: FloatArray
    link: FloatArray
    by_group: FloatArray
    price: FloatArray
    scratch: FloatArray


class UnitLists(NamedTuple):
    """The units on each link, as a doubly linked list for each link.

    Attributes:
        head: [E] first unit on the link (-1: none).
        length: [E] number of units on the link.
        following: [2, U] next unit on the unit's uplink (row 0) and downlink (row 1).
        leading: [2, U] previous unit on the unit's uplink (row 0) and downlink (row 1).
    """

    head: IntArray
    length: IntArray
    following: IntArray
    leading: IntArray


class BestExchange(NamedTuple):
    """The best exchange found in a step.

    Attributes:
        cost: [1] growth of the weighted overload.
        exchange: [3] unit that leaves, unit that takes its place (-1: none), path class of the first afterwards.
        ties: [1] number of exchanges seen at this cost.
    """

    cost: FloatArray
    exchange: Int64Array
    ties: Int64Array


@inner
def _link_of(instance, side, unit, path_class):
    """Return the uplink or the downlink of a unit on a path class; -1 where that is not live."""
    if side == UP:
        return instance.tier.up[instance.src[unit], path_class]
    return instance.tier.down[instance.dst[unit], path_class]


@inner
def _insert(lists, side, unit, link):
    """Put a unit at the head of a link's list."""
    first = lists.head[link]
    lists.leading[side, unit] = -1
    lists.following[side, unit] = first
    if first >= 0:
        lists.leading[side, first] = unit
    lists.head[link] = unit
    lists.length[link] += 1


@inner
def _remove(lists, side, unit, link):
    """Take a unit out of a link's list."""
    before, after = lists.leading[side, unit], lists.following[side, unit]
    if before >= 0:
        lists.following[side, before] = after
    else:
        lists.head[link] = after
    if after >= 0:
        lists.leading[side, after] = before
    lists.length[link] -= 1


@nb.njit(nogil=True, cache=True)
def _list_units(instance, path):
    """Return the lists of units on links."""
    n_units, n_links = len(path), len(instance.gbps)
    lists = UnitLists(
        np.full(n_links, -1, np.int32),
        np.zeros(n_links, np.int32),
        np.full((2, n_units), -1, np.int32),
        np.full((2, n_units), -1, np.int32),
    )
    for u in range(n_units):
        for side in (UP, DOWN):
            _insert(lists, side, u, _link_of(instance, side, u, path[u]))
    return lists


@nb.njit(nogil=True, cache=True)
def _load_links(instance, loads, path):
    """Compute the loads of units and links from those of the parts."""
    loads.link[:] = 0.0
    loads.by_group[:] = 0.0
    phased = len(instance.group_job) > 1
    for u in range(len(path)):
        up, down = _link_of(instance, UP, u, path[u]), _link_of(instance, DOWN, u, path[u])
        total = 0.0
        for p in range(instance.part_ptr[u], instance.part_ptr[u + 1]):
            total += loads.part[p]
            if phased:
                loads.by_group[up, instance.part_group[p]] += loads.part[p]
                loads.by_group[down, instance.part_group[p]] += loads.part[p]
        loads.unit[u] = total
        loads.link[up] += total
        loads.link[down] += total
    if phased:
        for e in range(len(loads.link)):
            loads.link[e] = group_total(loads.by_group[e], instance.group_job)


@nb.njit(nogil=True, cache=True)
def _level_reached(instance, part_fixed, part_rising, path):
    """Return the level at which the first link is full, without phases."""
    n_links = len(instance.gbps)
    fixed, rising = np.zeros(n_links), np.zeros(n_links)
    for u in range(len(path)):
        up, down = _link_of(instance, UP, u, path[u]), _link_of(instance, DOWN, u, path[u])
        for p in range(instance.part_ptr[u], instance.part_ptr[u + 1]):
            fixed[up] += part_fixed[p]
            fixed[down] += part_fixed[p]
            rising[up] += part_rising[p]
            rising[down] += part_rising[p]
    level = np.inf
    for e in range(n_links):
        if rising[e] > 0.0:
            level = min(level, (instance.gbps[e] - fixed[e]) / rising[e])
    return level


@inner
def _scatter(instance, lists, path, rng):
    """Move one unit in ``SCATTERED`` to a random path."""
    n_paths = instance.tier.up.shape[1]
    for u in range(len(path)):
        k = draw(rng, SCATTERED * n_paths)
        if k < n_paths and _link_of(instance, UP, u, k) >= 0 and _link_of(instance, DOWN, u, k) >= 0:
            for side in (UP, DOWN):
                _remove(lists, side, u, _link_of(instance, side, u, path[u]))
                _insert(lists, side, u, _link_of(instance, side, u, k))
            path[u] = k


@inner
def _load_after(instance, loads, link, minus, plus):
    """Return the load of a link without unit ``minus`` and with unit ``plus`` (-1: none), counting phases."""
    for g in range(len(loads.scratch)):
        loads.scratch[g] = loads.by_group[link, g]
    if minus >= 0:
        for p in range(instance.part_ptr[minus], instance.part_ptr[minus + 1]):
            loads.scratch[instance.part_group[p]] -= loads.part[p]
    if plus >= 0:
        for p in range(instance.part_ptr[plus], instance.part_ptr[plus + 1]):
            loads.scratch[instance.part_group[p]] += loads.part[p]
    return group_total(loads.scratch, instance.group_job)


@inner
def _link_cost(instance, loads, one, two, u, v):
    """Return the growth of the weighted overload when u goes from link one to two, and v (-1: none) from two to one."""
    if one == two:
        return 0.0
    link, room, price = loads.link, instance.room, loads.price
    if len(instance.group_job) > 1:
        # One integer type, or each mix of them would be compiled anew.
        goes, comes = np.int64(u), np.int64(v)
        first, second = np.int64(one), np.int64(two)
        after_one = _load_after(instance, loads, first, goes, comes)
        after_two = _load_after(instance, loads, second, comes, goes)
    else:
        shift = loads.unit[u]
        if v >= 0:
            shift -= loads.unit[v]
        after_one, after_two = link[one] - shift, link[two] + shift
    grown_one = max(0.0, after_one - room[one]) - max(0.0, link[one] - room[one])
    grown_two = max(0.0, after_two - room[two]) - max(0.0, link[two] - room[two])
    return price[one] * grown_one + price[two] * grown_two


@inner
def _exchange_cost(instance, loads, u, v, old, new):
    """Return the growth of the weighted overload when u goes from class old to new, and v (-1: none) from new to old.

    Where both share a link, their loads are exchanged there; elsewhere each has its own links.
    """
    live_up, live_down = instance.tier.up, instance.tier.down
    a, b = instance.src[u], instance.dst[u]
    c, d = a, b
    if v >= 0:
        c, d = instance.src[v], instance.dst[v]
    cost = _link_cost(instance, loads, live_up[a, old], live_up[a, new], u, v if c == a else -1)
    cost += _link_cost(instance, loads, live_down[b, old], live_down[b, new], u, v if d == b else -1)
    if c != a:
        cost += _link_cost(instance, loads, live_up[c, new], live_up[c, old], v, -1)
    if d != b:
        cost += _link_cost(instance, loads, live_down[d, new], live_down[d, old], v, -1)
    return cost


@inner
def _consider(choice, cost, u, v, new, rng):
    """Take an exchange if it is the best so far; equal ones are equally likely, which avoids cycles."""
    if cost < choice.cost[0] - SAME_VALUE:
        choice.cost[0], choice.ties[0] = cost, 1
    elif cost <= choice.cost[0] + SAME_VALUE:
        choice.ties[0] += 1
        if draw(rng, choice.ties[0]) != 0:
            return
    else:
        return
    choice.exchange[0], choice.exchange[1], choice.exchange[2] = u, v, new


@inner
def _may_swap(instance, loads, path, u, v, new, side):
    """Return whether v, found on a link of class ``new``, can take u's place, and the exchange is not a repeat."""
    a, b, c, d = instance.src[u], instance.dst[u], instance.src[v], instance.dst[v]
    old = path[u]
    if path[v] != new or instance.tier.up[c, old] < 0 or instance.tier.down[d, old] < 0:
        return False
    if c == a and d == b and loads.unit[v] == loads.unit[u]:
        return False
    # From the same leaf: already found on the uplink.
    return side == UP or c != a


@inner
def _try_class(instance, loads, lists, rests_until, path, turn, u, new, choice, rng):
    """Consider the move of u to a class, and swaps with units on its uplink and downlink there; return how many."""
    old = path[u]
    _consider(choice, _exchange_cost(instance, loads, u, -1, old, new), u, -1, new, rng)
    tried = 1
    for side in (UP, DOWN):
        v = lists.head[_link_of(instance, side, u, new)]
        looked = 0
        while v >= 0 and looked < MOST_UNITS:
            if rests_until[v] <= turn and _may_swap(instance, loads, path, u, v, new, side):
                _consider(choice, _exchange_cost(instance, loads, u, v, old, new), u, v, new, rng)
                tried += 1
            looked += 1
            v = lists.following[side, v]
    return tried


@inner
def _choose(instance, loads, lists, rests_until, path, turn, link, choice, state, rng):
    """Find the best exchange for the units on a link; return how many were tried."""
    choice.cost[0], choice.ties[0] = np.inf, 1
    choice.exchange[0], choice.exchange[1], choice.exchange[2] = -1, -1, -1
    u = lists.head[link]
    side = UP if _link_of(instance, UP, u, path[u]) == link else DOWN
    if lists.length[link] > MOST_UNITS:
        for _ in range(np.int64((state >> np.uint64(33)) % np.uint64(lists.length[link] - MOST_UNITS + 1))):
            u = lists.following[side, u]
    looked = tried = 0
    while u >= 0 and looked < MOST_UNITS:
        looked += 1
        if rests_until[u] <= turn and loads.unit[u] > 0.0:
            for new in range(instance.tier.up.shape[1]):
                live = _link_of(instance, UP, u, new) >= 0 and _link_of(instance, DOWN, u, new) >= 0
                if live and new != path[u]:
                    tried += _try_class(instance, loads, lists, rests_until, path, turn, u, new, choice, rng)
        u = lists.following[side, u]
    return tried


@inner
def _move(instance, loads, lists, path, u, new):
    """Move a unit to another class, together with its load."""
    for side in (UP, DOWN):
        one, two = _link_of(instance, side, u, path[u]), _link_of(instance, side, u, new)
        if len(instance.group_job) > 1:
            for p in range(instance.part_ptr[u], instance.part_ptr[u + 1]):
                loads.by_group[one, instance.part_group[p]] -= loads.part[p]
                loads.by_group[two, instance.part_group[p]] += loads.part[p]
        else:
            loads.link[one] -= loads.unit[u]
            loads.link[two] += loads.unit[u]
        _remove(lists, side, u, one)
        _insert(lists, side, u, two)
    path[u] = new


@inner
def _exchange(instance, loads, lists, overloaded, path, u, v, new):
    """Move u to class ``new``, and v (-1: none) to the earlier class of u."""
    old = path[u]
    _move(instance, loads, lists, path, u, new)
    if v >= 0:
        _move(instance, loads, lists, path, v, old)
    for unit in (u, v):
        if unit < 0:
            continue
        back = old if unit == u else new
        for side in (UP, DOWN):
            for link in (_link_of(instance, side, unit, back), _link_of(instance, side, unit, path[unit])):
                if len(instance.group_job) > 1:
                    loads.link[link] = group_total(loads.by_group[link], instance.group_job)
                update_member(loads.link, instance.room, lists.head, overloaded, link)


@nb.njit(nogil=True, cache=True)
def breakout_search(
    src,
    dst,
    part_ptr,
    part_group,
    group_job,
    tier,
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
        tier: the live links of the units' choices.
        gbps: [E] capacity of each link.
        path: [U] class of each unit, live; not changed.
        part_fixed: [P] Gbit/s of each part that stays.
        part_rising: [P] Gbit/s of each part at level 1.
        target: the first level to try; each success is followed by one higher by the fraction ``step``.
        limit: the level at which the search ends.
        step: the relative rise of the target after a success.
        rounds: the most moves and swaps to try.
        seed: the seed of the search.

    Returns:
        best path [U], the level it reaches, rounds used. If no target was reached, the level is 0 and the path is
        the last one tried.
    """
    n_units, n_links = len(path), len(gbps)
    one_phase = len(group_job) == 1
    instance = Instance(src, dst, part_ptr, part_group, group_job, tier, gbps, gbps * (1.0 + ROUNDING))
    loads = Loads(
        np.empty(len(part_fixed)),
        np.empty(n_units),
        np.empty(n_links),
        np.zeros((1 if one_phase else n_links, len(group_job))),
        1.0 / gbps,
        np.empty(len(group_job)),
    )
    path = path.copy()
    best, best_level = path.copy(), 0.0
    lists = _list_units(instance, path)
    overloaded = OverloadedLinks(np.empty(n_links, np.int64), np.full(n_links, -1, np.int64), np.zeros(1, np.int64))
    choice = BestExchange(np.empty(1), np.empty(3, np.int64), np.empty(1, np.int64))
    rests_until = np.zeros(n_units, np.int64)
    rng = np.full(1, np.uint64(seed) * np.uint64(2) + np.uint64(1))
    used, turn, since = 0, 0, 0
    new_target = True
    while used < rounds:
        if new_target:
            new_target = False
            for p in range(len(part_fixed)):
                loads.part[p] = part_fixed[p] + target * part_rising[p]
            _load_links(instance, loads, path)
            used += n_units // 8
            overloaded.place[:] = -1
            overloaded.size[0] = 0
            for e in range(n_links):
                update_member(loads.link, instance.room, lists.head, overloaded, e)
        if overloaded.size[0] == 0:
            best[:] = path
            best_level = target
            if one_phase:
                best_level = max(target, _level_reached(instance, part_fixed, part_rising, path))
            if best_level >= limit * (1.0 - ROUNDING):
                break
            target = min(limit, best_level * (1.0 + step))
            new_target, since = True, turn
            continue
        if turn - since > PATIENCE * n_units:
            _scatter(instance, lists, path, rng)
            loads.price[:] = 1.0 / gbps
            new_target, since = True, turn
            continue
        turn += 1
        state = advance(rng)
        link = overloaded.links[below(state, overloaded.size[0])]
        used += 1 + _choose(instance, loads, lists, rests_until, path, turn, link, choice, state, rng)
        u, v, new = choice.exchange
        if u < 0 or choice.cost[0] >= -SAME_VALUE:
            for e in overloaded.links[: overloaded.size[0]]:
                loads.price[e] += 1.0 / gbps[e]
        if u < 0:
            continue
        rest = 2 + draw(rng, 8)
        rests_until[u] = turn + rest
        if v >= 0:
            rests_until[v] = turn + rest
        _exchange(instance, loads, lists, overloaded, path, u, v, new)
    return (best if best_level > 0.0 else path), best_level, used
