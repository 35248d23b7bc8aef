"""Local search on the busiest links: moves and swaps of whole units until every link fits a target level.

Feasibility search with link weights, as in breakout local search for constraint satisfaction (Morris, AAAI 1993): take
an overloaded link, try to move each of its units to every other path or to swap it with a unit there, do what lowers
the weighted overload most; where nothing does, the links that are overloaded now grow heavier, and units that have
just moved rest for a while. When nothing is overloaded the target is reached: remember the plan, raise the target.
Where that goes on for long without success, all prices are forgotten and a part of the units is thrown elsewhere:
weights alone can lead round in a circle.
"""

from __future__ import annotations

import numba as nb
import numpy as np

EPSILON = 1e-9
"""A load that exceeds capacity by less than this part is a full link, not an overloaded one."""

MOST_UNITS = 24
"""Of the units on the chosen link, and of those on a link to swap with, at most so many are looked at in a step."""

PATIENCE = 20
"""Steps a unit without reaching a target before units are thrown elsewhere; small instances alone get that far."""

THROWN = 4
"""One unit in so many is thrown."""


@nb.njit(nogil=True, cache=True)
def group_total(by_group, group_job):
    """Sum over jobs of the heaviest of their phase groups; group 0 is a job of its own."""
    total, heaviest = 0.0, 0.0
    for g in range(len(group_job)):
        if g > 0 and group_job[g] != group_job[g - 1]:
            total += heaviest
            heaviest = 0.0
        heaviest = max(heaviest, by_group[g])
    return total + heaviest


@nb.njit(nogil=True, cache=True)
def _next(state):
    """The next state of a 64-bit xorshift generator (Marsaglia, J. Stat. Software 8(14), 2003)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@nb.njit(nogil=True, cache=True)
def _relink(w, side, one, two, head, count, following, leading):
    """Take unit w from the list of link one to that of link two."""
    if leading[side, w] >= 0:
        following[side, leading[side, w]] = following[side, w]
    else:
        head[one] = following[side, w]
    if following[side, w] >= 0:
        leading[side, following[side, w]] = leading[side, w]
    count[one] -= 1
    leading[side, w] = -1
    following[side, w] = head[two]
    if head[two] >= 0:
        leading[side, head[two]] = w
    head[two] = w
    count[two] += 1


@nb.njit(nogil=True, cache=True)
def _load_after(link, minus, plus, group_load, group_job, part_ptr, part_group, part_load, scratch):
    """Load of a link without unit ``minus`` and with unit ``plus`` (-1: none) where phases matter."""
    scratch[:] = group_load[link]
    if minus >= 0:
        for p in range(part_ptr[minus], part_ptr[minus + 1]):
            scratch[part_group[p]] -= part_load[p]
    if plus >= 0:
        for p in range(part_ptr[plus], part_ptr[plus + 1]):
            scratch[part_group[p]] += part_load[p]
    return group_total(scratch, group_job)


@nb.njit(nogil=True, cache=True, inline="always")
def _exchange(
    one, two, u, v, unit_load, load, room, price, phased, group_load, group_job, part_ptr, part_group,
    part_load, scratch,
):  # fmt: skip
    """What the weighted overload grows by when unit u goes from link one to two, and v (-1: none) from two to one."""
    if one == two:
        return 0.0
    if phased:
        # One integer type, or each mix of them would be compiled anew.
        goes, comes = np.int64(u), np.int64(v)
        first, second = np.int64(one), np.int64(two)
        after_one = _load_after(first, goes, comes, group_load, group_job, part_ptr, part_group, part_load, scratch)
        after_two = _load_after(second, comes, goes, group_load, group_job, part_ptr, part_group, part_load, scratch)
    else:
        shift = unit_load[u]
        if v >= 0:
            shift -= unit_load[v]
        after_one, after_two = load[one] - shift, load[two] + shift
    grown_one = max(0.0, after_one - room[one]) - max(0.0, load[one] - room[one])
    grown_two = max(0.0, after_two - room[two]) - max(0.0, load[two] - room[two])
    return price[one] * grown_one + price[two] * grown_two


@nb.njit(nogil=True, cache=True)
def _fill(src, dst, part_ptr, part_group, part_load, group_job, live_up, live_down, path, unit_load, load, group_load):
    """Loads of units and links from scratch."""
    load[:] = 0.0
    group_load[:] = 0.0
    phased = len(group_job) > 1
    for u in range(len(path)):
        up, down = live_up[src[u], path[u]], live_down[dst[u], path[u]]
        total = 0.0
        for p in range(part_ptr[u], part_ptr[u + 1]):
            total += part_load[p]
            if phased:
                group_load[up, part_group[p]] += part_load[p]
                group_load[down, part_group[p]] += part_load[p]
        unit_load[u] = total
        load[up] += total
        load[down] += total
    if phased:
        for e in range(len(load)):
            load[e] = group_total(group_load[e], group_job)


@nb.njit(nogil=True, cache=True)
def _reached(src, dst, part_ptr, part_fixed, part_rising, live_up, live_down, gbps, path):
    """The level at which the first link is full, without phases."""
    fixed, rising = np.zeros(len(gbps)), np.zeros(len(gbps))
    for u in range(len(path)):
        up, down = live_up[src[u], path[u]], live_down[dst[u], path[u]]
        for p in range(part_ptr[u], part_ptr[u + 1]):
            fixed[up] += part_fixed[p]
            fixed[down] += part_fixed[p]
            rising[up] += part_rising[p]
            rising[down] += part_rising[p]
    level = np.inf
    for e in range(len(gbps)):
        if rising[e] > 0.0:
            level = min(level, (gbps[e] - fixed[e]) / rising[e])
    return level


@nb.njit(nogil=True, cache=True)
def search(
    src, dst, part_ptr, part_group, part_fixed, part_rising, group_job, live_up, live_down, gbps, path,
    target, limit, step, rounds, seed,
):  # fmt: skip
    """Raise the level of all rising parts towards ``limit`` while fixed parts keep theirs.

    Args:
        path: [U] class of each unit, live; not changed.
        part_fixed, part_rising: [P] Gbit/s of each part that stays, and that it takes at level 1.
        target: the first level to try; each success is followed by one higher by the part ``step``.
        rounds: how many moves and swaps may be tried.

    Returns:
        best path [U], the level it reaches, rounds used. If no target was reached, the level is 0 and the path the
        last one tried.
    """
    n_units, n_links, n_paths = len(path), len(gbps), live_up.shape[1]
    phased = len(group_job) > 1
    path = path.copy()
    best, best_level = path.copy(), 0.0
    part_load = np.empty(len(part_fixed))
    unit_load = np.empty(n_units)
    load = np.empty(n_links)
    group_load = np.zeros((n_links if phased else 1, len(group_job)))
    scratch = np.empty(len(group_job))
    room = gbps * (1.0 + EPSILON)
    price = 1.0 / gbps
    rests_until = np.zeros(n_units, np.int64)
    # Which units are on a link: doubly linked lists, side 0 for uplinks and side 1 for downlinks.
    head = np.full(n_links, -1, np.int32)
    count = np.zeros(n_links, np.int32)
    following = np.full((2, n_units), -1, np.int32)
    leading = np.full((2, n_units), -1, np.int32)
    for u in range(n_units):
        for side in range(2):
            e = live_up[src[u], path[u]] if side == 0 else live_down[dst[u], path[u]]
            following[side, u] = head[e]
            if head[e] >= 0:
                leading[side, head[e]] = u
            head[e] = u
            count[e] += 1
    hot = np.empty(n_links, np.int64)
    place = np.full(n_links, -1, np.int64)
    used, turn, since = 0, 0, 0
    state = np.uint64(seed) * np.uint64(2) + np.uint64(1)
    fresh = True
    n_hot = 0
    changed = np.empty(8, np.int64)
    while used < rounds:
        if fresh:
            fresh = False
            for p in range(len(part_load)):
                part_load[p] = part_fixed[p] + target * part_rising[p]
            _fill(
                src, dst, part_ptr, part_group, part_load, group_job, live_up, live_down, path, unit_load, load,
                group_load,
            )  # fmt: skip
            used += n_units // 8
            place[:] = -1
            n_hot = 0
            for e in range(n_links):
                if load[e] > room[e] and head[e] >= 0:
                    hot[n_hot], place[e] = e, n_hot
                    n_hot += 1
        if n_hot == 0:
            best[:] = path
            best_level = target
            if not phased:
                best_level = max(
                    target, _reached(src, dst, part_ptr, part_fixed, part_rising, live_up, live_down, gbps, path)
                )
            if best_level >= limit * (1.0 - EPSILON):
                break
            target = min(limit, best_level * (1.0 + step))
            fresh, since = True, turn
            continue
        if turn - since > PATIENCE * n_units:
            for w in range(n_units):
                state = _next(state)
                k = np.int64((state >> np.uint64(11)) % np.uint64(THROWN * n_paths))
                if k < n_paths and live_up[src[w], k] >= 0 and live_down[dst[w], k] >= 0:
                    _relink(w, 0, live_up[src[w], path[w]], live_up[src[w], k], head, count, following, leading)
                    _relink(w, 1, live_down[dst[w], path[w]], live_down[dst[w], k], head, count, following, leading)
                    path[w] = k
            price[:] = 1.0 / gbps
            fresh, since = True, turn
            continue
        turn += 1
        state = _next(state)
        link = hot[np.int64((state >> np.uint64(11)) % np.uint64(n_hot))]
        u = head[link]
        side = 0 if live_up[src[u], path[u]] == link else 1
        skip = np.int64(0)
        if count[link] > MOST_UNITS:
            skip = np.int64((state >> np.uint64(33)) % np.uint64(count[link] - MOST_UNITS + 1))
        for _ in range(skip):
            u = following[side, u]
        best_cost, best_u, best_v, best_k, ties = np.inf, -1, -1, -1, 1
        looked = 0
        while u >= 0 and looked < MOST_UNITS:
            looked += 1
            a, b, k = src[u], dst[u], path[u]
            x = unit_load[u]
            up, down = live_up[a, k], live_down[b, k]
            if rests_until[u] <= turn and x > 0.0:
                for other in range(n_paths):
                    new_up, new_down = live_up[a, other], live_down[b, other]
                    if other == k or new_up < 0 or new_down < 0:
                        continue
                    # v = -1 is the plain move; then swaps with units on the new uplink, then on the new downlink.
                    v, v_side, tried = -1, 0, 0
                    while True:
                        y = 0.0
                        allowed = True
                        c, d = a, b
                        if v >= 0:
                            y = unit_load[v]
                            c, d = src[v], dst[v]
                            allowed = (
                                rests_until[v] <= turn
                                and path[v] == other
                                and live_up[c, k] >= 0
                                and live_down[d, k] >= 0
                                and (y < x or y > x or (c != a or d != b))
                                and not (v_side == 1 and c == a)
                            )
                        if allowed:
                            used += 1
                            cost = _exchange(
                                up, new_up, u, v if c == a else -1, unit_load, load, room, price, phased,
                                group_load, group_job, part_ptr, part_group, part_load, scratch,
                            )  # fmt: skip
                            cost += _exchange(
                                down, new_down, u, v if d == b else -1, unit_load, load, room, price, phased,
                                group_load, group_job, part_ptr, part_group, part_load, scratch,
                            )  # fmt: skip
                            if v >= 0 and c != a:
                                cost += _exchange(
                                    live_up[c, other], live_up[c, k], v, -1, unit_load, load, room, price,
                                    phased, group_load, group_job, part_ptr, part_group, part_load, scratch,
                                )  # fmt: skip
                            if v >= 0 and d != b:
                                cost += _exchange(
                                    live_down[d, other], live_down[d, k], v, -1, unit_load, load, room, price,
                                    phased, group_load, group_job, part_ptr, part_group, part_load, scratch,
                                )  # fmt: skip
                            if cost < best_cost - 1e-12:
                                best_cost, best_u, best_v, best_k, ties = cost, u, v, other, 1
                            elif cost <= best_cost + 1e-12:
                                # Among equals each is as likely: no favourite path, no cycles.
                                ties += 1
                                state = _next(state)
                                if (state >> np.uint64(11)) % np.uint64(ties) == 0:
                                    best_u, best_v, best_k = u, v, other
                        if v < 0:
                            v = head[new_up]
                        else:
                            tried += 1
                            v = following[v_side, v]
                        if v_side == 0 and (v < 0 or tried >= MOST_UNITS):
                            v_side, v, tried = 1, head[new_down], 0
                        if v < 0 or tried >= MOST_UNITS:
                            break
            u = following[side, u]
        used += 1
        if best_u < 0 or best_cost >= -1e-12:
            for i in range(n_hot):
                price[hot[i]] += 1.0 / gbps[hot[i]]
            if best_u < 0:
                continue
        state = _next(state)
        rest = 2 + np.int64((state >> np.uint64(11)) % np.uint64(8))
        k = path[best_u]
        n_changed = 0
        for mover in range(2):
            w = best_u if mover == 0 else best_v
            if w < 0:
                continue
            old, new = (k, best_k) if mover == 0 else (best_k, k)
            path[w] = new
            rests_until[w] = turn + rest
            for side in range(2):
                one = live_up[src[w], old] if side == 0 else live_down[dst[w], old]
                two = live_up[src[w], new] if side == 0 else live_down[dst[w], new]
                changed[n_changed], changed[n_changed + 1] = one, two
                n_changed += 2
                if phased:
                    for p in range(part_ptr[w], part_ptr[w + 1]):
                        group_load[one, part_group[p]] -= part_load[p]
                        group_load[two, part_group[p]] += part_load[p]
                else:
                    load[one] -= unit_load[w]
                    load[two] += unit_load[w]
                _relink(w, side, one, two, head, count, following, leading)
        for i in range(n_changed):
            e = changed[i]
            if phased:
                load[e] = group_total(group_load[e], group_job)
            if load[e] > room[e] and place[e] < 0 and head[e] >= 0:
                hot[n_hot], place[e] = e, n_hot
                n_hot += 1
            elif place[e] >= 0 and (load[e] <= room[e] or head[e] < 0):
                last = hot[n_hot - 1]
                hot[place[e]], place[last] = last, place[e]
                place[e] = -1
                n_hot -= 1
    return (best if best_level > 0.0 else path), best_level, used
