"""Input data of ranks: known to every rank, different for each rank and iteration, exact in every data type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_RANK_SHIFT, _ITERATION_SHIFT = 97, 31


class Pattern:
    """Pseudo-random numbers 0 to 255, of which each rank and iteration has the same ones at other places.

    A sum over up to 65,536 ranks stays below 2^24, so float32 adds up exactly, in any order.
    """

    def __init__(self, elements: int, seed: int) -> None:
        """Draw a pattern of ``elements`` bytes from ``seed``."""
        self._elements = elements
        once = np.random.default_rng(seed).integers(0, 256, elements, dtype=np.uint8)
        self._twice = np.concatenate([once, once])

    def part(self, rank: int, iteration: int, start: int, stop: int) -> NDArray[np.uint8]:
        """Elements [start, stop) of a rank's buffer: a view, no copy."""
        if self._elements == 0:
            return self._twice
        at = -(rank * _RANK_SHIFT + iteration * _ITERATION_SHIFT) % self._elements
        return self._twice[at + start : at + stop]

    def total(self, n_ranks: int, iteration: int, start: int, stop: int, dtype: np.dtype[Any]) -> Array:
        """Return the sum over all ranks of elements [start, stop)."""
        result = np.zeros(stop - start, dtype=dtype)
        for rank in range(n_ranks):
            result += self.part(rank, iteration, start, stop)
        return result
