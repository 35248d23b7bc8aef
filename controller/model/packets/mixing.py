"""SplitMix64's output function: numbers that look random, equal in every process."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def splitmix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the mixed numbers [N] (Steele, Lea and Flood, OOPSLA 2014)."""
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed
