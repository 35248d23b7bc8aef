"""Walks along the paths of all units at once: which are live, and what they put on their links, or tier by tier."""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def add_loads(src, dst, path, load, ways, link_load):
    """Add the load of each unit to the links of its path, if that joins its leaves; return [U] whether it does.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        path: [U] path of each unit; negative: none.
        load: [U] load of each unit.
        ways: the paths and their links.
        link_load: [E] changes in place.
    """
    # Taken out of the tuple once, and without calls: else that takes longer than all the rest.
    first, width, table, up, down, above, group = ways
    n_tiers = len(width)
    links = np.empty(2 * n_tiers, np.int64)
    after = np.ones((n_tiers, n_tiers), np.int64)
    for top in range(n_tiers):
        for tier in range(top - 1, -1, -1):
            after[top, tier] = after[top, tier + 1] * width[tier + 1]
    live = np.zeros(len(path), np.bool_)
    for u in range(len(path)):
        lower, upper, top = np.int64(src[u]), np.int64(dst[u]), 0
        while top < n_tiers and group[top, lower] != group[top, upper]:
            top += 1
        if top == n_tiers or path[u] < first[top] or path[u] >= first[top + 1]:
            continue
        rest, whole = np.uint32(path[u] - first[top]), True
        for tier in range(top + 1):
            choice = np.int64(rest)
            if tier < top:
                choice = np.int64(rest // np.uint32(after[top, tier]))
                rest = np.uint32(np.int64(rest) - choice * after[top, tier])
            out = table[tier] + lower * width[tier] + choice
            back = table[tier] + upper * width[tier] + choice
            links[2 * tier], links[2 * tier + 1] = up[out], down[back]
            if up[out] < 0 or down[back] < 0:
                whole = False
                break
            if tier < top:
                lower, upper = np.int64(above[out]), np.int64(above[back])
        if not whole:
            continue
        live[u] = True
        for i in range(2 * top + 2):
            link_load[links[i]] += load[u]
    return live


@nb.njit(nogil=True, cache=True)
def fullest(src, dst, path, load, ways, gbps):
    """Return load over capacity of the fullest link; infinite unless all units have a path that joins their leaves.

    Loads are added up by choices first: reading the link of each choice of each unit would take as long again.
    """
    first, width, table, up, down, above, group = ways
    n_tiers = len(width)
    out_load, back_load = np.zeros(len(up)), np.zeros(len(down))
    for u in range(len(path)):
        lower, upper, top = np.int64(src[u]), np.int64(dst[u]), 0
        while top < n_tiers and group[top, lower] != group[top, upper]:
            top += 1
        if top == n_tiers or path[u] < first[top] or path[u] >= first[top + 1]:
            return np.inf
        after = np.int64(1)
        for tier in range(1, top + 1):
            after *= width[tier]
        rest = np.uint32(path[u] - first[top])
        for tier in range(top + 1):
            choice = np.int64(rest)
            if tier < top:
                choice = np.int64(rest // np.uint32(after))
                rest = np.uint32(np.int64(rest) - choice * after)
                after //= width[tier + 1]
            out = table[tier] + lower * width[tier] + choice
            back = table[tier] + upper * width[tier] + choice
            out_load[out] += load[u]
            back_load[back] += load[u]
            if tier < top:
                lower, upper = np.int64(above[out]), np.int64(above[back])
                if lower < 0 or upper < 0:
                    return np.inf
    link_load = np.zeros(len(gbps))
    for at in range(len(up)):
        if (up[at] < 0 and out_load[at] > 0.0) or (down[at] < 0 and back_load[at] > 0.0):
            return np.inf
        link_load[max(up[at], 0)] += out_load[at]
        link_load[max(down[at], 0)] += back_load[at]
    return (link_load / gbps).max() if len(gbps) else 0.0


@nb.njit(nogil=True, cache=True)
def choices(path, meet, first, width):
    """Return the choice [T, U] of each path [U] on each tier; -1 above that where its leaves ``meet`` [U], or if none.

    ``first`` [T+1] and ``width`` [T] are those of ``Ways``.
    """
    n_tiers = len(width)
    made = np.full((n_tiers, len(path)), -1, np.int64)
    for u in range(len(path)):
        top = meet[u]
        if top >= n_tiers or path[u] < first[top] or path[u] >= first[top + 1]:
            continue
        rest = np.uint32(path[u] - first[top])
        for tier in range(top, -1, -1):
            below = rest // np.uint32(width[tier])
            made[tier, u] = rest - below * np.uint32(width[tier])
            rest = below
    return made


@nb.njit(nogil=True, cache=True)
def stranded(there, lower, upper, choice, tier):
    """Return which units [U] of those that are ``there`` [U], on a tier, have no live choice on it."""
    up, down = tier
    none = np.zeros(len(choice), np.bool_)
    for u in range(len(choice)):
        if there[u]:
            k = choice[u]
            none[u] = k < 0 or up[lower[u], k] < 0 or down[upper[u], k] < 0
    return none


@nb.njit(nogil=True, cache=True)
def in_reach(there, lower, upper, some, n_switches):
    """Return the units between switches that units connect, directly or not, with a switch of ``some`` [U] of them.

    Only units that are ``there`` [U], on the tier, connect any.
    """
    marked, changed = np.zeros(n_switches, np.bool_), True
    for u in range(len(some)):
        if some[u]:
            marked[lower[u]] = marked[upper[u]] = True
    while changed:
        changed = False
        for u in range(len(some)):
            if there[u] and marked[lower[u]] != marked[upper[u]]:
                marked[lower[u]] = marked[upper[u]] = changed = True
    near = np.zeros(len(some), np.bool_)
    for u in range(len(some)):
        near[u] = there[u] and marked[lower[u]]
    return np.flatnonzero(near)


@nb.njit(nogil=True, cache=True)
def climb(end, choice, meet, number, ways):
    """Replace the switch ``end`` [U] of each unit on a tier by that above its choice; -1: there is none.

    Units that do not go on to the next tier keep theirs.
    """
    width, begin, above = ways.width[number], ways.table[number], ways.above
    for u in range(len(end)):
        if meet[u] > number:
            known = end[u] >= 0 and choice[u] >= 0
            end[u] = above[begin + end[u] * width + choice[u]] if known else -1
