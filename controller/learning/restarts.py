"""Restarts: pauses after which a job has begun anew, over other connections of the same hosts."""

from __future__ import annotations

import numpy as np

from controller.learning.iterations import RARE
from controller.model.fabric import FloatArray

LONGER = 2.5
"""A pause is a restart if it is so many times as long as all that are none ..."""
ALIKE = 3
"""... of which there must be so many that do not differ by as much: those between iterations."""
MOST_RESTARTS = 3


def starts(at: FloatArray) -> FloatArray:
    """Return the times, in the middle of a pause each, at which a job has begun anew; rising.

    Args:
        at: times of marks.
    """
    at = np.sort(at)
    gap = np.diff(at)
    order = np.argsort(-gap, kind="stable")
    length = gap[order]
    # As in ``iterations.period_of_gaps``: what is shorter is a gap within a burst.
    pause = np.median(gap) / np.log(2) * (RARE + np.log(len(at))) if len(gap) else np.inf
    for count in range(1, min(MOST_RESTARTS, len(gap) - ALIKE) + 1):
        usual = length[count]
        if length[count - 1] > LONGER * usual and length[count + ALIKE - 1] * LONGER > usual > pause:
            chosen = order[:count]
            return np.sort(at[chosen] + gap[chosen] / 2)
    return np.zeros(0)
