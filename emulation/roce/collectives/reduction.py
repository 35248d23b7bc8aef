"""All-reduce, reduce-scatter and all-gather, by a ring or directly.

With n ranks and a buffer of S bytes, cut into n chunks (of sizes that differ by one element where n does not divide S):

* ring reduce-scatter: chunk c starts at rank c + 1 and goes round, each rank adds its own part, rank c ends up with the
  sum: n - 1 steps. All-gather: the same way round, from the rank that has the chunk. All-reduce is both: 2 (n - 1)
  steps, 2 (n - 1) / n S on each ring edge (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
  of workstations", J. Parallel Distrib. Comput. 69 (2), 2009).
* direct: in the reduce-scatter each rank sends chunk j to rank j, which adds them up; in the all-gather rank j sends
  its chunk to every other rank. S / n each between an ordered pair, 2 S / n for the all-reduce.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np

from emulation.roce.collectives.base import RankProgram, Send, Slot, difference, touched
from emulation.roce.collectives.pattern import Array, Pattern

PARTIAL, FINAL = "partial sum of chunk", "chunk"

HALVES = {"all_reduce": (True, True), "reduce_scatter": (True, False), "all_gather": (False, True)}
"""Operation -> whether it has a reduce-scatter half, and an all-gather half."""


def chunk_bounds(elements: int, n_ranks: int) -> list[int]:
    """[n + 1] where the chunks begin, and where the last one ends."""
    return [elements * chunk // n_ranks for chunk in range(n_ranks + 1)]


class Reduction(RankProgram):
    """Common base of ring and direct. Finished chunks are in the area's upper part, in the order of the buffer."""

    def __init__(
        self, op: str, rank: int, n_ranks: int, elements: int, dtype: np.dtype[Any], seed: int, iterations: int
    ) -> None:
        """Prepare the program of a rank for a buffer of ``elements`` elements."""
        self.rank = rank
        self.n_ranks = n_ranks
        self._reduces, self._gathers = HALVES[op]
        self._bounds = chunk_bounds(elements, n_ranks)
        self._pattern = Pattern(elements, seed)
        self._input = touched(elements, dtype)
        self._own: Array = self._input[:0]
        self._partial_area = self._partial_elements() if self._reduces else 0
        slots = self._partial_slots() if self._reduces else []
        if self._gathers:
            slots += [
                Slot(self._final(c), self._final(c + 1), self._gather_peer(c), FINAL, c)
                for c in range(n_ranks)
                if c != rank
            ]
        area = self._partial_area + (elements if self._gathers else 0)
        super().__init__(slots, area, dtype, iterations)

    def check(self) -> str:
        """Return the first wrong chunk as text; empty if all are correct."""
        chunks = range(self.n_ranks) if self._gathers else (self.rank,)
        for c in chunks:
            have = self._own if c == self.rank else self._view(self._final(c), self._final(c + 1))
            start, stop = self._bounds[c], self._bounds[c + 1]
            if self._reduces:
                expected = self._pattern.total(self.n_ranks, self._iteration, start, stop, self.memory.dtype)
            else:
                expected = self._pattern.part(c, self._iteration, start, stop)
            wrong = difference(f"chunk {c}", have, expected)
            if wrong:
                return wrong
        return ""

    def _start(self) -> list[Send]:
        self._input[:] = self._pattern.part(self.rank, self._iteration, 0, len(self._input))
        if not self._reduces or self.n_ranks == 1:
            return self._finished(self._chunk(self.rank))
        return self._start_reducing()

    def _on_slot(self, slot: Slot) -> list[Send]:
        return self._on_partial(slot) if slot.what == PARTIAL else self._on_final(slot)

    def _finished(self, own: Array) -> list[Send]:
        """Store this rank's reduced chunk, and return the messages to send next."""
        self._own = own
        return self._start_gathering() if self._gathers else []

    def _chunk(self, chunk: int) -> Array:
        return self._input[self._bounds[chunk] : self._bounds[chunk + 1]]

    def _final(self, chunk: int) -> int:
        """Return the position of a finished chunk in the area."""
        return self._partial_area + self._bounds[chunk]

    @abstractmethod
    def _partial_elements(self) -> int:
        """Size of the area's lower part, the same at each rank."""

    @abstractmethod
    def _partial_slots(self) -> list[Slot]: ...

    @abstractmethod
    def _gather_peer(self, chunk: int) -> int:
        """Return the rank that sends a finished chunk to this rank."""

    @abstractmethod
    def _start_reducing(self) -> list[Send]: ...

    @abstractmethod
    def _on_partial(self, slot: Slot) -> list[Send]: ...

    @abstractmethod
    def _start_gathering(self) -> list[Send]: ...

    @abstractmethod
    def _on_final(self, slot: Slot) -> list[Send]: ...


class Ring(Reduction):
    """Chunks go from rank to rank + 1."""

    @property
    def _next(self) -> int:
        return (self.rank + 1) % self.n_ranks

    @property
    def _previous(self) -> int:
        return (self.rank - 1) % self.n_ranks

    def _partial_elements(self) -> int:
        return self._bounds[-1]

    def _partial_slots(self) -> list[Slot]:
        # The chunk that starts at this rank never comes back as a partial sum.
        return [
            Slot(self._bounds[c], self._bounds[c + 1], self._previous, PARTIAL, c)
            for c in range(self.n_ranks)
            if c != self._previous
        ]

    def _gather_peer(self, chunk: int) -> int:
        return self._previous

    def _start_reducing(self) -> list[Send]:
        first = self._previous
        return [Send(self._next, self._va(self._bounds[first]), self._chunk(first))]

    def _on_partial(self, slot: Slot) -> list[Send]:
        summed = self._view(slot.start, slot.stop)
        summed += self._chunk(slot.chunk)
        if slot.chunk == self.rank:
            return self._finished(summed)
        return [Send(self._next, self._va(slot.start), summed)]

    def _start_gathering(self) -> list[Send]:
        if self.n_ranks == 1:
            return []
        return [Send(self._next, self._va(self._final(self.rank)), self._own)]

    def _on_final(self, slot: Slot) -> list[Send]:
        if slot.chunk == self._next:  # it started there
            return []
        return [Send(self._next, self._va(slot.start), self._view(slot.start, slot.stop))]


class Direct(Reduction):
    """Everyone sends to everyone."""

    _sum: Array
    _to_add: int

    def _partial_elements(self) -> int:
        return self.n_ranks * self._widest

    @property
    def _widest(self) -> int:
        return max(b - a for a, b in pairwise(self._bounds))

    def _partial_slots(self) -> list[Slot]:
        size = self._bounds[self.rank + 1] - self._bounds[self.rank]
        return [
            Slot(peer * self._widest, peer * self._widest + size, peer, PARTIAL, self.rank) for peer in self._peers()
        ]

    def _peers(self) -> list[int]:
        """All others, nearest first: so that not everyone begins with rank 0."""
        return [(self.rank + i) % self.n_ranks for i in range(1, self.n_ranks)]

    def _gather_peer(self, chunk: int) -> int:
        return chunk

    def _start_reducing(self) -> list[Send]:
        self._sum = self._chunk(self.rank).copy()
        self._to_add = self.n_ranks - 1
        sends = [Send(peer, self._va(self.rank * self._widest), self._chunk(peer)) for peer in self._peers()]
        # Empty chunks are never sent, so no message would complete the sum.
        return sends if len(self._sum) else sends + self._finished(self._sum)

    def _on_partial(self, slot: Slot) -> list[Send]:
        self._sum += self._view(slot.start, slot.stop)
        self._to_add -= 1
        return self._finished(self._sum) if self._to_add == 0 else []

    def _start_gathering(self) -> list[Send]:
        return [Send(peer, self._va(self._final(self.rank)), self._own) for peer in self._peers()]

    def _on_final(self, slot: Slot) -> list[Send]:
        return []
