"""Restarts: pauses after which a job has begun anew, over other connections of the same hosts or the same ones.

A job pauses in each iteration, while it computes; when it saves its state or is started again, it pauses for longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.learning.iterations import RARE
from controller.learning.odometer import Samples
from controller.model.fabric import FloatArray

LONGER = 2.5
"""A pause is a restart if it is so many times as long as all that are none ..."""
ALIKE = 3
"""... of which there must be so many that do not differ by as much, those between iterations, ..."""
ITERATIONS_BETWEEN = 3
"""... and so many between two restarts: phases pause within an iteration, too."""
MOST_RESTARTS = 3


class IdleTimes(NamedTuple):
    """Times in which none of some QPs has sent, in their order.

    Attributes:
        begin, end: [N] seconds.
        chance: seconds up to which one may be chance, because packets are sampled.
    """

    begin: FloatArray
    end: FloatArray
    chance: float


def idle_times(samples: Samples) -> IdleTimes:
    """Return when no QP has sent: a counter that has risen may have done so at any time between its two readings."""
    risen = np.flatnonzero((np.diff(samples.sent) > 0) & (np.diff(samples.qp) == 0) & ~samples.sampled[1:])
    packets = samples.at[samples.sampled]
    begin = np.concatenate((packets, samples.at[risen]))
    end = np.concatenate((packets, samples.at[risen + 1]))
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    idle = np.flatnonzero(begin[1:] > end[:-1])
    between = np.diff(np.sort(packets))
    # As in ``iterations.period_of_gaps``: what is shorter is a gap within a burst.
    chance = float(np.median(between)) / np.log(2) * (RARE + np.log(len(packets))) if len(between) else 0.0
    return IdleTimes(end[idle], begin[idle + 1], chance)


def starts(idle: IdleTimes) -> FloatArray:
    """Return the times, in the middle of a pause each, at which a job has begun anew; rising."""
    length = idle.end - idle.begin
    order = np.argsort(-length, kind="stable")
    for count in range(1, min(MOST_RESTARTS, len(order) - ALIKE) + 1):
        usual = length[order[count]]
        if length[order[count - 1]] <= LONGER * usual or usual <= idle.chance:
            continue
        alike = length * LONGER > usual
        chosen = np.sort(order[:count])
        alike[chosen] = False
        if alike.sum() >= ALIKE and (np.diff(np.cumsum(alike)[chosen]) >= ITERATIONS_BETWEEN).all():
            middle: FloatArray = (idle.begin[chosen] + idle.end[chosen]) / 2
            return middle
    return np.zeros(0)
