"""Blocks that talk to each other, put into pools of limited size so that little is said between pools."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array

_PASSES = 8  # over all blocks; few improve after the third


@dataclass(frozen=True, eq=False)
class Affinity:
    """What n blocks say to each other: E pairs in both directions, by first block; none of a block with itself.

    Attributes:
        first, second: [E] the two blocks.
        bytes: [E] what they send each other, both ways together.
        start: [n + 1] where the pairs of each first block begin.
    """

    n: int
    first: Int64Array
    second: Int64Array
    bytes: FloatArray
    start: Int64Array

    @staticmethod
    def of(n: int, src: Int64Array, dst: Int64Array, sent: Int64Array) -> Affinity:
        """From [F] sending block, [F] receiving block, [F] bytes."""
        apart = (src != dst) & (sent > 0)
        src, dst, sent = src[apart], dst[apart], sent[apart]
        pairs, inverse = np.unique(np.concatenate([src * n + dst, dst * n + src]), return_inverse=True)
        total = np.bincount(inverse, weights=np.concatenate([sent, sent]), minlength=len(pairs))
        first, second = np.divmod(pairs, max(n, 1))
        return Affinity(n, first, second, total.astype(np.float64), np.searchsorted(first, np.arange(n + 1)))

    def to_pools(self, pool: IntArray, n_pools: int) -> FloatArray:
        """[n, P] bytes between each block and the blocks of each pool."""
        answer: FloatArray = np.zeros((self.n, n_pools))
        np.add.at(answer, (self.first, pool[self.second]), self.bytes)
        return answer

    def row(self, block: int) -> FloatArray:
        """[n] bytes between one block and each."""
        own = slice(int(self.start[block]), int(self.start[block + 1]))
        dense = np.zeros(self.n)
        dense[self.second[own]] = self.bytes[own]
        return dense


def pack(affinity: Affinity, capacity: IntArray) -> IntArray:
    """[n] pool of each block; the pools have room for all.

    Blocks grow together along the heaviest pairs first, as long as they fit the largest pool (Kruskal's algorithm with
    a limit on the size of a tree); then these clusters, the largest first, go where they fit and are drawn to most.
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
                # The tightest fit among equals keeps large pools whole for what comes.
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
    """[n] pool of each block; the pools have room for all.

    One pool after the other, the largest first, takes the block that is drawn to it most until it is full (greedy
    graph growing: G. Karypis and V. Kumar, SIAM Journal on Scientific Computing 20(1), 1998, section 3.2). It begins
    with a block that the rest needs least, so that what is left stays in one piece: a ring is cut into arcs.
    """
    pool = np.full(affinity.n, -1, dtype=np.int32)
    to_rest = affinity.to_pools(np.zeros(affinity.n, dtype=np.int32), 1)[:, 0]
    for chosen in np.argsort(-capacity, kind="stable").tolist():
        drawn = np.zeros(affinity.n)
        for _ in range(int(capacity[chosen])):
            waiting = np.flatnonzero(pool < 0)
            if not len(waiting):
                return pool
            # Who is drawn to nobody here makes a new start, as the first does.
            block = int(waiting[np.lexsort((to_rest[waiting], -drawn[waiting]))[0]])
            pool[block] = chosen
            row = affinity.row(block)
            drawn += row
            to_rest -= row
    return pool


def refine(affinity: Affinity, pool: IntArray, capacity: IntArray) -> IntArray:
    """[n] a placement in which less is said between pools, by moves to free places and exchanges of two blocks.

    The exchange step of B. Kernighan and S. Lin, Bell System Technical Journal 49(2), 1970, taken greedily: no step
    makes it worse.
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
            # Nothing under one byte is a gain: sums of floats differ by less than that from themselves.
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
    """All blocks in clusters of at most ``most``, those that talk most together."""
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
