"""Packing of communicating blocks into pools of limited size with little traffic between pools."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array

_PASSES = 8  # over all blocks; few improve after the third


@dataclass(frozen=True, eq=False)
class Affinity:
    """The traffic among n blocks: E pairs in both directions, by first block; none of a block with itself.

    Attributes:
        first: [E] one block of each pair.
        second: [E] the other block of each pair.
        bytes: [E] bytes between the two, in both directions together.
        start: [n + 1] first pair of each first block.
    """

    n: int
    first: Int64Array
    second: Int64Array
    bytes: FloatArray
    start: Int64Array

    @staticmethod
    def of(n: int, src: Int64Array, dst: Int64Array, sent: Int64Array) -> Affinity:
        """Build the pairs from sending block [F], receiving block [F] and bytes [F]."""
        apart = (src != dst) & (sent > 0)
        src, dst, sent = src[apart], dst[apart], sent[apart]
        pairs, inverse = np.unique(np.concatenate([src * n + dst, dst * n + src]), return_inverse=True)
        total = np.bincount(inverse, weights=np.concatenate([sent, sent]), minlength=len(pairs))
        first, second = np.divmod(pairs, max(n, 1))
        return Affinity(n, first, second, total.astype(np.float64), np.searchsorted(first, np.arange(n + 1)))

    def among(self, blocks: Int64Array) -> Affinity:
        """Return the traffic among some of the blocks, ascending, which are then numbered from 0."""
        number = np.full(self.n, -1, dtype=np.int64)
        number[blocks] = np.arange(len(blocks))
        first, second = number[self.first], number[self.second]
        kept = (first >= 0) & (second >= 0)
        start = np.searchsorted(first[kept], np.arange(len(blocks) + 1))
        return Affinity(len(blocks), first[kept], second[kept], self.bytes[kept], start)

    def to_pools(self, pool: IntArray, n_pools: int) -> FloatArray:
        """Return the bytes [n, P] between each block and the blocks of each pool."""
        answer: FloatArray = np.zeros((self.n, n_pools))
        np.add.at(answer, (self.first, pool[self.second]), self.bytes)
        return answer

    def row(self, block: int) -> FloatArray:
        """Return the bytes [n] between one block and each."""
        own = slice(int(self.start[block]), int(self.start[block + 1]))
        dense = np.zeros(self.n)
        dense[self.second[own]] = self.bytes[own]
        return dense


def pack(affinity: Affinity, capacity: IntArray) -> IntArray:
    """Return the pool [n] of each block; the pools have room for all.

    Clusters of blocks are merged along the heaviest pairs first, as long as they fit the largest pool (Kruskal's
    algorithm with a limit on the size of a tree); then these clusters, the largest first, go to the pool where they
    fit and to which they have most traffic.
    """
    free = capacity.astype(np.int64)
    pool = np.full(affinity.n, -1, dtype=np.int32)
    drawn = np.zeros((affinity.n, len(capacity)))
    for cluster in sorted(_clusters(affinity, int(capacity.max(initial=0))), key=len, reverse=True):
        left = cluster
        while left:
            pull = drawn[left].sum(axis=0)
            fits = np.flatnonzero(free >= len(left))
            if len(fits):
                # The tightest fit among equals keeps large pools whole for later clusters.
                chosen = int(fits[np.lexsort((free[fits], -pull[fits]))[0]])
            else:
                chosen = int(np.argmax(free))
            part, left = left[: int(free[chosen])], left[int(free[chosen]) :]
            pool[part] = chosen
            free[chosen] -= len(part)
            for block in part:
                drawn[:, chosen] += affinity.row(block)
    return pool


def grow(affinity: Affinity, capacity: IntArray) -> IntArray:
    """Return the pool [n] of each block; the pools have room for all.

    One pool after the other, the largest first, takes the block with most traffic to it until it is full (greedy
    graph growing: G. Karypis and V. Kumar, SIAM Journal on Scientific Computing 20(1), 1998, section 3.2). It begins
    with a block that has least traffic to the rest, so that the rest stays in one piece: a ring is cut into arcs.
    """
    pool = np.full(affinity.n, -1, dtype=np.int32)
    to_rest = affinity.to_pools(np.zeros(affinity.n, dtype=np.int32), 1)[:, 0]
    for chosen in np.argsort(-capacity, kind="stable").tolist():
        drawn = np.zeros(affinity.n)
        for _ in range(int(capacity[chosen])):
            waiting = np.flatnonzero(pool < 0)
            if not len(waiting):
                return pool
            # A block without traffic to this pool is a new start, chosen like the first.
            block = int(waiting[np.lexsort((to_rest[waiting], -drawn[waiting]))[0]])
            pool[block] = chosen
            row = affinity.row(block)
            drawn += row
            to_rest -= row
    return pool


def fill(affinity: Affinity, capacity: IntArray) -> IntArray:
    """Return the pool [n] of each block: pools are filled completely, the largest first, in the order of blocks."""
    largest_first = np.argsort(-capacity, kind="stable").astype(np.int32)
    return np.repeat(largest_first, capacity[largest_first])[: affinity.n]


def refine(affinity: Affinity, pool: IntArray, capacity: IntArray) -> IntArray:
    """Return a placement [n] with less traffic between pools, after moves to free places and exchanges of two blocks.

    The exchange step of B. Kernighan and S. Lin, Bell System Technical Journal 49(2), 1970, taken greedily: no step
    increases the traffic.
    """
    pool = pool.copy()
    n = affinity.n
    blocks = np.arange(n)
    free = capacity - np.bincount(pool, minlength=len(capacity))
    bytes_to = affinity.to_pools(pool, len(capacity))
    for _ in range(_PASSES):
        improved = False
        for block in range(n):
            here = int(pool[block])
            row = affinity.row(block)
            # A gain below one byte is ignored: rounding errors of sums of floats can be as large.
            move = np.where(free > 0, bytes_to[block] - bytes_to[block, here], 0.0)
            exchange = bytes_to[block, pool] - bytes_to[block, here]
            exchange += bytes_to[:, here] - bytes_to[blocks, pool] - 2 * row
            exchange[pool == here] = 0.0
            target, other = int(np.argmax(move)), int(np.argmax(exchange))
            if max(move[target], exchange[other]) < 1.0:
                continue
            improved = True
            if move[target] >= exchange[other]:
                there = target
                free[here] += 1
                free[there] -= 1
            else:
                there = int(pool[other])
                pool[other] = here
                back = affinity.row(other)
                bytes_to[:, here] += back
                bytes_to[:, there] -= back
            pool[block] = there
            bytes_to[:, here] -= row
            bytes_to[:, there] += row
        if not improved:
            break
    return pool


def _clusters(affinity: Affinity, most: int) -> list[list[int]]:
    """Return all blocks in clusters of at most ``most``, each of blocks with much traffic among them."""
    upper = np.flatnonzero(affinity.first < affinity.second)
    first, second = affinity.first[upper], affinity.second[upper]
    order = np.lexsort((second, first, -affinity.bytes[upper]))
    cluster = list(range(affinity.n))
    members = [[block] for block in range(affinity.n)]
    for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
        keep, gone = cluster[a], cluster[b]
        if keep == gone or len(members[keep]) + len(members[gone]) > most:
            continue
        if len(members[keep]) < len(members[gone]):
            keep, gone = gone, keep
        for block in members[gone]:
            cluster[block] = keep
        members[keep] += members[gone]
        members[gone] = []
    return [sorted(blocks) for blocks in members if blocks]
