"""Hop counts of all pairs of servers by sets of bits, and the bytes times hops of a demand."""

from __future__ import annotations

import numba as nb
import numpy as np

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)


def _positions() -> np.ndarray:
    table = np.zeros(64, dtype=np.int64)
    for i in range(64):
        table[((1 << i) * int(_DE_BRUIJN) & ((1 << 64) - 1)) >> 58] = i
    return table


_POSITION = _positions()
"""The number of the lowest bit by the six highest bits of its product with a de Bruijn sequence (Leiserson, Prokop and
Randall, 1998)."""


@nb.njit(nogil=True, cache=True)
def hop_bytes(succ, weights, limit):
    """Return the sum of weights times hops over all pairs; any value above ``limit`` once it is known to exceed it.

    A pair without a path counts as n hops.

    Args:
        succ: [d, n].
        weights: [n, n] of each ordered pair of servers; the diagonal does not count.
        limit: the largest value of interest.
    """
    d, n = succ.shape
    words = (n + 63) // 64
    one = np.uint64(1)
    reached = np.zeros((n, words), dtype=np.uint64)
    following = np.zeros((n, words), dtype=np.uint64)
    remaining = 0.0
    for u in range(n):
        reached[u, u >> 6] |= one << np.uint64(u & 63)
        for v in range(n):
            if u != v:
                remaining += weights[u, v]
    total = 0.0
    for hop in range(1, n):
        # All that is not reached yet is at least this far away.
        total += remaining
        if total > limit:
            return total
        changed = False
        for u in range(n):
            for w in range(words):
                merged = reached[u, w]
                for k in range(d):
                    merged |= reached[succ[k, u], w]
                new = merged & ~reached[u, w]
                following[u, w] = merged
                if new:
                    changed = True
                    while new:
                        low = new & (~new + one)
                        remaining -= weights[u, (w << 6) + _POSITION[(low * _DE_BRUIJN) >> np.uint64(58)]]
                        new ^= low
        reached, following = following, reached
        if not changed:
            return total + max(remaining, 0.0) * (n - hop)
    return total


@nb.njit(nogil=True, cache=True)
def hop_counts(succ):
    """Return the hops [n, n] from each server to each other; n where there is no path."""
    d, n = succ.shape
    hops = np.full((n, n), n, dtype=np.int32)
    queue = np.empty(n, dtype=np.int32)
    for s in range(n):
        hops[s, s] = 0
        queue[0] = s
        first, last = 0, 1
        while first < last:
            u = queue[first]
            first += 1
            for k in range(d):
                v = succ[k, u]
                if hops[s, v] == n and v != s:
                    hops[s, v] = hops[s, u] + 1
                    queue[last] = v
                    last += 1
    return hops
