"""Odometers: the bytes that each QP has sent since it was first seen, and its last sightings.

Memory is bounded: ``DEPTH`` sightings a QP (more of TCP, where QPs are few), and ``most`` QPs; those that were not seen
for longest leave first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from controller.compilation import prepare
from controller.learning.sightings import QpKey, SightingBatch
from controller.model.choices.protocol import ROCE
from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array

prepare()

BoolArray = NDArray[np.bool_]

DEPTH = 64
"""Sightings that are kept of a QP."""

MOST_DEPTH, FEW_ROWS = 512, 1024
"""Sightings that are kept of TCP between two hosts, as long as memory is for so many QPs; for twice as many, half as
many, down to ``DEPTH``. Iterations over TCP are told by their pauses, which a few sightings do not show."""

WIDEST = 10.0
"""Seconds between sightings that are kept, from which the oldest ones leave instead."""

MOST_SAMPLES = 1_000_000
"""Sightings that are looked at together ..."""
FEWEST = 8
"""... but at least so many of each QP."""

RESTART_STEPS = 1 << 16
"""A counter that falls by more than this belongs to a new connection; by less, a packet was sent again (go-back-N)."""


class Samples(NamedTuple):
    """N sightings that are kept, in order of QPs, and of time within each.

    Attributes:
        qp: [N] number of the QP, rising.
        at: [N] seconds.
        sent: [N] bytes since the QP was first seen.
        sampled: [N] whether the QP sent a packet at that time.
    """

    qp: IntArray
    at: FloatArray
    sent: Int64Array
    sampled: BoolArray

    def of(self, chosen: NDArray[np.generic]) -> Samples:
        """Return some of them, by index or mask."""
        return Samples(self.qp[chosen], self.at[chosen], self.sent[chosen], self.sampled[chosen])


class Activity(NamedTuple):
    """When a QP has sent, and whether it is there.

    Attributes:
        sent: seconds of the first sighting with its newest counter.
        seen: seconds of the newest sighting.
        is_open: whether its host said last that it is there; ``None``: it never said.
    """

    sent: float
    seen: float
    is_open: bool | None


class QpCounters(NamedTuple):
    """The counters of R QPs, by number.

    Attributes:
        n_kept: [R] sightings kept so far; 0: the number is free.
        depth: [R] sightings that are kept at most.
        raw: [R] the newest value of the feeder's counter.
        at: [R, D] seconds of the last sightings, the n-th in column n mod ``depth``.
        sent: [R, D] bytes since the first sighting.
        sampled: [R] whether sightings are packets.
        total: [R] bytes since the first sighting.
        newest: [R] seconds of the newest sighting, kept or not.
        stood: [R] seconds of the first sighting, kept or not, with the newest value.
        spacing: [R] seconds between sightings that are kept, about: many a second would fill the memory with a part of
            one iteration.
        stride: [R] of so many packets in a row that are sampled, one is kept; 0: ``spacing`` was set. Until then the
            memory spans all of them: when it is full, one of each two leaves, and the stride doubles. So all iterations
            keep about the same number. Counters that are polled would show no pauses then: of these the oldest readings
            leave. Which one is kept is drawn: packets at equal distances would show these distances as a period.
        passed: [R] packets of the current ``stride`` that were sampled.
        place: [R] which of these is kept.
    """

    n_kept: Int64Array
    depth: Int64Array
    raw: Int64Array
    at: FloatArray
    sent: Int64Array
    sampled: BoolArray
    total: Int64Array
    newest: FloatArray
    stood: FloatArray
    spacing: FloatArray
    stride: Int64Array
    passed: Int64Array
    place: Int64Array

    @staticmethod
    def empty(rows: int) -> QpCounters:
        """Return counters of ``rows`` QPs, all free."""
        none = np.zeros(rows, dtype=np.int64)
        deep = max(DEPTH, MOST_DEPTH * FEW_ROWS // max(rows, FEW_ROWS))
        return QpCounters(
            none,
            np.full(rows, DEPTH, dtype=np.int64),
            none.copy(),
            np.zeros((rows, deep)),
            np.zeros((rows, deep), dtype=np.int64),
            np.zeros(rows, np.bool_),
            none.copy(),
            np.zeros(rows),
            np.zeros(rows),
            np.zeros(rows),
            np.ones(rows, dtype=np.int64),
            none.copy(),
            none.copy(),
        )


@njit(cache=True, nogil=True)
def _drawn(qp: int, n: int) -> float:
    """Return a number in [0, 1) that looks random (SplitMix64; Steele, Lea and Flood, OOPSLA 2014)."""
    z = (np.uint64(qp) << np.uint64(32)) + np.uint64(n) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 2.0**53


@njit(cache=True, nogil=True)
def _drawn_of(qp: int, n: int, stride: int) -> float:
    """Return a number in [0, 1) for the ``n``-th sighting that is kept at a stride."""
    return _drawn(qp, n + (stride << 20))


@njit(cache=True, nogil=True)
def _thin_out(counters: QpCounters, qp: int, n: int) -> int:
    """Keep one of each two sightings of a QP whose memory is full after ``n``; return the number of those that stay."""
    at, sent = counters.at[qp].copy(), counters.sent[qp].copy()
    half = int(counters.depth[qp]) // 2
    counters.stride[qp] *= 2
    for i in range(half):
        # Of twice as many packets each is kept with the same probability, as of ``stride`` before.
        second = _drawn_of(qp, i, counters.stride[qp]) < 0.5
        column = (n + 2 * i + second) % counters.depth[qp]
        counters.at[qp, i], counters.sent[qp, i] = at[column], sent[column]
    return half


@njit(cache=True, nogil=True)
def _record(
    counters: QpCounters, row: Int64Array, at: FloatArray, raw: Int64Array, unit_bytes: int, wrap: int, sampled: bool
) -> int:
    """Record sightings in order of time; return how many were ignored because they were old or sent again."""
    ignored = 0
    for i in range(len(row)):
        qp = row[i]
        n, depth = counters.n_kept[qp], counters.depth[qp]
        last = (n - 1) % depth
        value = raw[i] % wrap
        before = counters.total[qp]
        if n:
            step = (value - counters.raw[qp]) % wrap
            fall = wrap - step
            if at[i] <= counters.newest[qp] or (step > wrap // 2 and fall <= RESTART_STEPS):
                ignored += 1
                continue
            counters.total[qp] += 0 if step > wrap // 2 else step * unit_bytes
        else:
            counters.total[qp] = 0
        unseen = at[i] - counters.newest[qp] > counters.spacing[qp] and counters.newest[qp] > counters.at[qp, last]
        if not sampled and n and value != counters.raw[qp] and unseen:
            # What was sent before a time without sightings was not sent in it.
            last = n % depth
            counters.at[qp, last], counters.sent[qp, last] = counters.newest[qp], before
            n += 1
            counters.n_kept[qp] = n
        if n == 0 or value != counters.raw[qp]:
            counters.stood[qp] = at[i]
        counters.raw[qp], counters.newest[qp], counters.sampled[qp] = value, at[i], sampled
        sent = counters.total[qp]
        earlier = (n - 2) % depth
        if not sampled and n > 1 and sent == counters.sent[qp, last] == counters.sent[qp, earlier]:
            # Of an idle time only the first and the last sighting tell something.
            counters.at[qp, last] = at[i]
            continue
        if not sampled and depth > DEPTH:
            # All idle times are kept, and of others only the first sighting in so many seconds, and the last one.
            if (
                n > 1
                and sent > counters.sent[qp, last] > counters.sent[qp, earlier]
                and at[i] - counters.at[qp, earlier] < counters.spacing[qp]
            ):
                n -= 1
            counters.at[qp, n % depth], counters.sent[qp, n % depth] = at[i], sent
            counters.n_kept[qp] = n + 1
            continue
        if sampled and counters.stride[qp]:
            if counters.passed[qp] == 0:
                if n >= depth and at[i] - counters.at[qp, n % depth] < WIDEST * depth:
                    n = _thin_out(counters, qp, n)
                    counters.n_kept[qp] = n
                counters.place[qp] = int(_drawn_of(qp, n, counters.stride[qp]) * counters.stride[qp])
            nth = counters.passed[qp]
            counters.passed[qp] = (nth + 1) % counters.stride[qp]
            if nth != counters.place[qp]:
                continue
        # The distance is drawn, so that it does not beat with the job's period.
        if n and at[i] - counters.at[qp, last] < counters.spacing[qp] * (0.5 + _drawn(qp, n)):
            continue
        # The begin of an idle time tells more than its first sighting that is far enough from the one before.
        if not sampled and n and sent != counters.sent[qp, last] and counters.stood[qp] < at[i]:
            counters.at[qp, n % depth], counters.sent[qp, n % depth] = counters.stood[qp], sent
            n += 1
        counters.at[qp, n % depth] = at[i]
        counters.sent[qp, n % depth] = sent
        counters.n_kept[qp] = n + 1
    return ignored


def _shorten(counters: QpCounters, depth: int) -> None:
    """Keep at most the last ``depth`` sightings of each QP, in the first columns."""
    for row in np.flatnonzero(counters.depth > depth).tolist():
        count, before = int(counters.n_kept[row]), int(counters.depth[row])
        kept = min(count, depth)
        columns = np.arange(count - kept, count) % before
        counters.at[row, :kept], counters.sent[row, :kept] = counters.at[row, columns], counters.sent[row, columns]
        counters.n_kept[row], counters.depth[row] = kept, depth


@njit(cache=True, nogil=True)
def _kept_since(
    counters: QpCounters, used: Int64Array, since: float
) -> tuple[IntArray, FloatArray, Int64Array, BoolArray]:
    """Return the columns of ``Samples``: ``used`` [R] sightings of each QP, less those that are older than a time."""
    most = used.sum()
    qp, at = np.empty(most, dtype=np.int32), np.empty(most)
    sent, sampled = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.bool_)
    filled = 0
    for number in range(len(used)):
        count = counters.n_kept[number]
        kept = min(count, counters.depth[number])
        for nth in range(used[number]):
            # Evenly over those that are kept, the newest one among them.
            back = ((used[number] - 1 - nth) * kept) // used[number]
            column = (count - 1 - back) % counters.depth[number]
            if counters.at[number, column] >= since:
                qp[filled], at[filled] = number, counters.at[number, column]
                sent[filled], sampled[filled] = counters.sent[number, column], counters.sampled[number]
                filled += 1
    return qp[:filled], at[:filled], sent[:filled], sampled[:filled]


class Odometers:
    """The counters of all QPs.

    Attributes:
        most: number of QPs that are kept.
        keys: of the QPs by number; ``None`` where a number is free.
        ignored: number of sightings that told nothing: older than others of their QP, or of packets sent again.
    """

    def __init__(self, most: int = 1 << 17) -> None:
        """Begin without QPs."""
        self.most = most
        self.keys: list[QpKey | None] = []
        self.ignored = 0
        self._number: dict[QpKey, int] = {}
        self._free: list[int] = []
        self._open: dict[QpKey, bool] = {}
        self._counters = QpCounters.empty(min(most, 1024))

    def __len__(self) -> int:
        """Return the number of QPs."""
        return len(self._number)

    def add(self, batch: SightingBatch) -> None:
        """Record a feeder's sightings."""
        seen = np.unique(batch.qp)[: self.most]
        self._make_room({batch.keys[i] for i in seen.tolist()})
        rows = np.full(len(batch.keys), -1, dtype=np.int64)
        rows[seen] = [self._row(batch.keys[i]) for i in seen.tolist()]
        self._open.update({key: state for key, state in (batch.open or {}).items() if key in self._number})
        row = rows[batch.qp]
        order = np.argsort(batch.at, kind="stable")
        order = order[row[order] >= 0]
        if not batch.sampled:
            self._deepen([number for number in rows[seen].tolist() if self._is_new_of_tcp(number)])
        self.ignored += _record(
            self._counters, row[order], batch.at[order], batch.sent[order], batch.unit_bytes, batch.wrap, batch.sampled
        )

    def last_seen(self) -> FloatArray:
        """Return the time [R] of the newest sighting of each QP by number; -inf where the number is free."""
        n = len(self.keys)
        return np.where(self._counters.n_kept[:n] > 0, self._counters.newest[:n], -np.inf)

    def activity(self, keys: Iterable[QpKey]) -> dict[QpKey, Activity]:
        """Return what is known of those of some QPs that were seen."""
        counters, number = self._counters, self._number
        return {
            key: Activity(float(counters.stood[number[key]]), float(counters.newest[number[key]]), self._open.get(key))
            for key in keys
            if key in number
        }

    def is_open(self, key: QpKey) -> bool:
        """Return whether a host has said last that it has a connection with this key."""
        return self._open.get(key, False)

    def space(self, qp: IntArray, seconds: FloatArray | float) -> None:
        """Keep from now on about one sighting in so many seconds of the QPs with these numbers."""
        self._counters.spacing[qp], self._counters.stride[qp] = seconds, 0

    def span_all(self, qp: IntArray) -> None:
        """Keep from now on what spans all packets, as at first, of the QPs with these numbers."""
        qp = qp[self._counters.stride[qp] == 0]
        self._counters.spacing[qp], self._counters.stride[qp], self._counters.passed[qp] = 0.0, 1, 0

    def depth(self, qp: IntArray) -> Int64Array:
        """Return how many sightings are kept of the QPs with these numbers, at most."""
        return self._counters.depth[qp]

    def spacing(self, qp: IntArray) -> FloatArray:
        """Return what ``space`` has set, 0 at first."""
        return self._counters.spacing[qp]

    def samples(self, since: float, chosen: BoolArray | bool = True) -> Samples:
        """Return sightings that are not older than a time: all that are kept, or some of each QP where QPs are many.

        Args:
            since: seconds.
            chosen: [R] whether to return those of a QP, by number.
        """
        n = len(self.keys)
        kept = np.minimum(self._counters.n_kept[:n], self._counters.depth[:n])
        used = np.minimum(kept, max(FEWEST, MOST_SAMPLES // max(len(self), 1)))
        return Samples(*_kept_since(self._counters, used * chosen, since))

    def forget(self, before: float) -> None:
        """Forget the QPs that were last seen before a time."""
        for number in np.flatnonzero(self.last_seen() < before).tolist():
            self._remove(number)

    def remove(self, keys: Iterable[QpKey]) -> None:
        """Forget some QPs."""
        for key in keys:
            if key in self._number:
                self._remove(self._number[key])

    def _row(self, key: QpKey) -> int:
        number = self._number.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self.keys)
            if number == len(self.keys):
                self.keys.append(None)
            if number == len(self._counters.n_kept):
                self._grow()
            self.keys[number], self._number[key] = key, number
        return number

    def _is_new_of_tcp(self, number: int) -> bool:
        key = self.keys[number]
        return key is not None and key.protocol != ROCE and not self._counters.n_kept[number]

    def _deepen(self, rows: list[int]) -> None:
        self._counters.depth[rows] = self._counters.at.shape[1]

    def _grow(self) -> None:
        old = self._counters
        larger = QpCounters.empty(min(2 * len(old.n_kept), self.most))
        _shorten(old, larger.at.shape[1])
        for new, values in zip(larger, old, strict=True):
            part = values[:, : new.shape[1]] if new.ndim > 1 else values
            new[: len(values)] = part
        self._counters = larger

    def _remove(self, number: int) -> None:
        key = self.keys[number]
        if key is not None:
            del self._number[key]
            self.keys[number] = None
            self._counters.n_kept[number] = 0
            self._counters.spacing[number], self._counters.stride[number] = 0.0, 1
            self._counters.passed[number] = 0
            self._counters.depth[number] = DEPTH
            self._open.pop(key, None)
            self._free.append(number)

    def _make_room(self, coming: set[QpKey]) -> None:
        """Forget those that were not seen for longest, so that ``coming`` finds room."""
        excess = len(self) + len(coming - self._number.keys()) - self.most
        if excess > 0:
            last = self.last_seen()
            oldest = [number for number in np.argsort(last, kind="stable").tolist() if self.keys[number] is not None]
            for number in [number for number in oldest if self.keys[number] not in coming][:excess]:
                self._remove(number)
