"""Counted iterations: those of a job of TCP, by what its connections have sent when all of them pause.

An iteration sends the same bytes however long it lasts. On a busy machine ranks stall, so iterations are of unequal
length, and pauses within them may be as long as those between them; but a counter that stands still is exact. So
pauses are sought that lie at equal distances of bytes, one at each multiple, and longer than those elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.learning.iterations import LEAST_SECONDS, JobIterations
from controller.learning.odometer import Samples
from controller.model.fabric import BoolArray, FloatArray, IntArray

MOST_PAUSES = 64
"""The longest pauses, which are looked at."""
MOST_ITERATIONS = 96
SAME = 0.01
"""Part by which the bytes of iterations may differ: connections carry other messages, too."""
FEWEST = 3
"""Iterations of equal bytes that must have been seen."""
MISSED = 1 / 3
"""Part of the iterations between which no pause need be seen, or a shorter one: readings are late now and then."""
LEAST_CHANCE = 0.02
"""The least probability that is assumed of a pause at a given multiple, if there are no iterations ..."""
SLOTS = 8
"""... and the number of places in an iteration where others pause by chance, at the most."""
CLEAR = 3.0
"""Logarithm of how much likelier pauses at multiples must be than by chance, at any distance."""
LONGER, CERTAIN = 1.5, 2.5
"""Iterations may have equal parts with pauses between them. The whole ones begin with pauses that are so many times as
long (by medians), and by so many standard deviations of the mean rank (Wilcoxon, 1945)."""
MANY, SOME, ALMOST = (2, 3, 4), 1 / 3, 0.6
"""So many iterations may be taken for one where many pauses were missed. They are told by some of the pauses between
them, so many times as long as the others at least."""
TINY_SHARE = 1e-3
"""Bytes between two pauses, as a part of all, that do not part them: other messages on the connections."""
LATE_SECONDS = 30.0
"""A counter that was not told for longer stands still; before, its host may only be late."""
NEWEST = (0.0, 0.5, 0.75)
"""Parts of the observed time that are left out at its begin, one after the other: a job may have changed."""
LONG = 2.5
"""A pause, or an iteration, is a long one that is so many times as long as the median."""
STALE = 10
"""So many periods without a pause between iterations, they are no more what is sent."""
EQUAL = 0.85
"""Part of the bytes that must lie in iterations in which their connection has sent as much as in most."""
KEPT = 5
"""Newest iterations of a connection whose median is its bytes."""
ENDED, ENDED_OPEN = 3, 10
"""A connection has ended that has sent nothing in so many iterations: one that the kernel says is open may pause."""
PARTS = 64
"""Of the time between two pauses, where the pause between two iterations was missed."""


class CountedIterations(NamedTuple):
    """The iterations of a job of Q connections.

    Attributes:
        iterations: when they begin.
        agreeing: number of those that have the same bytes.
        bytes: [Q] of each connection in one; NaN: it has sent in none.
        error: [Q] standard error.
        variation: [Q] standard deviation as a part of the bytes.
        ended: [Q] whether a connection has sent nothing for some iterations.
    """

    iterations: JobIterations
    agreeing: int
    bytes: FloatArray
    error: FloatArray
    variation: FloatArray
    ended: BoolArray


class _Pauses(NamedTuple):
    """P pauses of all connections, in order of time: seconds from and until, and all bytes sent before each."""

    begin: FloatArray
    end: FloatArray
    total: FloatArray

    def of(self, chosen: IntArray | BoolArray) -> _Pauses:
        return _Pauses(self.begin[chosen], self.end[chosen], self.total[chosen])

    @property
    def middle(self) -> FloatArray:
        middle: FloatArray = (self.begin + self.end) / 2
        return middle


class _Multiples(NamedTuple):
    """N iterations' begins as multiples of some bytes.

    Attributes:
        size: the bytes of an iteration.
        total: [N] all bytes sent before each begin.
        pause: [N] the pause there; -1: none was seen.
        seconds: [N] its length, or 0.
    """

    size: float
    total: FloatArray
    pause: IntArray
    seconds: FloatArray


def counted_iterations(samples: Samples, qps: int, is_open: BoolArray) -> CountedIterations | None:
    """Return the iterations of the connections of a component; ``None``: no equal bytes show.

    Args:
        samples: of counters that were read, in order of connections, and of time within each.
        qps: Q, the number of connections.
        is_open: [Q] whether the kernel says that a connection is there.
    """
    if not len(samples.at) or samples.sampled.any():
        return None
    curves = _Curves(samples, qps)
    pauses = _pauses(curves)
    for part in NEWEST:
        since = curves.first + part * (curves.last - curves.first)
        newest = pauses.of(pauses.end > since)
        multiples = _best_multiples(newest, curves)
        counted = None if multiples is None else _of_multiples(curves, newest, multiples, is_open)
        if counted is not None:
            return counted
    return None


class _Curves:
    """What connections have sent at any time, as far as it was read."""

    def __init__(self, samples: Samples, qps: int) -> None:
        self.samples, self.qps = samples, qps
        self._origin = float(samples.at.min())
        self._span = float(np.ptp(samples.at)) + 1.0
        self._place = samples.qp * self._span + (samples.at - self._origin)
        self._from = np.searchsorted(samples.qp, np.arange(qps))
        self._until = np.searchsorted(samples.qp, np.arange(qps), side="right") - 1
        newest = samples.at[self._until]
        self.first = self._origin
        # As long as one host may be late, nobody knows whether its connections pause.
        self.last = float(newest[newest > newest.max() - LATE_SECONDS].min())

    def at(self, times: FloatArray) -> FloatArray:
        """Return the bytes [Q, T] at some times."""
        samples = self.samples
        wanted = np.arange(self.qps)[:, None] * self._span + np.clip(times - self._origin, 0.0, self._span - 1.0)
        after = np.searchsorted(self._place, wanted, side="left")
        after = np.clip(after, self._from[:, None], self._until[:, None])
        before = np.maximum(after - 1, self._from[:, None])
        length = samples.at[after] - samples.at[before]
        part = np.where(length > 0, (times - samples.at[before]) / np.where(length > 0, length, 1.0), 1.0)
        sent: FloatArray = samples.sent[before] + np.clip(part, 0.0, 1.0) * (samples.sent[after] - samples.sent[before])
        return sent


def _pauses(curves: _Curves) -> _Pauses:
    """Return the longest times in which no connection has sent."""
    samples = curves.samples
    risen = np.flatnonzero((samples.qp[1:] == samples.qp[:-1]) & (samples.sent[1:] > samples.sent[:-1]))
    order = risen[np.argsort(samples.at[risen], kind="stable")]
    begins = np.append(samples.at[order], curves.last)
    ends = np.maximum.accumulate(np.concatenate(([curves.first], samples.at[order + 1])))
    idle = np.flatnonzero((begins > ends) & (ends < curves.last))
    begin, end = ends[idle], np.minimum(begins[idle], curves.last)
    chosen = np.sort(np.argsort(begin - end, kind="stable")[:MOST_PAUSES])
    begin, end = begin[chosen], end[chosen]
    total = curves.at((begin + end) / 2).sum(axis=0)
    # Other messages on the connections do not part a pause.
    least = TINY_SHARE * float(np.ptp(total)) if len(total) else 0.0
    first = np.flatnonzero(np.diff(total, prepend=-np.inf) > least)
    last = np.append(first[1:] - 1, len(total) - 1) if len(first) else first
    return _Pauses(begin[first], end[last], total[first])


def _best_multiples(pauses: _Pauses, curves: _Curves) -> _Multiples | None:
    """Return the iterations between which pauses lie."""
    number = len(pauses.begin)
    if number <= FEWEST:
        return None
    seconds = pauses.end - pauses.begin
    if pauses.end[-1] >= curves.last:
        # It goes on.
        seconds[-1] = max(seconds[-1], float(np.median(seconds)))
    until = max(float(pauses.total[-1]), float(curves.at(np.array([curves.last])).sum()))
    one, other = np.triu_indices(number, 1)
    size = pauses.total[other] - pauses.total[one]
    few = (until - pauses.total[0]) / size < MOST_ITERATIONS
    one, size = one[few], size[few]
    if not len(size):
        return None
    near = SAME * size
    first = pauses.total[one] - np.floor((pauses.total[one] - pauses.total[0] + near) / size) * size
    count = np.floor((until - first + near) / size).astype(np.int64) + 1
    total = first[:, None] + np.arange(int(count.max())) * size[:, None]
    there = np.arange(total.shape[1]) < count[:, None]
    pause, length = _pause_at(pauses.total, seconds, total, near)
    length = np.where(there, length, np.inf)
    least = np.take_along_axis(np.sort(length, axis=1), (MISSED * count).astype(np.int64)[:, None], axis=1)[:, 0]
    hits = ((length >= least[:, None]) & there).sum(axis=1)
    rivals = number - np.searchsorted(np.sort(seconds), least)
    chance = np.clip((rivals - hits) / count / SLOTS, LEAST_CHANCE, 1.0)
    # Two of the pauses were chosen for their distance.
    score = -(hits - 2) * np.log(chance) - np.log(np.maximum(rivals * (rivals - 1) / 2, 1.0))
    score = np.where((least > 0) & (hits > FEWEST), score, -np.inf)
    best = int(np.argmax(score))
    if score[best] < CLEAR:
        return None
    mine = slice(0, int(count[best]))
    parts = _Multiples(float(size[best]), total[best, mine], pause[best, mine], length[best, mine])
    return _whole(_single(parts, pauses.total, seconds))


def _pause_at(
    known: FloatArray, seconds: FloatArray, total: FloatArray, near: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return which pause is near each of some bytes, and its length; -1 and 0 where there is none."""
    after = np.searchsorted(known, total)
    pause = np.full(total.shape, -1, dtype=np.int32)
    length = np.zeros(total.shape)
    for place in (after - 1, after):
        inside = np.clip(place, 0, len(known) - 1)
        better = (np.abs(known[inside] - total) <= near[:, None]) & (seconds[inside] > length)
        pause, length = np.where(better, inside, pause), np.where(better, seconds[inside], length)
    return pause.astype(np.int32), length


def _single(multiples: _Multiples, known: FloatArray, seconds: FloatArray) -> _Multiples:
    """Return single iterations in place of several in one: of those between, many begin with pauses as long as theirs.

    Args:
        multiples: the iterations.
        known: all bytes sent before each pause.
        seconds: the length of each pause.
    """
    least = ALMOST * float(np.median(multiples.seconds[multiples.pause >= 0]))
    best = multiples
    for times in MANY:
        size = multiples.size / times
        total = multiples.total[0] + np.arange((len(multiples.total) - 1) * times + 1) * size
        pause, length = _pause_at(known, seconds, total[None, :], np.array([SAME * size]))
        between = np.arange(len(total)) % times > 0
        hits = np.count_nonzero(length[0, between] >= least)
        if hits >= 2 and hits >= SOME * np.count_nonzero(between):
            best = _Multiples(size, total, pause[0], length[0])
    return best


def _whole(parts: _Multiples) -> _Multiples:
    """Return the iterations of which some are equal parts; themselves, if they are whole."""
    number = len(parts.total)
    rank = np.argsort(np.argsort(parts.seconds)) + 1.0
    best, sure = parts, CERTAIN
    for times in range(2, (number - 1) // FEWEST + 1):
        for offset in range(times):
            mine = np.zeros(number, dtype=np.bool_)
            mine[offset::times] = True
            count = int(mine.sum())
            if count <= FEWEST:
                continue
            above = (rank[mine].mean() - (number + 1) / 2) / np.sqrt((number + 1) * (number - count) / (12 * count))
            if above > sure and np.median(parts.seconds[mine]) >= LONGER * np.median(parts.seconds[~mine]):
                sure = float(above)
                best = _Multiples(times * parts.size, parts.total[mine], parts.pause[mine], parts.seconds[mine])
    return best


def _of_multiples(
    curves: _Curves, pauses: _Pauses, multiples: _Multiples, is_open: BoolArray
) -> CountedIterations | None:
    begins = np.where(multiples.pause >= 0, pauses.middle[multiples.pause], np.nan)
    seen = np.flatnonzero(multiples.pause >= 0)
    begins, seen = begins[seen[0] : seen[-1] + 1], seen - seen[0]
    times = np.diff(seen)
    each = np.diff(curves.at(begins[seen]), axis=1) / times
    for k in np.flatnonzero(times > 1).tolist():
        begins[seen[k] + 1 : seen[k + 1]] = _missed(curves, begins[seen[k]], begins[seen[k + 1]], int(times[k]))
    begins = _as_whole(begins, seen, pauses.of(multiples.pause[multiples.pause >= 0]), curves)
    number, lengths = len(begins) - 1, np.diff(begins)
    # A job that starts again has paused for long.
    period = float(lengths[lengths <= LONG * np.median(lengths)].mean())
    last = float(pauses.end[multiples.pause.max()])
    if period < LEAST_SECONDS or curves.last - last > STALE * period or not _are_equal(each, multiples.size):
        return None
    if curves.first < begins[0]:
        begins = np.concatenate(([begins[0] - period], begins))
    if curves.last > begins[-1]:
        begins = np.append(begins, begins[-1] + period)
    return CountedIterations(JobIterations(period, begins), number, *_sizes(each, is_open, multiples.size))


def _are_equal(each: FloatArray, size: float) -> bool:
    """Return whether connections have sent most in equal iterations [Q, K], of those in which they have sent.

    All together may send equal bytes in parts of some iterations and in others: where a connection has ended.
    """
    sent = np.where(each > TINY_SHARE * size / len(each), each, np.nan)
    sent = sent[np.isfinite(sent).any(axis=1)]
    median = np.nanmedian(sent, axis=1, keepdims=True)
    near = np.abs(sent - median) <= SAME * median
    return bool(np.nansum(sent * near) >= EQUAL * np.nansum(sent))


def _as_whole(begins: FloatArray, seen: IntArray, pauses: _Pauses, curves: _Curves) -> FloatArray:
    """Return the begins of iterations, of which some were seen, as if all pauses were whole and alike."""
    length = pauses.end - pauses.begin
    usual = float(np.median(length[1:-1])) if len(length) > 2 else 0.0
    begins = begins.copy()
    # After a long one, the job has started again.
    again = (length > LONG * usual) | (pauses.begin <= curves.first)
    begins[seen] = np.where(again, pauses.end - usual / 2, begins[seen])
    if pauses.end[-1] >= curves.last:
        begins[-1] = pauses.begin[-1] + usual / 2
    return begins


def _missed(curves: _Curves, begin: float, end: float, times: int) -> FloatArray:
    """Return when the iterations begin that lie between two pauses."""
    at = np.linspace(begin, end, PARTS)
    rise = np.maximum.accumulate(curves.at(at).sum(axis=0))
    wanted = rise[0] + (rise[-1] - rise[0]) * np.arange(1, times) / times
    missed: FloatArray = at[np.searchsorted(rise, wanted)]
    return missed


def _sizes(each: FloatArray, is_open: BoolArray, size: float) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Return bytes, errors, variations and ends of connections [Q] from those [Q, K] in iterations."""
    qps, number = each.shape
    bytes_, error, variation = np.full(qps, np.nan), np.zeros(qps), np.full(qps, np.nan)
    sent = each > TINY_SHARE * size / qps
    for qp in np.flatnonzero(sent.any(axis=1)).tolist():
        mine = each[qp, sent[qp]][-KEPT:]
        median = float(np.median(mine))
        near = mine[np.abs(mine - median) <= SAME * median]
        bytes_[qp] = median if not len(near) else near.mean()
        deviation = float(mine.std() if not len(near) else near.std())
        error[qp] = deviation / np.sqrt(max(len(near), 1))
        variation[qp] = deviation / median
    silent = np.where(sent.any(axis=1), np.argmax(sent[:, ::-1], axis=1), number)
    # What has sent once, at the begin, is no part of the iterations.
    limit = np.where(is_open & (sent.sum(axis=1) >= FEWEST), ENDED_OPEN, ENDED)
    return bytes_, error, variation, silent >= limit
