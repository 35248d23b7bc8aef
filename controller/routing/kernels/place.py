"""Placing whole units one after the other on the path that looks best."""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def least_loaded(order, src, dst, load, live_up, live_down, gbps, link_load, path):
    """Give each unit of ``order`` in turn the path whose fuller link (load over capacity) stays emptiest.

    ``link_load`` [E] is what is there already and is updated; ``path`` [U] receives the class, the lowest on a tie.
    """
    n_paths = live_up.shape[1]
    for u in order:
        a, b, x = src[u], dst[u], load[u]
        best, best_fill = -1, np.inf
        for k in range(n_paths):
            up, down = live_up[a, k], live_down[b, k]
            if up >= 0 and down >= 0:
                fill = max((link_load[up] + x) / gbps[up], (link_load[down] + x) / gbps[down])
                if fill < best_fill:
                    best, best_fill = k, fill
        path[u] = best
        link_load[live_up[a, best]] += x
        link_load[live_down[b, best]] += x


@nb.njit(nogil=True, cache=True)
def order_by_leaf_sets(src, dst, load, n_leaves):
    """[U] units set by set: the flows out of each leaf, the flows into each leaf, the heaviest of these 2L sets first.

    Within a set the heaviest unit first; a unit belongs to whichever of its two sets comes first.
    """
    total = np.zeros(2 * n_leaves)
    for u in range(len(load)):
        total[src[u]] += load[u]
        total[n_leaves + dst[u]] += load[u]
    rank = np.empty(2 * n_leaves, np.int64)
    rank[np.argsort(-total, kind="mergesort")] = np.arange(2 * n_leaves)
    first = np.empty(len(load), np.int64)
    ptr = np.zeros(2 * n_leaves + 1, np.int64)
    for u in range(len(load)):
        first[u] = min(rank[src[u]], rank[n_leaves + dst[u]])
        ptr[first[u] + 1] += 1
    for s in range(2 * n_leaves):
        ptr[s + 1] += ptr[s]
    at = ptr[:-1].copy()
    order = np.empty(len(load), np.int64)
    for u in range(len(load)):
        order[at[first[u]]] = u
        at[first[u]] += 1
    for s in range(2 * n_leaves):
        members = order[ptr[s] : ptr[s + 1]]
        falling = True
        for i in range(1, len(members)):
            falling = falling and load[members[i]] <= load[members[i - 1]]
        if not falling:
            order[ptr[s] : ptr[s + 1]] = members[np.argsort(-load[members], kind="mergesort")]
    return order
