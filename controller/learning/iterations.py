"""Iterations: how often a job repeats its communication, and when each iteration began.

The period is found by the H-test (de Jager, Raubenheimer and Swanepoel, A powerful test for weak periodic signals of
unknown light curve shape in sparse data, 1989): the power of the marks at a frequency and its harmonics, over as many
harmonics as add more than random marks would. Power is counted twice: over the QPs one by one, so that phases which
look alike but use other QPs are told apart, and over all of them, so that few marks a QP suffice.

The begin of each iteration is then followed through the marks: each lies in the longest idle time near the end of the
one before, so iterations may be of unequal length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from controller.learning.marks import TINY, Marks
from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.traffic import Int64Array

BINS = 2048
"""Parts of the observed time."""
FINER = 8
"""Frequencies that are looked at for each cycle over the observed time."""
MOST_MARKS = 20_000
MOST_QPS = 32
"""QPs that are looked at one by one."""
LEAST_SECONDS = 0.05
"""Of an iteration; the packets of a QP on a slow link are regular, too."""
FEWEST = 2.5
"""Iterations that must have been seen."""
HARMONICS = 32
"""The largest number of harmonics of a frequency that are summed. A period and its double then sum the same
frequencies, and ``PENALTY`` decides between them."""
NEAR_HARMONICS = 10
"""The same where the best frequency is refined."""
PENALTY = 2.5
"""The least power of a harmonic that is summed, in standard deviations of the power of random marks."""
CLEAR = 20.0
"""The least power of a period that is reported, in the same unit."""
PRIMES = (2, 3)
SHARE = 0.2
"""The lower of two frequencies is the job's if the harmonics that only it has hold this part of the power."""
SIGNIFICANT = 5.0
"""Power, in deviations of that of random marks, from which the parts are compared."""
COHERENT = 3
"""Harmonics that are compared so; where iterations are unequal, higher ones hold power everywhere."""
STEPS = 81
"""Frequencies that are looked at around the best one."""
RARE = 8.0
"""An idle time so many times as long as that between marks, and the logarithm of their number, is no chance."""
REGULAR = 0.25
"""Part by which the distances between idle times may differ from their median."""
ALIKE = 0.1
"""Part by which the time between two pauses may differ from the mean of others, if it is a whole iteration."""
SEARCH = 0.3
"""Part of the period before and after its expected end in which an iteration's end is sought; an idle time counts less,
the farther away it is: those between other phases may be as long."""

CELLS = 8
"""Parts of an iteration in which iterations are compared with each other."""
SILENT_PERIODS = 2.5
"""A QP that is silent for so many periods, while others send, has ended."""
UNLIKE = 2.0
"""Iterations do not agree if they differ so many times as much from each other as the parts of an iteration do ..."""
LEAST_UNLIKE = 0.08
"""... and by this part of the activity, squared, ..."""
CHANCE = 4.0
"""... and by so many standard deviations of random marks."""


class JobIterations(NamedTuple):
    """The iterations of a job that were seen.

    Attributes:
        period_seconds: their length.
        begins: [I + 1] seconds, each in an idle time; the last one is the end of the last iteration.
    """

    period_seconds: float
    begins: FloatArray

    @property
    def whole(self) -> int:
        """The number of whole iterations that were seen."""
        return len(self.begins) - 1

    def position(self, at: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the iteration of each time, counted from the first one seen, and the part of it that has passed."""
        begins = self.begins
        k = np.clip(np.searchsorted(begins, at, side="right") - 1, 0, self.whole - 1)
        part = (at - begins[k]) / (begins[k + 1] - begins[k])
        return k.astype(np.int32), np.clip(part, 0.0, np.nextafter(1.0, 0.0))


class _Points(NamedTuple):
    """Marks as points on [0, 1), by row of a QP.

    ``size``: each mark's part of its row, 1 on average, times Hann's window: an observation that begins and ends at
    once would show in all frequencies, and most in parts of the true one (Harris, On the use of windows for harmonic
    analysis with the discrete Fourier transform, 1978).
    """

    at: FloatArray
    row: IntArray
    size: FloatArray
    rows: int


def _points(marks: Marks, rng: np.random.Generator) -> _Points:
    span = float(np.nextafter(np.ptp(marks.at), np.inf))
    qps, row = np.unique(marks.qp, return_inverse=True)
    shuffled = rng.permutation(len(qps))[row].astype(np.int32)
    size = marks.weight / np.bincount(row, marks.weight)[row] * np.bincount(row)[row]
    at = (marks.at - marks.at.min()) / span
    return _Points(at, shuffled, size * _hann(at), len(qps))


def _hann(at: FloatArray) -> FloatArray:
    window: FloatArray = 1 - np.cos(2 * np.pi * at)
    return window


def _excess(by_row: FloatArray, pooled: FloatArray, points: _Points, rows: int) -> FloatArray:
    """Return the power over that of random marks, in its standard deviations."""
    few = points.row < rows
    one_by_one = (by_row / max((points.size[few] ** 2).sum(), TINY) - 1) * np.sqrt(rows)
    together = pooled / max((points.size**2).sum(), TINY) - 1
    excess: FloatArray = one_by_one + together
    return excess


def _spectrum(points: _Points) -> FloatArray:
    """Return the excess power at 0, 1 / FINER, 2 / FINER ... cycles over the observed time."""
    place = (points.at * BINS).astype(np.int64)
    rows = min(points.rows, MOST_QPS)
    few = np.flatnonzero(points.row < rows)
    table = np.bincount(points.row[few] * BINS + place[few], points.size[few], rows * BINS).reshape(rows, BINS)
    # Marks spread evenly, as the window shows them.
    even = _hann((np.arange(BINS) + 0.5) / BINS)
    table -= table.mean(axis=1, keepdims=True) * even
    pooled = np.bincount(place, points.size, BINS)
    pooled -= pooled.mean() * even
    by_row = (np.abs(np.fft.rfft(table, FINER * BINS, axis=1)) ** 2).sum(axis=0)
    return _excess(by_row, np.abs(np.fft.rfft(pooled, FINER * BINS)) ** 2, points, rows)


def _with_harmonics(excess: FloatArray, bins: Int64Array) -> FloatArray:
    """Return for each frequency the most that it and its harmonics exceed random marks by."""
    best = np.full(len(bins), -np.inf)
    total = np.zeros(len(bins))
    for harmonic in range(1, HARMONICS + 1):
        at = bins * harmonic
        total += np.where(at < len(excess), excess[np.minimum(at, len(excess) - 1)], 0.0) - PENALTY
        best = np.maximum(best, total)
    return best


def _even(cycles: FloatArray) -> NDArray[np.complex128]:
    """Return the sum, at frequencies, of marks spread evenly over the observed time, as the window shows them."""
    about: FloatArray = np.sinc(cycles) + np.sinc(cycles - 1) / 2 + np.sinc(cycles + 1) / 2
    turned: NDArray[np.complex128] = np.exp(1j * np.pi * cycles) * about
    return turned


@njit(cache=True, nogil=True)
def _sums(
    points: _Points, rows: int, cycles: FloatArray, harmonics: int
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return the sums [C, H, rows] of the marks of each of the first rows, and those [C, H] of all marks."""
    by_row = np.zeros((len(cycles), harmonics, rows), dtype=np.complex128)
    pooled = np.zeros((len(cycles), harmonics), dtype=np.complex128)
    for i in range(len(cycles)):
        for n in range(len(points.at)):
            angle = 2 * np.pi * cycles[i] * points.at[n]
            step = complex(np.cos(angle), np.sin(angle))
            wave = complex(points.size[n], 0.0)
            for h in range(harmonics):
                wave *= step
                pooled[i, h] += wave
                if points.row[n] < rows:
                    by_row[i, h, points.row[n]] += wave
    return by_row, pooled


def _power_at(points: _Points, cycles: FloatArray) -> FloatArray:
    """Return what ``_with_harmonics`` returns, exactly, for a few frequencies in cycles over the observed time."""
    rows = min(points.rows, MOST_QPS)
    few = points.row < rows
    even = _even(cycles[:, None] * np.arange(1, NEAR_HARMONICS + 1))
    by_row, pooled = _sums(points, rows, cycles, NEAR_HARMONICS)
    weight = np.bincount(points.row[few], points.size[few], rows)
    alone = (np.abs(by_row - even[:, :, None] * weight) ** 2).sum(axis=2)
    together = np.abs(pooled - even * points.size.sum()) ** 2
    excess = _excess(alone, together, points, rows) - PENALTY
    best: FloatArray = np.cumsum(excess, axis=1).max(axis=1)
    return best


def _own_share(points: _Points, cycles: float, times: int, coherent: int) -> float:
    """Return the part of the power, QP by QP, of the harmonics that a multiple lacks; NaN if there is too little."""
    rows = min(points.rows, MOST_QPS)
    few = points.row < rows
    chosen = _Points(points.at[few], points.row[few], points.size[few], points.rows)
    size = chosen.size
    nth: FloatArray = cycles * np.arange(1.0, coherent * times + 1)
    by_row, _ = _sums(chosen, rows, np.array([cycles]), len(nth))
    rest = by_row[0] - _even(nth)[:, None] * np.bincount(chosen.row, size, rows)
    power = (np.abs(rest) ** 2).sum(axis=1) - (size**2).sum()
    shared = np.arange(1, len(nth) + 1) % times == 0
    noise = (size**2).sum() * np.sqrt(len(nth) / rows)
    if power.sum() < SIGNIFICANT * noise:
        return np.nan
    return float(power[~shared].sum() / power.sum())


def _fundamental(points: _Points, cycles: float, primes: tuple[int, ...], coherent: int) -> float:
    """Return the frequency of which ``cycles`` is a multiple or a part."""
    lowest = _lowest(points, cycles, primes, coherent)
    if lowest < cycles:
        return lowest
    higher = next((p for p in primes if _own_share(points, cycles, p, coherent) < SHARE), 0)
    return cycles * higher if higher else cycles


def _lowest(points: _Points, cycles: float, primes: tuple[int, ...], coherent: int) -> float:
    """Return the lowest frequency whose own harmonics hold power, of those that ``cycles`` is a multiple of."""
    for prime in primes:
        if cycles / prime >= FEWEST and _own_share(points, cycles / prime, prime, coherent) > SHARE:
            return _lowest(points, cycles / prime, primes, coherent)
    return cycles


def period(marks: Marks, rng: np.random.Generator, primes: tuple[int, ...] = PRIMES, coherent: int = COHERENT) -> float:
    """Return the period in seconds; 0 if the marks show none.

    Args:
        marks: when QPs have sent.
        rng: draws what is looked at of very many marks.
        primes: so many times the frequency that shows most may be taken for it, or a part.
        coherent: harmonics that are compared to tell these; more, where marks repeat exactly.
    """
    span = float(np.ptp(marks.at))
    if span <= 0:
        return 0.0
    points = _points(marks, rng)
    excess = _spectrum(points)
    most = min(BINS / 8, span / LEAST_SECONDS)
    bins = np.arange(int(FINER * FEWEST), max(int(FINER * most), int(FINER * FEWEST) + 1), dtype=np.int64)
    power = _with_harmonics(excess, bins)
    best = int(np.argmax(power))
    if power[best] < CLEAR:
        return 0.0
    chosen = points
    if len(points.at) > MOST_MARKS // 10:
        some = rng.choice(len(points.at), MOST_MARKS // 10, replace=False)
        chosen = _Points(points.at[some], points.row[some], points.size[some], points.rows)
    near = (bins[best] + np.linspace(-1.5, 1.5, STEPS)) / FINER
    cycles = float(near[np.argmax(_power_at(chosen, near))])
    return span / _fundamental(chosen, cycles, primes, coherent)


def period_of_gaps(at: FloatArray) -> float:
    """Return the period in seconds by which marks at sorted times pause; 0 if they show none.

    It tells iterations with one phase and a short pause, of which the spectrum shows little.
    """
    if len(at) < 3:
        return 0.0
    gap = np.diff(at)
    # The median of exponential distances.
    usual = float(np.median(gap)) / np.log(2)
    long = np.flatnonzero(gap > usual * (RARE + np.log(len(at))))
    if len(long) < 2:
        return 0.0
    pause = at[long] + gap[long] / 2
    between = np.diff(pause)
    seconds = float(np.median(between))
    ends = max(float(pause[0] - at[0]), float(at[-1] - pause[-1]))
    regular = (np.abs(between / seconds - 1) < REGULAR).all() and ends < (1 + REGULAR) * seconds
    return seconds if regular and seconds >= LEAST_SECONDS and at[-1] - at[0] > (FEWEST - 0.5) * seconds else 0.0


def find_iterations(marks: Marks, rng: np.random.Generator, likely: float = 0.0) -> JobIterations | None:
    """Return the iterations of the marks of one component; ``None`` if no period shows.

    A period that is ``likely`` [s], unless 0, is the job's if its pauses show it.
    """
    if len(marks.at) > MOST_MARKS:
        marks = marks.of(np.sort(rng.choice(len(marks.at), MOST_MARKS, replace=False)))
    at = np.sort(marks.at)
    paused = period_of_gaps(at)
    if likely and abs(paused - likely) < REGULAR * likely:
        return _at_period(paused, at, marks)
    return _at_period(period(marks, rng), at, marks) or _at_period(paused, at, marks)


def _at_period(seconds: float, at: FloatArray, marks: Marks) -> JobIterations | None:
    """Return the iterations of a period, unless it is 0 or they differ."""
    iterations = follow(at, seconds) if seconds else None
    if iterations is not None:
        iterations = _as_paused(iterations, at)
    return iterations if iterations is not None and agree(iterations, marks) else None


def _as_paused(iterations: JobIterations, at: FloatArray) -> JobIterations:
    """Return the iterations as their pauses tell them; as they are, if the pauses may be chance.

    While one of a few iterations is being seen, the spectrum shows too short a period. And of the first and the last
    iteration only one pause was seen: if they send for as long as others, they begin and end as others do.
    """
    begins = iterations.begins
    inner = begins[(begins > at[0]) & (begins < at[-1])]
    if len(inner) < 2:
        return iterations
    next_mark = np.searchsorted(at, inner)
    stop, start = at[next_mark - 1], at[next_mark]
    usual = float(np.median(np.diff(at))) / np.log(2)
    if (start - stop < usual * (RARE + np.log(len(at)))).any():
        return iterations
    seconds = float((inner[-1] - inner[0]) / (len(inner) - 1))
    active = float((stop[1:] - start[:-1]).mean())
    first, end = inner[0] - seconds, inner[-1] + seconds
    if abs(stop[0] - at[0] - active) < ALIKE * active:
        first = at[0] - float((start - inner).mean())
    if abs(at[-1] - start[-1] - active) < ALIKE * active:
        end = at[-1] + float((inner - stop).mean())
    return JobIterations(seconds, np.array([first, *inner, end]))


def agree(iterations: JobIterations, marks: Marks) -> bool:
    """Return whether the iterations are alike, or so few marks cannot tell.

    A burst and a part of the next one look periodic in a spectrum, which compares marks with random ones: at any period
    of about their length. In such iterations, QPs send at other times in each. They are compared one by one, because
    they may send in turns, and together, because of each there may be few marks.
    """
    qps = np.unique(marks.qp)
    chosen = qps[np.linspace(0, len(qps) - 1, min(len(qps), MOST_QPS)).astype(np.int64)]
    mine = marks.of(np.isin(marks.qp, chosen))
    row = np.searchsorted(chosen, mine.qp)
    k, part = iterations.position(mine.at)
    shape = (len(chosen), iterations.whole, CELLS)
    size = mine.weight / np.bincount(row, mine.weight)[row] * np.bincount(row)[row]
    cell = np.ravel_multi_index((row, k, (part * CELLS).astype(np.int64)), shape)
    count = np.bincount(cell, size, np.prod(shape)).astype(np.float64).reshape(shape)
    # A QP is compared from its first mark on that is kept, and until it has ended: its next mark may be due only later.
    first, last = np.full(len(chosen), np.inf), np.full(len(chosen), -np.inf)
    np.minimum.at(first, row, mine.at)
    np.maximum.at(last, row, mine.at)
    last[last > marks.at.max() - SILENT_PERIODS * iterations.period_seconds] = marks.at.max()
    bounds = iterations.begins[:-1, None] + np.diff(iterations.begins)[:, None] * np.arange(CELLS + 1) / CELLS
    whole = (bounds[:, :-1] >= first[:, None, None]) & (bounds[:, 1:] <= last[:, None, None])
    # Those that are compared at the same times, together.
    masks, of_mask = np.unique(whole.reshape(len(chosen), -1), axis=0, return_inverse=True)
    together = np.zeros((len(masks), *count.shape[1:]))
    np.add.at(together, of_mask.reshape(-1), count)
    return _alike(count, whole) and _alike(together, masks.reshape(together.shape))


def _alike(count: FloatArray, whole: BoolArray) -> bool:
    """Return whether iterations are alike in their marks.

    Args:
        count: [R, I, CELLS] marks of each row, in each iteration, by its parts.
        whole: of the same shape, whether a row is compared there.
    """
    n = whole.sum(axis=1)
    compared = n >= 2
    n = np.where(compared, n, 2)
    mean = (count * whole).sum(axis=1) / n
    variance = ((count - mean[:, None, :]) ** 2 * whole).sum(axis=1) / (n - 1)
    of_row = (mean * n * compared).sum(axis=1) / np.maximum((n * compared).sum(axis=1), 1)
    # The variance of random marks is their mean.
    unlike = (n * (variance - mean))[compared].sum()
    chance = np.sqrt((n**2 * (2 * mean**2 / (n - 1) + mean / n))[compared].sum())
    alike = (n * (mean - of_row[:, None]) ** 2 - variance)[compared].sum()
    return bool(unlike < max(UNLIKE * alike, CHANCE * chance, LEAST_UNLIKE * (n * mean**2)[compared].sum()))


def follow(at: FloatArray, seconds: float) -> JobIterations:
    """Return the iterations in marks at given times, of about a given length each."""
    gap = np.diff(at)
    middle = at[:-1] + gap / 2
    # The longest idle time on average, at the same place in each iteration.
    first = int(np.argmax(gap * (np.abs(middle - middle.mean()) < seconds)))
    begins = [float(middle[first])]
    middle_one = begins[0]
    for direction in (1, -1):
        here = middle_one
        chain: list[float] = []
        while at[0] <= here + direction * seconds <= at[-1]:
            expected = here + direction * seconds
            low, high = np.searchsorted(middle, [expected - SEARCH * seconds, expected + SEARCH * seconds])
            if high > low:
                near = 1 - np.abs(middle[low:high] - expected) / (SEARCH * seconds)
                here = float(middle[low + int(np.argmax(gap[low:high] * near**2))])
            else:
                here = expected
            chain.append(here)
        begins = [*reversed(chain), *begins] if direction < 0 else [*begins, *chain]
    for end, direction in ((begins[0], -1), (begins[-1], 1)):
        outside = np.count_nonzero(at < end) if direction < 0 else np.count_nonzero(at > end)
        if outside:
            begins = [end - seconds, *begins] if direction < 0 else [*begins, end + seconds]
    return JobIterations(seconds, np.array(begins))
