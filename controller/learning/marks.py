"""Marks: when QPs have sent, whichever way that was noticed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.learning.odometer import Samples
from controller.model.fabric import FloatArray, IntArray

TINY = float(np.finfo(np.float64).tiny)
"""In place of a divisor that is 0 where the dividend is 0, too."""

PARTS = 4
"""Marks between two readings of a counter, at random: its bytes may have left at any time between, and marks at equal
distances would show a period of their own."""


class Marks(NamedTuple):
    """N times at which QPs have sent.

    Attributes:
        qp: [N] number of the QP.
        at: [N] seconds.
        weight: [N] how much was sent, in any unit that is the same for all marks of a QP.
    """

    qp: IntArray
    at: FloatArray
    weight: FloatArray

    def of(self, chosen: np.ndarray) -> Marks:
        """Return some of the marks."""
        return Marks(self.qp[chosen], self.at[chosen], self.weight[chosen])


def marks_of(samples: Samples, rng: np.random.Generator) -> Marks:
    """Return the marks of sightings: a sampled packet is one; a polled counter that has risen is several."""
    one = np.flatnonzero(samples.sampled)
    same = (samples.qp[1:] == samples.qp[:-1]) & ~samples.sampled[1:]
    rise = np.diff(samples.sent) * same
    risen = np.flatnonzero(rise > 0)
    number = len(one) + len(risen) * PARTS
    marks = Marks(np.empty(number, dtype=np.int32), np.empty(number), np.empty(number))
    marks.qp[: len(one)], marks.at[: len(one)], marks.weight[: len(one)] = samples.qp[one], samples.at[one], 1.0
    # Of many QPs these are the largest arrays of all, so they are filled in place.
    marks.qp[len(one) :].reshape(-1, PARTS)[:] = samples.qp[risen, None]
    marks.weight[len(one) :].reshape(-1, PARTS)[:] = rise[risen, None] / PARTS
    at = marks.at[len(one) :].reshape(-1, PARTS)
    at[:] = rng.random(at.shape)
    at *= (samples.at[risen + 1] - samples.at[risen])[:, None]
    at += samples.at[risen, None]
    return marks
