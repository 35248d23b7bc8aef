"""Walks along the paths of all units at once: which are live, and what they put on their links."""

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
