"""Volumes: the bytes that each QP sends in an iteration, and the classes of equal ones.

The progress of a cluster of QPs through its iterations is a clock: whole iterations, and the part of the cluster's
marks that come before in the iteration. A QP's counter rises evenly by this clock, so its bytes in an iteration are the
slope of its counter (least squares), wherever in the iteration its sightings fall, and however long iterations last.

A counter that is read tells more: where two readings in a row are equal and an iteration begins between them, its value
at that begin is known exactly, and so are the bytes between two such begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from controller.learning.activity import BINS, Clusters
from controller.learning.iterations import JobIterations
from controller.learning.odometer import Samples
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array

LEAST_SPREAD = 0.15
"""Standard deviation of a QP's sightings, in iterations, from which its slope is believed."""
UNEVEN = 0.25
"""Standard deviation of the bytes between two begins, as a part of them, above which these are no iterations of a QP:
where begins lie before one burst and after another one, there are two bursts between some, or none."""
SNAP = 0.02
"""Volumes that differ by less than this part are of one class ..."""
DEVIATIONS = 3.0
"""... or by less than this number of standard errors."""


class Volumes(NamedTuple):
    """Bytes of the Q QPs of a component in an iteration.

    Attributes:
        bytes: [Q]; NaN where the sightings do not tell.
        error: [Q] standard error.
        variation: [Q] standard deviation between iterations, as a part of the bytes; NaN where counters do not tell it.
    """

    bytes: FloatArray
    error: FloatArray
    variation: FloatArray


def volumes(iterations: JobIterations, clusters: Clusters, samples: Samples, qps: int) -> Volumes:
    """Return the bytes of each QP; ``samples.qp`` is its place among the component's."""
    k, part = iterations.position(samples.at)
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
    value, error = np.where(known, slope, np.nan), np.where(known, error, np.nan)
    whole, sent, squares = _between_begins(samples, iterations.begins, qps)
    mean = sent / np.maximum(whole, 1)
    spread = np.sqrt(np.maximum(squares / np.maximum(whole, 1) - mean**2, 0.0))
    read = known & (sent > 0) & (spread <= UNEVEN * mean)
    # Of a single iteration, nothing tells how much others differ from it.
    several = read & (whole > 1)
    return Volumes(
        np.where(read, mean, value),
        np.where(several, spread / np.sqrt(np.maximum(whole - 1, 1)), error),
        np.divide(spread, mean, out=np.full(qps, np.nan), where=(whole > 1) & (sent > 0)),
    )


@njit(cache=True, nogil=True)
def _between_begins(samples: Samples, begins: FloatArray, qps: int) -> tuple[Int64Array, FloatArray, FloatArray]:
    """Return what counters that were read tell of whole iterations.

    Args:
        samples: in order of QPs, and of time within each.
        begins: [I + 1] of iterations.
        qps: their number, Q.

    Returns:
        Of each QP [Q]: the number of iterations between the first and the last begin at which its counter is known, the
        bytes between these, and the sum of the squared bytes of iterations.
    """
    whole, sent, squares = np.zeros(qps, dtype=np.int64), np.zeros(qps), np.zeros(qps)
    last, value = np.full(qps, -1, dtype=np.int64), np.zeros(qps)
    for i in range(len(samples.qp) - 1):
        qp = samples.qp[i]
        if samples.qp[i + 1] != qp or samples.sampled[i + 1] or samples.sent[i + 1] != samples.sent[i]:
            continue
        first, end = np.searchsorted(begins, samples.at[i : i + 2])
        for k in range(first, end):
            if last[qp] >= 0:
                rise = samples.sent[i] - value[qp]
                whole[qp] += k - last[qp]
                sent[qp] += rise
                squares[qp] += rise * rise / (k - last[qp])
            last[qp], value[qp] = k, samples.sent[i]
    return whole, sent, squares


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


def classes(sizes: Volumes, members: IntArray) -> FloatArray:
    """Return the bytes of some QPs, snapped to those of their class; NaN where they are not known."""
    value, error = sizes.bytes[members], sizes.error[members]
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
