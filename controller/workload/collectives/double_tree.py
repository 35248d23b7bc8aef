"""Two binary trees over the servers of a collective, each of which carries half of the data up and down again.

P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35(12), 2009: a rank with two children in one tree has none in the other, so no rank sends more than 2 S,
slightly more than in a ring, and the depth is only logarithmic. The trees are those of NCCL (src/graph/trees.cc,
ncclGetBtree and ncclGetDtree; src/graph/connect.cc, connectTrees).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from controller.model.fabric import IntArray
from controller.workload.collectives.flows import Flows, alike, joined


def all_reduce(server: IntArray, size: Fraction) -> Flows:
    """Send S / 2 up and S / 2 down each edge of each tree: reduction to the root, then broadcast from it.

    A tree joins servers, through the first rank of each; the other ranks of a server form a chain below it (NCCL's
    pattern "tree"; in its "split" and "balanced" patterns other ranks of the server exchange data with its children).

    Args:
        server: [n] server number of each rank; servers are in order of their first ranks.
        size: S in bytes.
    """
    head, chain = _servers(server)
    parts = []
    for parents in _trees(len(head)):
        child = np.flatnonzero(parents >= 0)
        below = np.concatenate([chain[:, 1], head[child]])
        above = np.concatenate([chain[:, 0], head[parents[child]]])
        parts += [alike(below, above, size / 2), alike(above, below, size / 2)]
    return joined(*parts)


def rounds(n: int) -> tuple[tuple[int, int], ...]:
    """Return (flows, round) in order of the flows of ``all_reduce``: both trees send up, then both send down.

    Where data is cut in many pieces, the first of them are on the way down while others are on the way up. What is even
    in each of both rounds is even then, too.
    """
    return tuple((n - 1, number) for number in (0, 1, 0, 1)) if n > 1 else ()


def _servers(server: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first rank [m] of each server, by rank, and (upper, lower) links [n - m, 2] of their chains."""
    _, first, group = np.unique(server, return_index=True, return_inverse=True)
    ranks = np.argsort(first[group.reshape(-1)], kind="stable").astype(np.int32)
    same = server[ranks[1:]] == server[ranks[:-1]]
    return np.sort(first).astype(np.int32), np.stack([ranks[:-1][same], ranks[1:][same]], axis=1)


def _trees(m: int) -> tuple[IntArray, IntArray]:
    """Return the parent [m] of each server in either tree, -1 at its root.

    The second tree is the first mirrored where m is even, and shifted by one server where it is odd: leaves of one
    are inner nodes of the other.
    """
    first = _tree(m)
    servers = np.arange(m, dtype=np.int32)
    origin = (servers - 1) % m if m % 2 else m - 1 - servers
    above = first[origin]
    moved = (above + 1) % m if m % 2 else m - 1 - above
    return first, np.where(above < 0, -1, moved).astype(np.int32)


def _tree(m: int) -> IntArray:
    """Return the parents [m] in a tree whose odd numbers are leaves and whose root is 0.

    A number's parent lacks its lowest bit and has the next higher one instead; where that is too large, it only
    lacks the bit.
    """
    number = np.arange(m, dtype=np.int32)
    low = number & -number
    parent = (number ^ low) | (low << 1)
    parent = np.where(parent < m, parent, number ^ low)
    parent[:1] = -1
    return parent.astype(np.int32)
