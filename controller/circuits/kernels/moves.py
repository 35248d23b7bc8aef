"""Random changes of circuits that keep the number of circuits of every server.

A layer is a NIC number, or two of them for a ring of duplex circuits. Its kind says which changes it allows.
"""

from __future__ import annotations

import numba as nb
import numpy as np

RING = 0
"""One ring of simplex circuits, which stays one ring."""
FREE = 1
"""Simplex circuits that may be any permutation."""
DUPLEX_RING = 2
"""A ring of duplex circuits: this layer leads around it, and the next one leads back."""
DUPLEX_BACK = 3
"""The way back around a ring of duplex circuits; it changes with the layer before."""
PAIRS = 4
"""Duplex circuits between pairs of servers."""
ODD_PAIRS = 5
"""The same for an odd number of servers, of which any one may be without a circuit."""
FIXED = 6
"""Circuits that do not change."""


@nb.njit(nogil=True, cache=True)
def change(succ, kinds, layer):
    """Change some circuits of one layer at random, in place; return whether anything has changed.

    The random numbers are those of Numba's own generator.
    """
    kind = kinds[layer]
    if kind == RING:
        return _move_segment(succ[layer])
    if kind == FREE:
        if np.random.random() < 0.5:
            return _move_segment(succ[layer])
        return _exchange_ends(succ[layer])
    if kind == DUPLEX_RING:
        return _reverse_part(succ[layer], succ[layer + 1])
    if kind == PAIRS:
        return _exchange_partners(succ[layer])
    if kind == ODD_PAIRS:
        if np.random.random() < 0.5:
            return _exchange_partners(succ[layer])
        return _leave_another_out(succ[layer])
    return False


@nb.njit(nogil=True, cache=True)
def _move_segment(p):
    """Move a segment of a ring to another place in it."""
    n = len(p)
    a = np.random.randint(n)
    if p[a] == a:
        return False
    first = p[a]
    last = first
    for _ in range(np.random.randint(max(1, n // 4))):
        last = p[last]
        if last == a:
            return False
    after = p[last]
    if after == a:
        return False
    # A place behind the segment, between it and its begin.
    b = after
    for _ in range(np.random.randint(n)):
        if b == a:
            break
        b = p[b]
    if b == a:
        b = after
    p[a] = after
    p[last] = p[b]
    p[b] = first
    return True


@nb.njit(nogil=True, cache=True)
def _exchange_ends(p):
    n = len(p)
    a, b = np.random.randint(n), np.random.randint(n)
    if a == b or p[a] == a or p[b] == b or p[a] == b or p[b] == a:
        return False
    p[a], p[b] = p[b], p[a]
    return True


@nb.njit(nogil=True, cache=True)
def _reverse_part(p, back):
    """Reverse a part of a ring, so that two of its circuits change (Croes, 1958)."""
    n = len(p)
    a, b = np.random.randint(n), np.random.randint(n)
    if a == b or p[a] == a or p[b] == b or p[a] == b or p[b] == a:
        return False
    # a -> x .. b -> y becomes a -> b .. x -> y.
    y = p[b]
    u = b
    x = p[a]
    order = np.empty(n, dtype=p.dtype)
    count = 0
    while u != x:
        order[count] = u
        count += 1
        u = back[u]
        if u == a:
            return False
    order[count] = x
    count += 1
    before = a
    for i in range(count):
        p[before] = order[i]
        back[order[i]] = before
        before = order[i]
    p[before] = y
    back[y] = before
    return True


@nb.njit(nogil=True, cache=True)
def _exchange_partners(p):
    n = len(p)
    a, b = np.random.randint(n), np.random.randint(n)
    x, y = p[a], p[b]
    if a == b or y == b or x in (a, b):
        return False
    p[a], p[b], p[x], p[y] = b, a, y, x
    return True


@nb.njit(nogil=True, cache=True)
def _leave_another_out(p):
    """Give the server without a circuit the partner of another one."""
    n = len(p)
    a, b = np.random.randint(n), 0
    while b < n and p[b] != b:
        b += 1
    if b == n or p[a] == a:
        return False
    x = p[a]
    p[a], p[b], p[x] = b, a, x
    return True
