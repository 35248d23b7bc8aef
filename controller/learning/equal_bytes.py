"""The bytes of one iteration, by where counters stand.

Where pauses are missed, several iterations look like one: on a busy machine, or where counters are read seldom. But
iterations send equal bytes, however long they last, and a counter that is read in a pause stands at a multiple of
these. So the values at which a counter was read repeat with the bytes of one iteration, as the times at which it was
read need not: the same test shows it that shows periods in time (``iterations.period``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.learning.iterations import JobIterations, period
from controller.learning.marks import Marks
from controller.learning.odometer import Samples
from controller.learning.volumes import Volumes
from controller.model.fabric import FloatArray, IntArray

ROWS = 5
"""Connections that are looked at."""
AGREEING = 3
"""So many of them, or all, must have as many iterations in what a job takes for one ..."""
NEAR = 0.05
"""... but for this part."""
SAME = 0.1
"""Part by which the bytes of a job may differ from those of one iteration."""
MOST_DWELL, DWELL_PART = 2.0, 90.0
"""A time at one value counts as at most so many times this percentile: a job that waits for long is one pause."""
FEWEST_READINGS, FEWEST = 12, 4.0
"""Readings and iterations that must have been seen."""
MANY_RISES, OFTEN, SELDOM = 6.0, 0.5, 0.1
"""Values of a counter that rises evenly, and is read regularly, repeat, too. So it must be seen to stand still at this
part of the multiples, less often if an iteration has fewer rises: then most pauses are shorter than readings."""
EVERY = 0.75
"""Part of every second (third, ...) multiple at which a counter stands still, and at none between: the iterations are
so many times as large."""
PRIMES, COHERENT = (2, 3, 5, 7, 11), 10
"""Pauses are short in bytes: multiples of their frequency show nearly as much, and their harmonics are exact."""
NEWEST = 13.0
"""Newest iterations, of those that the job has, that are looked at first, since it may have changed ..."""
OLDER = (0.75, 0.5, 0.0)
"""... and parts of the observed time that are left out at its begin, if these show nothing."""
PAUSE = 0.02
"""Part of an iteration's bytes within which a counter stands in the same pause."""
LONG = 2.5
"""An iteration is a long one, with a restart in it, that is so many times as long as the median."""


class SingleIterations(NamedTuple):
    """Bytes and times of iterations that follow from the values of counters.

    Attributes:
        parts: how many iterations a job takes for one; below 1: it takes a part of one.
        since: seconds from which on that holds.
    """

    parts: float
    since: float


def single_iterations(
    samples: Samples, bytes_: FloatArray, rng: np.random.Generator, has_period: bool = True
) -> SingleIterations | None:
    """Return how many iterations are taken for one; ``None``: values do not show it.

    Args:
        samples: of counters that were read, in order of connections, and of time within each.
        bytes_: [Q] of each connection in what is taken for an iteration; NaN: not known.
        rng: draws.
        has_period: whether these are iterations, or seconds.
    """
    known = np.flatnonzero(np.isfinite(bytes_) & (bytes_ > 0))
    if not len(samples.at) or not len(known):
        return None
    rows = known[np.unique(np.linspace(0, len(known) - 1, ROWS).astype(np.int64))].astype(np.int32)
    first, last = float(samples.at.min()), float(samples.at.max())
    at, value = _row(samples, bytes_, int(rows[0]), first)
    newest = float(at[np.searchsorted(value, value[-1] - NEWEST)]) if has_period else last
    for since in (newest, *(first + part * (last - first) for part in OLDER)):
        parts = _agreed(samples, rows, bytes_, since, rng) if since <= newest else 0.0
        if parts:
            return SingleIterations(parts, since)
    return None


def _row(samples: Samples, bytes_: FloatArray, row: int, since: float) -> tuple[FloatArray, FloatArray]:
    """Return when a connection was read since a time, and what it had sent, in iterations."""
    begin, end = np.searchsorted(samples.qp, [row, row + 1])
    begin += np.searchsorted(samples.at[begin:end], since)
    return samples.at[begin:end], samples.sent[begin:end] / bytes_[row]


def _agreed(samples: Samples, rows: IntArray, bytes_: FloatArray, since: float, rng: np.random.Generator) -> float:
    """Return the number of iterations on which connections agree; 0: they do not."""
    wanted = min(AGREEING, len(rows))
    shown: list[float] = []
    for left, row in zip(range(len(rows), 0, -1), rows.tolist(), strict=True):
        parts = _parts(*_row(samples, bytes_, row, since), rng)
        if parts:
            shown.append(parts)
            usual = float(np.median(shown))
            if np.count_nonzero(np.abs(np.array(shown) - usual) <= NEAR * usual) >= wanted:
                return usual
        if len(shown) + left - 1 < wanted:
            break
    return 0.0


def _parts(at: FloatArray, value: FloatArray, rng: np.random.Generator) -> float:
    if len(at) < FEWEST_READINGS:
        return 0.0
    rises = np.diff(value)
    if not (rises == 0).any() or not (rises > 0).any():
        return 0.0
    # The same test, of values in place of times.
    unit = period(Marks(np.zeros(len(at), dtype=np.int32), value, _dwell(at)), rng, PRIMES, COHERENT)
    return 1 / unit if unit and unit <= (value[-1] - value[0]) / FEWEST and _pauses(value, unit) else 0.0


def _pauses(value: FloatArray, unit: float) -> bool:
    """Return whether a counter pauses where its values repeat, which they do as well where it is read regularly."""
    rises = np.diff(value)
    still = value[1:][rises == 0] / unit
    near = still[np.abs((still - _offset(still, np.ones(len(still))) + 0.5) % 1.0 - 0.5) < PAUSE]
    multiples = np.unique(np.round(near - near[0])).astype(np.int64)
    step = int(np.gcd.reduce(np.diff(multiples, prepend=multiples[0])))
    if step > 1 and len(multiples) > EVERY * ((multiples[-1] - multiples[0]) / step + 1):
        return False
    part = OFTEN if unit > MANY_RISES * float(np.median(rises[rises > 0])) else SELDOM
    return bool(len(multiples) >= max(2.0, part * (value[-1] - value[0]) / unit))


def _dwell(at: FloatArray) -> FloatArray:
    dwell = np.gradient(at)
    capped: FloatArray = np.minimum(dwell, MOST_DWELL * float(np.percentile(dwell, DWELL_PART)))
    return capped


def iterations_of(samples: Samples, bytes_: FloatArray, since: float) -> tuple[JobIterations, Volumes] | None:
    """Return the iterations of connections since a time, and their bytes; ``None``: too few.

    Args:
        samples: of counters that were read, in order of connections, and of time within each.
        bytes_: [Q] of each connection in an iteration, about; NaN: not known.
        since: seconds.
    """
    # Of the connection that was read most often.
    known = np.isfinite(bytes_) & (bytes_ > 0)
    row = int(np.argmax(np.bincount(samples.qp, minlength=len(bytes_)) * known))
    at, value = _row(samples, bytes_, row, since)
    if len(at) < FEWEST_READINGS:
        return None
    dwell = _dwell(at)
    offset = _offset(value, dwell)
    first, last = int(np.ceil(value[0] - offset - PAUSE)), int(np.floor(value[-1] - offset + PAUSE))
    if last - first < FEWEST - 1:
        return None
    multiples = np.arange(first, last + 1) + offset
    low, high = np.searchsorted(value, multiples - PAUSE), np.searchsorted(value, multiples + PAUSE)
    middle = (at[np.minimum(low, len(at) - 1)] + at[high - 1]) / 2
    begins = np.maximum.accumulate(np.where(high > low, middle, np.interp(multiples, value, at)))
    seen = np.flatnonzero(high > low)
    if len(seen) < 2 or seen[-1] - seen[0] < FEWEST - 1:
        return None
    sizes = _sizes(samples, len(bytes_), float(begins[seen[0]]), float(begins[seen[-1]]), int(seen[-1] - seen[0]))
    begins = begins[seen[0] : seen[-1] + 1]
    lengths = np.diff(begins)
    seconds = float(lengths[lengths <= LONG * np.median(lengths)].mean())
    if at[0] < begins[0]:
        begins = np.concatenate(([begins[0] - seconds], begins))
    until = float(samples.at.max())
    while until > begins[-1]:
        begins = np.append(begins, begins[-1] + seconds)
    return JobIterations(seconds, begins), sizes


def _offset(value: FloatArray, dwell: FloatArray) -> float:
    """Return the part of an iteration that was sent when the counter pauses between two."""
    away = np.abs((value[:, None] - value + 0.5) % 1.0 - 0.5) < PAUSE
    place = value[int(np.argmax(away @ dwell))]
    from_place = (value - place + 0.5) % 1.0 - 0.5
    return float(place + np.average(from_place, weights=dwell * (np.abs(from_place) < PAUSE))) % 1.0


def _sizes(samples: Samples, qps: int, begin: float, end: float, number: int) -> Volumes:
    """Return the bytes of each connection in an iteration, of so many between two times."""
    bytes_, error = np.full(qps, np.nan), np.zeros(qps)
    bounds = np.searchsorted(samples.qp, np.arange(qps + 1)).tolist()
    for qp in range(qps):
        at, sent = samples.at[bounds[qp] : bounds[qp + 1]], samples.sent[bounds[qp] : bounds[qp + 1]]
        if not len(at) or at[-1] < end:
            continue
        rise = np.interp([begin, end], at, sent)
        around = np.searchsorted(at, [begin, end])
        gaps = sent[np.minimum(around, len(at) - 1)] - sent[np.maximum(around - 1, 0)]
        if rise[1] > rise[0]:
            bytes_[qp], error[qp] = (rise[1] - rise[0]) / number, gaps.max() / 2 / number
    # By what their values tell, they vary as little as is needed to tell it.
    return Volumes(bytes_, error, np.full(qps, np.nan))
