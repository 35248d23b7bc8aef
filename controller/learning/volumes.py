"""Volumes: the bytes that each QP sends in an iteration, and the classes of equal ones.

The progress of a cluster of QPs through its iterations is a clock: whole iterations, and the part of the cluster's
marks that come before in the iteration. A QP's counter rises evenly by this clock, so its bytes in an iteration are the
slope of its counter (least squares), wherever in the iteration its sightings fall, and however long iterations last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from controller.learning.activity import BINS, Clusters, position
from controller.learning.iterations import JobIterations
from controller.learning.odometer import Samples
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array

LEAST_SPREAD = 0.15
"""Standard deviation of a QP's sightings, in iterations, from which its slope is believed."""
SNAP = 0.02
"""Volumes that differ by less than this part are of one class ..."""
DEVIATIONS = 3.0
"""... or by less than this number of standard errors."""


class Volumes(NamedTuple):
    """Bytes of the Q QPs of a component in an iteration.

    Attributes:
        bytes: [Q]; NaN where the sightings do not tell.
        error: [Q] standard error.
    """

    bytes: FloatArray
    error: FloatArray


def volumes(iterations: JobIterations, clusters: Clusters, samples: Samples, qps: int) -> Volumes:
    """Return the bytes of each QP; ``samples.qp`` is its place among the component's."""
    k, part = position(iterations, samples.at)
    before = np.concatenate((np.zeros((len(clusters.profile), 1)), np.cumsum(clusters.profile, axis=1)), axis=1)
    of = clusters.of_qp[samples.qp]
    place = np.minimum((part * BINS).astype(np.int64), BINS - 1)
    clock = k + before[of, place] + clusters.profile[of, place] * (part * BINS - place)
    n = np.maximum(np.bincount(samples.qp, minlength=qps), 1)
    x = clock - (np.bincount(samples.qp, clock, qps) / n)[samples.qp]
    sent = samples.sent.astype(np.float64)
    y = sent - (np.bincount(samples.qp, sent, qps) / n)[samples.qp]
    xx = np.bincount(samples.qp, x * x, qps)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.bincount(samples.qp, x * y, qps) / xx
        rest = np.bincount(samples.qp, (y - slope[samples.qp] * x) ** 2, qps)
        error = np.sqrt(rest / np.maximum(n - 2, 1) / xx)
    known = (xx > n * LEAST_SPREAD**2) & (n >= 3) & (slope > 0)
    return Volumes(np.where(known, slope, np.nan), np.where(known, error, np.nan))


@njit(cache=True, nogil=True)
def _class_begins(value: FloatArray, error: FloatArray) -> Int64Array:
    """Return where each class begins among rising values, and their number at last."""
    begins = [0]
    for i in range(1, len(value)):
        near = value[(begins[-1] + i) // 2]
        if value[i] - near > max(SNAP * near, DEVIATIONS * error[i]):
            begins.append(i)
    begins.append(len(value))
    return np.array(begins)


def classes(found: Volumes, members: IntArray) -> FloatArray:
    """Return the bytes of some QPs, snapped to those of their class; NaN where they are not known."""
    value, error = found.bytes[members], found.error[members]
    snapped = np.full(len(members), np.nan)
    order = np.argsort(value, kind="stable")
    order = order[np.isfinite(value[order])]
    if not len(order):
        return snapped
    begins = _class_begins(value[order], error[order])
    weight = 1 / np.maximum(error[order], TOLERANCE * value[order]) ** 2
    means = np.add.reduceat(value[order] * weight, begins[:-1]) / np.add.reduceat(weight, begins[:-1])
    snapped[order] = np.repeat(means, np.diff(begins))
    return snapped
