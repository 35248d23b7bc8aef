"""Compile every kernel of learning once, so that the first sightings do not wait for the compiler."""

from __future__ import annotations

import numpy as np

from controller.learning.infer import infer
from controller.learning.odometer import Odometers
from controller.learning.sightings import QpKey, SightingBatch

ITERATIONS, READINGS = 8, 20
"""Of the job that is learned, and of each QP in an iteration: more than are kept of a QP."""
BYTES = 1_000_000_000


def warm_up() -> None:
    """Learn a small job that computes for half of each second, or load what that compiles from the disk."""
    keys = tuple(QpKey(a, (a + 1) % 4, 49152 + a, a) for a in range(4))
    at = np.arange(ITERATIONS * READINGS) / READINGS
    sent = BYTES * (np.floor(at) + np.minimum(1.0, 2 * (at % 1.0)))
    odometers = Odometers()
    odometers.add(
        SightingBatch(
            keys,
            np.tile(np.arange(len(keys), dtype=np.int32), len(at)),
            np.repeat(at, len(keys)),
            np.repeat(sent.astype(np.int64), len(keys)),
        )
    )
    infer(odometers, 0.0, np.random.default_rng(0))
