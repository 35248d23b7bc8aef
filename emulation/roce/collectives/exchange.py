"""All-to-all, and any other exchange in which each rank sends some bytes to some others, without dependencies.

All-to-all of n ranks with S bytes each: block j of rank i's buffer goes to rank j, S / n between an ordered pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from emulation.roce.collectives.base import RankProgram, Send, Slot, difference, touched
from emulation.roce.collectives.pattern import Pattern

BLOCK = "block"


class PairwiseExchange(RankProgram):
    """``matrix[i][j]`` elements go from rank i to rank j; the diagonal stays at home."""

    def __init__(
        self, matrix: Sequence[Sequence[int]], rank: int, dtype: np.dtype[Any], seed: int, iterations: int
    ) -> None:
        """Prepare the program of a rank; ``matrix`` [rank][rank] has the elements that each rank sends to each."""
        self.rank = rank
        self.n_ranks = len(matrix)
        # Where block (i, j) begins in rank i's buffer, and where it lands at rank j.
        self._source = [[0, *accumulate(row)] for row in matrix]
        self._target = [[0, *accumulate(row[j] for row in matrix)] for j in range(self.n_ranks)]
        elements = max((row[-1] for row in self._source), default=0)
        self._pattern = Pattern(elements, seed)
        self._input = touched(self._source[rank][-1], dtype)
        arriving = self._target[rank]
        slots = [Slot(arriving[i], arriving[i + 1], i, BLOCK, i) for i in range(self.n_ranks) if i != rank]
        super().__init__(slots, max(column[-1] for column in self._target), dtype, iterations)

    def check(self) -> str:
        """Return the first wrong block as text; empty if all are correct."""
        for slot in self._slots:
            start, stop = self._source[slot.peer][self.rank], self._source[slot.peer][self.rank + 1]
            expected = self._pattern.part(slot.peer, self._iteration, start, stop)
            wrong = difference(f"block from rank {slot.peer}", self._view(slot.start, slot.stop), expected)
            if wrong:
                return wrong
        return ""

    def _start(self) -> list[Send]:
        self._input[:] = self._pattern.part(self.rank, self._iteration, 0, len(self._input))
        own = self._source[self.rank]
        return [
            Send(peer, self._va(self._target[peer][self.rank]), self._input[own[peer] : own[peer + 1]])
            for peer in ((self.rank + i) % self.n_ranks for i in range(1, self.n_ranks))
        ]

    def _on_slot(self, slot: Slot) -> list[Send]:
        return []
