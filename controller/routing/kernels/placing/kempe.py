"""Adding units to a plan in which every link carries at most one unit: edge colouring, one edge at a time.

The frequent case: equal loads, and links for one of them each. Then a leaf and a direction have one slot a path class,
and a unit for which no class is free at both ends takes one (alpha) free at its source; along the chain of units
that alternate between alpha and a class (beta) that is free at its destination, the two are exchanged (Kempe chains,
as in König's proof for bipartite graphs). ``chains`` does the same for any loads, in ten times the time.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING

CHAINS = 24
"""Pairs of classes tried for one unit; the shortest chain is taken."""


@nb.njit(nogil=True, cache=True)
def one_slot(load, tier, gbps):
    """Return whether all units have equal loads and every live link has room for exactly one."""
    if len(load) == 0 or load.min() < load.max() * (1.0 - ROUNDING) or not load.min() > 0.0:
        return False
    room, too_much = load.max() * (1.0 - ROUNDING), 2.0 * load.min() * (1.0 - ROUNDING)
    for table in (tier.up, tier.down):
        for a in range(table.shape[0]):
            for k in range(table.shape[1]):
                if table[a, k] >= 0 and not room <= gbps[table[a, k]] < too_much:
                    return False
    return True


@nb.njit(nogil=True, cache=True)
def _length(v, node, source, target, ends, live, slot, most):
    """Return the number of units in the chain from v, arriving at leaf ``node``; -1 if one of them cannot move."""
    n, side = 0, 1
    while v >= 0:
        if n == most or live[0, ends[0, v], target] < 0 or live[1, ends[1, v], target] < 0:
            return -1
        n += 1
        side = 1 - side
        node = ends[side, v]
        v = slot[side, node, target]
        source, target = target, source
    return n


@nb.njit(nogil=True, cache=True)
def insert(src, dst, tier, path):
    """Place the units whose ``path`` [U] is not live for them (or negative), where a slot or a chain can be found.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        tier: the live links of the units' choices.
        path: [U] changes in place. Units that cannot be placed keep theirs: of two on one link, one counts as new.
    """
    live_up, live_down = tier.up, tier.down
    n_leaves, n_paths = live_up.shape
    n_units = len(path)
    ends, live = np.empty((2, n_units), np.int32), np.empty((2, n_leaves, n_paths), np.int32)
    ends[0], ends[1], live[0], live[1] = src, dst, live_up, live_down
    slot = np.full((2, n_leaves, n_paths), -1, np.int32)
    crowded = path.copy()
    waiting = np.empty(n_units, np.int32)
    n = 0
    for unit in range(n_units):
        a, b, k = src[unit], dst[unit], path[unit]
        fits = k >= 0 and live_up[a, k] >= 0 and live_down[b, k] >= 0
        if fits and slot[0, a, k] < 0 and slot[1, b, k] < 0:
            slot[0, a, k] = slot[1, b, k] = unit
        else:
            path[unit] = -1
            waiting[n] = unit
            n += 1
    waiting = waiting[:n]
    for u in waiting:
        a, b = src[u], dst[u]
        chosen, other, length, tried = -1, -1, n_units + 1, 0
        for k in range(n_paths):
            if live_up[a, k] >= 0 and live_down[b, k] >= 0 and slot[0, a, k] < 0 and slot[1, b, k] < 0:
                chosen = k
                break
        if chosen < 0:
            for alpha in range(n_paths):
                if slot[0, a, alpha] >= 0 or live_up[a, alpha] < 0 or live_down[b, alpha] < 0:
                    continue
                for beta in range(n_paths):
                    if slot[1, b, beta] >= 0 or live_down[b, beta] < 0 or tried == CHAINS:
                        continue
                    tried += 1
                    steps = _length(slot[1, b, alpha], b, alpha, beta, ends, live, slot, length - 1)
                    if steps >= 0:
                        chosen, other, length = alpha, beta, steps
                if tried == CHAINS:
                    break
            if chosen < 0:
                continue
        path[u] = chosen
        v, node, side, source, target = slot[1, b, chosen], b, 1, chosen, other
        slot[0, a, chosen] = slot[1, b, chosen] = u
        while v >= 0:
            path[v] = target
            slot[side, node, target] = v
            side = 1 - side
            node = ends[side, v]
            slot[side, node, source] = -1
            following = slot[side, node, target]
            slot[side, node, target] = v
            v = following
            source, target = target, source
    for u in waiting:
        if path[u] < 0:
            path[u] = crowded[u]
