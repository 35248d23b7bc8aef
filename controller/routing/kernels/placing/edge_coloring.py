"""Edge colouring of a bipartite multigraph by Euler splits and perfect matchings.

König (1916): a bipartite multigraph needs as many colours as its largest degree D. Gabow (Int. J. Comput. Inf. Sci. 5,
1976) halves an even degree by Euler partition; at an odd degree a perfect matching is one colour and leaves an even
degree. In a regular bipartite graph a random walk finds that matching in O(n log n) (Goel, Kapralov and Khanna, SIAM
J. Comput. 42(3), 2013). Together O(m log D).

A vertex of any degree is first cut into *chunks* of D edges, each a separate vertex (de Werra's equitable colouring,
1971): every colour then gets one edge of each chunk, so no colour has more than the rounded-up share of a vertex. As
the caller sorts the edges of a vertex by load, a chunk holds edges that are alike, and colours stay even in load too.
"""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def slots(vertex, order, n_vertices, degree):
    """Place each edge at its vertex: chunk after chunk, ``degree`` slots a chunk, in the given order.

    Args:
        vertex: [M] vertex of each edge.
        order: [M] edges, those of one vertex in the order in which they fill its chunks.
        n_vertices: the number of vertices.
        degree: the number of slots of a chunk.

    Returns:
        slot [M] of each edge, and the number of chunks.
    """
    first = np.zeros(n_vertices + 1, np.int64)
    for e in range(len(vertex)):
        first[vertex[e] + 1] += 1
    for v in range(n_vertices):
        first[v + 1] = first[v] + (first[v + 1] + degree - 1) // degree * degree
    chunks = first[n_vertices] // degree
    slot = np.empty(len(vertex), np.int64)
    for e in order:
        slot[e] = first[vertex[e]]
        first[vertex[e]] += 1
    return slot, chunks


@nb.njit(nogil=True, cache=True)
def color(left_slot, right_slot, n_chunks, degree, seed):
    """Return a colour 0..degree-1 for each edge [M], different within every chunk on either side.

    Args:
        left_slot: [M] slot of each edge on the left, from ``slots``.
        right_slot: [M] slot of each edge on the right, from ``slots``.
        n_chunks: chunks on the side with more of them; slots without an edge are joined by additional edges.
        degree: the number of colours.
        seed: the seed of the generator.
    """
    size = n_chunks * degree
    right = np.full(size, -1, np.int64)
    left = np.full(size, -1, np.int64)
    name = np.full(size, -1, np.int64)
    for e in range(len(left_slot)):
        right[left_slot[e]] = right_slot[e]
        left[right_slot[e]] = left_slot[e]
        name[left_slot[e]] = e
    q = 0
    for p in range(size):
        if right[p] < 0:
            while left[q] >= 0:
                q += 1
            right[p] = q
            left[q] = p
    result = np.zeros(len(left_slot), np.int32)
    state = np.uint64(seed) * np.uint64(2) + np.uint64(1)
    # A stack of subgraphs: first slot, degree, first colour.
    stack = [(0, degree, 0)]
    while len(stack):
        begin, d, hue = stack.pop()
        end = begin + n_chunks * d
        if d == 1:
            for p in range(begin, end):
                if name[p] >= 0:
                    result[name[p]] = hue
            continue
        r, n = right[begin:end], name[begin:end]
        if d % 2 == 1:
            mate, state = _perfect_matching(r, n_chunks, d, state)
            _peel(r, n, mate, n_chunks, d, hue, result)
            stack.append((begin, d - 1, hue + 1))
        else:
            _halve(r, n)
            stack.append((begin, d // 2, hue))
            stack.append((begin + n_chunks * (d // 2), d // 2, hue + d // 2))
    return result


@nb.njit(nogil=True, cache=True)
def _halve(right, name):
    """Split a regular graph of even degree into two of half the degree, in place: the first half, then the second.

    Slots 2i and 2i + 1 of a vertex are partners. Walking from an edge to its partner at one end, then to that one's
    partner at the other end, traces closed trails in which every other edge goes to the same half; so each pair of
    partners is divided, and a half keeps the order of slots.
    """
    size = len(right)
    left = np.empty(size, np.int64)
    for p in range(size):
        left[right[p]] = p
    second = np.empty(size, np.bool_)
    seen = np.zeros(size, np.bool_)
    for start in range(size):
        p = start
        while not seen[p]:
            seen[p], second[p] = True, False
            back = left[right[p] ^ 1]
            seen[back], second[back] = True, True
            p = back ^ 1
    old_right, old_name = right.copy(), name.copy()
    half = size // 2
    for p in range(size):
        at = (p >> 1) + (half if second[p] else 0)
        right[at] = old_right[p] >> 1
        name[at] = old_name[p]


@nb.njit(nogil=True, cache=True)
def _perfect_matching(right, n, degree, state):
    """Choose one slot of each left vertex with different right ends; return them and the state of the generator."""
    taken_by = np.full(n, -1, np.int64)
    choice = np.empty(n, np.int64)
    mate = np.full(n, -1, np.int64)
    for start in range(n):
        v = start
        while True:
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            choice[v] = v * degree + np.int64((state >> np.uint64(11)) % np.uint64(degree))
            owner = taken_by[right[choice[v]] // degree]
            if owner < 0:
                break
            v = owner
        # A later visit of a vertex overwrote its choice, so following the choices is the walk without its loops.
        v = start
        while v >= 0:
            w = right[choice[v]] // degree
            pushed = taken_by[w]
            taken_by[w] = v
            mate[v] = choice[v]
            v = pushed
    return mate, state


@nb.njit(nogil=True, cache=True)
def _peel(right, name, mate, n, degree, hue, result):
    """Give the matched edges a colour and remove them: the result is a graph of one degree less, in place."""
    gone = np.empty(n, np.int64)
    for v in range(n):
        gone[right[mate[v]] // degree] = right[mate[v]]
        if name[mate[v]] >= 0:
            result[name[mate[v]]] = hue
    at = 0
    for p in range(n * degree):
        if p == mate[p // degree]:
            continue
        q = right[p]
        w = q // degree
        right[at] = q - w - (1 if q > gone[w] else 0)
        name[at] = name[p]
        at += 1
