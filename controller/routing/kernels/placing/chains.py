"""Adding units to a plan by alternating chains: few old units move, and only between two path classes at a time.

As with Kempe chains in edge colouring: where no class has room at both ends of a unit, take one (alpha) with room at
its source and one (beta) with room at its destination. Put the unit on alpha; at the destination a unit on alpha now
exceeds the room and moves to beta; that may exceed the room at *its* source, where a unit moves back to alpha, and so
on. With equal loads and links for one unit each such a chain always ends.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING

LONGEST = 256
"""Most moves of a chain; longer ones are given up."""

CHAINS = 24
"""Pairs of classes tried for one unit; the shortest chain is taken."""

SHORT = 2
"""A chain of at most this number of moves is taken at once."""


@nb.njit(nogil=True, cache=True)
def _link(u, k, side, src, dst, tier):
    return tier.up[src[u], k] if side == 0 else tier.down[dst[u], k]


@nb.njit(nogil=True, cache=True)
def _attach(u, k, src, dst, load, tier, head, following, leading, link_load):
    for side in range(2):
        e = _link(u, k, side, src, dst, tier)
        leading[side, u] = -1
        following[side, u] = head[e]
        if head[e] >= 0:
            leading[side, head[e]] = u
        head[e] = u
        link_load[e] += load[u]


@nb.njit(nogil=True, cache=True)
def _detach(u, k, src, dst, load, tier, head, following, leading, link_load):
    for side in range(2):
        e = _link(u, k, side, src, dst, tier)
        if leading[side, u] >= 0:
            following[side, leading[side, u]] = following[side, u]
        else:
            head[e] = following[side, u]
        if following[side, u] >= 0:
            leading[side, following[side, u]] = leading[side, u]
        link_load[e] -= load[u]


@nb.njit(nogil=True, cache=True)
def _chain(
    u,
    alpha,
    beta,
    src,
    dst,
    load,
    tier,
    limit,
    link_load,
    head,
    following,
    moved,
    seen,
    shift,
    mark,
    turn,
    most,
):
    """Follow the chain that begins with unit u on alpha, without moving anything yet.

    ``shift`` [E] is the change of a link's load by the chain, where ``mark`` [E] equals ``turn``; ``seen`` [U] marks
    the units that move.

    Returns:
        number of units that move (they are in ``moved``), or -1 if it finds no end within ``most``.
    """
    n = 0
    here = tier.down[dst[u], alpha]
    mark[here], shift[here] = turn, load[u]
    side, source, target = 1, alpha, beta
    while True:
        over = link_load[here] + (shift[here] if mark[here] == turn else 0.0) - limit[here]
        if over <= 0.0:
            return n
        if n == most:
            return -1
        best, best_load = -1, np.inf
        v = head[here]
        while v >= 0:
            if seen[v] != turn and load[v] >= over and load[v] < best_load:
                beside = _link(v, target, side, src, dst, tier)
                beyond = _link(v, target, 1 - side, src, dst, tier)
                if beside >= 0 and beyond >= 0:
                    there = link_load[beside] + (shift[beside] if mark[beside] == turn else 0.0)
                    if there + load[v] <= limit[beside]:
                        best, best_load = v, load[v]
            v = following[side, v]
        if best < 0:
            return -1
        moved[n] = best
        seen[best] = turn
        n += 1
        for end in range(2):
            for k in (source, target):
                e = _link(best, k, end, src, dst, tier)
                if mark[e] != turn:
                    mark[e], shift[e] = turn, 0.0
                shift[e] += load[best] if k == target else -load[best]
        here = _link(best, target, 1 - side, src, dst, tier)
        side, source, target = 1 - side, target, source


@nb.njit(nogil=True, cache=True)
def insert(src, dst, load, tier, gbps, path):
    """Place the units whose ``path`` [U] is not live for them (or negative), moving others along chains.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        load: [U] Gbit/s; links are filled up to their capacity.
        tier: the live links of the units' choices.
        gbps: [E] capacity of each link.
        path: [U] changes in place. A unit without room and without a chain takes its least loaded path.
    """
    live_up, live_down = tier.up, tier.down
    n_units, n_links, n_paths = len(path), len(gbps), live_up.shape[1]
    limit, per_gbps = gbps * (1.0 + ROUNDING), 1.0 / gbps
    link_load = np.zeros(n_links)
    head = np.full(n_links, -1, np.int64)
    following = np.full((2, n_units), -1, np.int64)
    leading = np.full((2, n_units), -1, np.int64)
    waiting = np.empty(n_units, np.int64)
    n = 0
    for u in range(n_units):
        k = path[u]
        if k >= 0 and live_up[src[u], k] >= 0 and live_down[dst[u], k] >= 0:
            _attach(u, k, src, dst, load, tier, head, following, leading, link_load)
        else:
            path[u] = -1
            waiting[n] = u
            n += 1
    waiting = waiting[:n]
    shift = np.zeros(n_links)
    mark, seen = np.full(n_links, -1, np.int64), np.full(n_units, -1, np.int64)
    moved, shortest = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64)
    sources, targets = np.empty(n_paths, np.int64), np.empty(n_paths, np.int64)
    turn = 0
    for u in waiting[np.argsort(-load[waiting], kind="mergesort")]:
        emptiest, emptiest_fill = -1, np.inf
        n_sources, n_targets = 0, 0
        for k in range(n_paths):
            up, down = live_up[src[u], k], live_down[dst[u], k]
            down_load = link_load[down] + load[u] if down >= 0 else np.inf
            if down >= 0 and down_load <= limit[down]:
                targets[n_targets] = k
                n_targets += 1
            if up >= 0 and down >= 0:
                up_load = link_load[up] + load[u]
                fill = max(up_load * per_gbps[up], down_load * per_gbps[down])
                if fill < emptiest_fill:
                    emptiest, emptiest_fill = k, fill
                if up_load <= limit[up]:
                    sources[n_sources] = k
                    n_sources += 1
        length, tried = -1, 0
        chosen, other = emptiest, -1
        if emptiest_fill > 1.0 + ROUNDING:
            for alpha in sources[:n_sources]:
                for beta in targets[:n_targets]:
                    if tried == CHAINS or 0 <= length <= SHORT:
                        break
                    tried += 1
                    turn += 1
                    steps = _chain(
                        u,
                        alpha,
                        beta,
                        src,
                        dst,
                        load,
                        tier,
                        limit,
                        link_load,
                        head,
                        following,
                        moved,
                        seen,
                        shift,
                        mark,
                        turn,
                        LONGEST if length < 0 else length - 1,
                    )
                    if steps >= 0:
                        length, chosen, other = steps, alpha, beta
                        shortest[:steps] = moved[:steps]
        for i in range(length):
            v = shortest[i]
            _detach(v, path[v], src, dst, load, tier, head, following, leading, link_load)
            path[v] = other if path[v] == chosen else chosen
            _attach(v, path[v], src, dst, load, tier, head, following, leading, link_load)
        path[u] = chosen
        _attach(u, chosen, src, dst, load, tier, head, following, leading, link_load)
