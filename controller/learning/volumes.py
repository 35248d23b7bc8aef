"""Volumes: the bytes that each QP sends in an iteration, and the classes of equal ones.

The progress of a cluster of QPs through its iterations is a clock: whole iterations, and the part of the cluster's
marks that come before in the iteration. A QP's counter rises evenly by this clock, so its bytes in an iteration are the
slope of its counter (least squares), wherever in the iteration its sightings fall, and however long iterations last.

A counter that is read tells more: where two readings in a row are equal and an iteration begins between them, its value
at that begin is known exactly, and so are the bytes between two such begins. Where most iterations have the same bytes,
the others are taken for wrong begins: a job that is delayed pauses in other places.
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
MOST = 2 / 3
"""Part of the iterations that have the same bytes, from which those of the others count no more ..."""
SAME = 0.01
"""... if they differ from the median by less than this part: counters of TCP count what was sent twice, too."""
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
    of_qp, many, rise = _between_begins(samples, iterations.begins)
    whole, risen = np.bincount(of_qp, many, qps), np.bincount(of_qp, rise, qps)
    squares = np.bincount(of_qp, rise**2 / many, qps)
    mean = risen / np.maximum(whole, 1)
    spread = np.sqrt(np.maximum(squares / np.maximum(whole, 1) - mean**2, 0.0))
    same = _same_bytes(of_qp, many, rise, qps)
    read = known & (risen > 0) & ((spread <= UNEVEN * mean) | np.isfinite(same.bytes))
    counted = np.where(np.isfinite(same.bytes), same.bytes, mean)
    deviation = np.where(np.isfinite(same.bytes), same.spread, spread)
    # Of a single iteration, nothing tells how much others differ from it.
    several = read & (whole > 1)
    return Volumes(
        np.where(read, counted, value),
        np.where(several, deviation / np.sqrt(np.maximum(whole - 1, 1)), error),
        np.divide(spread, mean, out=np.full(qps, np.nan), where=(whole > 1) & (risen > 0)),
    )


class _Same(NamedTuple):
    """Of each QP [Q]: the bytes that most of its iterations have, and their standard deviation; NaN if none are."""

    bytes: FloatArray
    spread: FloatArray


def _same_bytes(of_qp: Int64Array, many: Int64Array, rise: FloatArray, qps: int) -> _Same:
    """Return the bytes of an iteration that most iterations agree on, of the rises that ``_between_begins`` returns."""
    each = rise / many
    order = np.lexsort((each, of_qp))
    of_qp, many, each = of_qp[order], many[order], each[order]
    after = np.cumsum(many)
    whole = np.bincount(of_qp, many, qps)
    begin = np.cumsum(whole) - whole
    middle = np.minimum(np.searchsorted(after, begin + whole / 2), max(len(each) - 1, 0))
    if not len(each):
        return _Same(np.full(qps, np.nan), np.full(qps, np.nan))
    near = np.abs(each - each[middle][of_qp]) <= SAME * each[middle][of_qp]
    weight = many * near
    agreeing = np.bincount(of_qp, weight, qps)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(of_qp, weight * each, qps) / agreeing
        variance = np.bincount(of_qp, weight * (each - np.nan_to_num(mean)[of_qp]) ** 2, qps) / agreeing
    most = (whole > 1) & (agreeing >= MOST * whole) & (mean > 0)
    return _Same(np.where(most, mean, np.nan), np.where(most, np.sqrt(variance), np.nan))


@njit(cache=True, nogil=True)
def _between_begins(samples: Samples, begins: FloatArray) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Return what counters that were read tell of whole iterations.

    Args:
        samples: in order of QPs, and of time within each.
        begins: [I + 1] of iterations.

    Returns:
        Of each two begins in a row at which a QP's counter is known [N]: the QP, the number of iterations between them
        and the bytes.
    """
    of_qp, many, rise = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    for counted in (False, True):
        n, last_qp, last, value = 0, -1, -1, 0
        for i in range(len(samples.qp) - 1):
            qp = samples.qp[i]
            if samples.qp[i + 1] != qp or samples.sampled[i + 1] or samples.sent[i + 1] != samples.sent[i]:
                continue
            first, end = np.searchsorted(begins, samples.at[i : i + 2])
            for k in range(first, end):
                if last_qp == qp:
                    if counted:
                        of_qp[n], many[n], rise[n] = qp, k - last, samples.sent[i] - value
                    n += 1
                last_qp, last, value = qp, k, samples.sent[i]
        if not counted:
            of_qp, many, rise = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n)
    return of_qp, many, rise


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
