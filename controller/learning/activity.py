"""Activity: which QPs of a job send in the same part of its iterations.

The marks of a QP, as angles within the iteration, have trigonometric moments (Mardia and Jupp, Directional Statistics,
2000). QPs whose first moments agree, as far as so few marks can tell, are one cluster: those of one phase, or of the
same phases.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from controller.learning.iterations import JobIterations
from controller.learning.marks import TINY, Marks
from controller.model.fabric import FloatArray, IntArray

MOMENTS = 3
UNLIKE = 16.0
"""Distance of two moments' vectors, in variances of their marks, from which QPs are not of one cluster: the sum of
three exponential variables exceeds it with probability 1.6e-5."""
ROUNDS = 4
BINS = 64
"""Parts of the iteration."""
QUIET = 0.2
"""Activity, as a part of a cluster's highest one, below which it counts as silent."""
OVERLAP = 0.15
"""Part of the shorter activity from which two clusters are said to send at once."""


class Clusters(NamedTuple):
    """K clusters of the QPs of a component.

    Attributes:
        of_qp: [Q] cluster of each QP, by its place among the component's; -1: it has no marks.
        profile: [K, BINS] part of a cluster's marks that falls in each part of the iteration.
        phase: [K] clusters that send at once have one phase; phases are numbered by when they begin.
        begin, end: [P] of each phase, as parts of the iteration.
    """

    of_qp: IntArray
    profile: FloatArray
    phase: IntArray
    begin: FloatArray
    end: FloatArray


@njit(cache=True, nogil=True)
def _moments(
    row: IntArray, part: FloatArray, weight: FloatArray, rows: int
) -> tuple[NDArray[np.complex128], FloatArray]:
    """Return the moments [rows, MOMENTS], and the effective number [rows] of marks (Kish)."""
    total, squares = np.zeros(rows), np.zeros(rows)
    moments = np.zeros((rows, MOMENTS), dtype=np.complex128)
    for i in range(len(row)):
        total[row[i]] += weight[i]
        squares[row[i]] += weight[i] ** 2
        angle = 2 * np.pi * part[i]
        step = complex(np.cos(angle), np.sin(angle))
        wave = complex(weight[i], 0.0)
        for m in range(MOMENTS):
            wave *= step
            moments[row[i], m] += wave
    for r in range(rows):
        moments[r] /= max(total[r], TINY)
    return moments, total**2 / np.maximum(squares, TINY)


def _centres(
    moments: NDArray[np.complex128], number: FloatArray, label: IntArray, k: int
) -> tuple[NDArray[np.complex128], FloatArray]:
    total: FloatArray = np.bincount(label, number, k).astype(np.float64)
    centre = np.zeros((k, MOMENTS), dtype=np.complex128)
    for m in range(MOMENTS):
        wave = moments[:, m] * number
        centre[:, m] = np.bincount(label, wave.real, k) + 1j * np.bincount(label, wave.imag, k)
    return centre / np.maximum(total, TINY)[:, None], total


def _distance(
    moments: NDArray[np.complex128], number: FloatArray, centre: NDArray[np.complex128], total: FloatArray
) -> FloatArray:
    """Return the distance [Q, K] of QPs to centres, in variances of their marks."""
    apart = (np.abs(moments[:, None, :] - centre[None, :, :]) ** 2).sum(axis=2)
    distance: FloatArray = apart / (1 / number[:, None] + 1 / np.maximum(total, TINY)[None, :])
    return distance


def _label(moments: NDArray[np.complex128], number: FloatArray) -> IntArray:
    """Return a cluster for each QP: the first ones found by those with most marks, then nearest centres."""
    order = np.argsort(-number, kind="stable")
    leaders = [int(order[0])]
    while True:
        distance = _distance(moments, number, moments[leaders], number[leaders]).min(axis=1)
        far = order[distance[order] > UNLIKE]
        if not len(far) or len(leaders) == BINS:
            break
        leaders.append(int(far[0]))
    label = _distance(moments, number, moments[leaders], number[leaders]).argmin(axis=1).astype(np.int32)
    for _ in range(ROUNDS):
        label = np.unique(label, return_inverse=True)[1].astype(np.int32)
        k = int(label.max()) + 1
        centre, total = _centres(moments, number, label, k)
        between = _distance(centre, total, centre, total)
        merged = np.arange(k)
        for a in range(k):
            for b in range(a):
                # Centres of many marks are known so well that their distance says little: that of one QP counts.
                apart = between[a, b] * (1 / total[a] + 1 / total[b])
                if merged[a] == a and apart * np.median(number) < UNLIKE / 2:
                    merged[a] = merged[b]
        centre, total = _centres(moments, number, merged[label].astype(np.int32), k)
        distance = _distance(moments, number, centre, total)
        distance[:, total == 0] = np.inf
        label = distance.argmin(axis=1).astype(np.int32)
    return np.unique(label, return_inverse=True)[1].astype(np.int32)


def cluster(iterations: JobIterations, marks: Marks, qps: int) -> Clusters:
    """Return the clusters of the QPs 0 .. ``qps`` - 1 of one component."""
    _, part = iterations.position(marks.at)
    moments, number = _moments(marks.qp, part, marks.weight, qps)
    seen = np.flatnonzero(number > 0)
    of_qp = np.full(qps, -1, dtype=np.int32)
    of_qp[seen] = _label(moments[seen], number[seen])
    k = int(of_qp.max()) + 1
    place = np.minimum((part * BINS).astype(np.int64), BINS - 1)
    share = marks.weight / np.bincount(marks.qp, marks.weight, qps)[marks.qp]
    counted = np.bincount(of_qp[marks.qp] * BINS + place, share, k * BINS)
    profile: FloatArray = counted.astype(np.float64).reshape(k, BINS)
    profile /= profile.sum(axis=1, keepdims=True)
    phase, begin, end = _phases(profile)
    return Clusters(of_qp, profile, phase, begin, end)


def _phases(profile: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the phase of each cluster, and the begin and end of each phase as parts of the iteration."""
    active = profile >= QUIET * profile.max(axis=1, keepdims=True)
    k = len(profile)
    group = np.arange(k)
    for a in range(k):
        for b in range(a):
            both = np.count_nonzero(active[a] & active[b])
            if both > OVERLAP * min(np.count_nonzero(active[a]), np.count_nonzero(active[b])):
                group[group == group[a]] = group[b]
    names = np.unique(group)
    begin, end = np.zeros(len(names)), np.zeros(len(names))
    for i, name in enumerate(names):
        bins = np.flatnonzero(active[group == name].any(axis=0))
        begin[i], end[i] = bins[0] / BINS, (bins[-1] + 1) / BINS
    order = np.argsort(begin, kind="stable")
    rank = np.empty(len(names), dtype=np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    return rank[np.searchsorted(names, group)], begin[order], end[order]
