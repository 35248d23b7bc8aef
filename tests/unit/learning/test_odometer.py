"""Odometers count what QPs send, whatever part of it is seen, and in bounded memory."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.odometer import DEPTH, RESTART_STEPS, Odometers
from controller.learning.sightings import QpKey
from tests.unit.learning.drawn_sightings import PSN_WRAP, packets, tallies

KEY = QpKey(1, 2, 49152, 7)
BEFORE = -np.inf


@given(
    st.lists(st.integers(0, 2_000_000), min_size=1, max_size=DEPTH - 1),
    st.integers(0, PSN_WRAP - 1),
    st.lists(st.integers(0, DEPTH), max_size=5),
)
def test_bytes_are_those_between_first_and_last_sighting_however_they_come(
    steps: list[int], first: int, cuts: list[int]
) -> None:
    psn = (first + np.cumsum([0, *steps])).tolist()
    rows = [(KEY, float(i), value % PSN_WRAP) for i, value in enumerate(psn)]
    odometers = Odometers()
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for a, b in itertools.pairwise(bounds):
        if a < b:
            odometers.add(packets(rows[a:b], 4096))
    samples = odometers.samples(BEFORE)
    assert samples.sent.tolist() == [(value - psn[0]) * 4096 for value in psn]
    assert samples.at.tolist() == [float(i) for i in range(len(psn))]


@given(st.integers(DEPTH + 1, 20 * DEPTH), st.integers(0, 2**32))
def test_a_full_memory_spans_all_that_was_seen_until_it_is_told_what_to_keep(number: int, seed: int) -> None:
    at = np.cumsum(np.random.default_rng(seed).exponential(0.1, number))
    rows = [(KEY, float(seconds), 3 * i) for i, seconds in enumerate(at)]
    odometers = Odometers()
    odometers.add(packets(rows, 1))
    samples = odometers.samples(BEFORE)
    sent = dict(zip(at.tolist(), range(0, 3 * number, 3), strict=True))
    assert DEPTH // 4 <= len(samples.at) <= DEPTH
    assert samples.sent.tolist() == [sent[seconds] for seconds in samples.at.tolist()]
    assert (np.diff(samples.at) > 0).all()
    # No part of the time is missing but what is shorter than a few distances between those that are kept.
    widest = max(np.diff(np.concatenate(([at[0]], samples.at, [at[-1]]))))
    assert widest <= 8 * (at[-1] - at[0]) / (DEPTH // 2) + 8 * np.diff(at).max()
    odometers.space(np.array([0], dtype=np.int32), 0.0)
    odometers.add(packets([(KEY, float(at[-1] + i), 3 * number + i) for i in range(1, DEPTH + 1)], 1))
    assert len(odometers.samples(float(at[-1]) + 0.5).at) == DEPTH


@given(st.integers(8 * DEPTH, 100 * DEPTH))
def test_packets_that_are_kept_are_at_no_regular_distance_and_each_as_likely(number: int) -> None:
    """Otherwise the distance would show as a period of the job."""
    odometers = Odometers()
    for qp in range(16):
        odometers.add(packets([(QpKey(1, 2, 49152, qp), float(i), i) for i in range(number)], 1))
    samples = odometers.samples(BEFORE)
    gaps = np.diff(samples.at)[np.diff(samples.qp) == 0]
    assert 0.2 < gaps.std() / gaps.mean() < 0.7
    stride = 1 << int(np.ceil(np.log2(number / DEPTH)))
    place = samples.at[samples.at < number // stride * stride] % stride / stride
    assert abs(np.exp(2j * np.pi * place).mean()) < 0.25


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=30), st.integers(1, RESTART_STEPS // 1000))
def test_packets_that_are_sent_again_and_late_sightings_are_ignored(steps: list[int], back: int) -> None:
    psn = np.cumsum([RESTART_STEPS, *steps]).tolist()
    odometers = Odometers()
    odometers.add(packets([(KEY, float(i), value) for i, value in enumerate(psn)], 1))
    before = odometers.samples(BEFORE)
    again = [(KEY, len(psn) + 0.5, psn[-1] - back), (KEY, 0.5, psn[-1] + 5)]
    odometers.add(packets(again, 1))
    assert odometers.ignored == 2
    assert odometers.samples(BEFORE).sent.tolist() == before.sent.tolist()


def test_a_new_connection_of_the_same_name_goes_on_from_where_the_old_one_ended() -> None:
    odometers = Odometers()
    rows = [(KEY, 0.0, 10_000_000), (KEY, 1.0, 10_000_500), (KEY, 2.0, 3_000_000), (KEY, 3.0, 3_000_100)]
    odometers.add(packets(rows, 1))
    assert odometers.samples(BEFORE).sent.tolist() == [0, 500, 500, 600]


def test_of_an_idle_time_the_first_and_the_last_reading_are_kept() -> None:
    odometers = Odometers()
    odometers.add(tallies([(KEY, float(i), 0 if i < 3 else 100) for i in range(1000)]))
    samples = odometers.samples(BEFORE)
    assert samples.at.tolist() == [0.0, 2.0, 3.0, 999.0]
    assert samples.sent.tolist() == [0, 0, 100, 100]


@given(st.integers(DEPTH, 20 * DEPTH), st.integers(1, 20 * DEPTH), st.integers(0, 2**32))
def test_a_memory_that_kept_too_short_a_time_spans_all_that_comes_later(before: int, after: int, seed: int) -> None:
    at = np.cumsum(np.random.default_rng(seed).exponential(0.1, before + after))
    rows = [(KEY, float(seconds), i) for i, seconds in enumerate(at)]
    odometers = Odometers()
    odometers.add(packets(rows[:1], 1))
    odometers.space(np.array([0], dtype=np.int32), 0.0)
    odometers.add(packets(rows[1:before], 1))
    odometers.span_all(np.array([0], dtype=np.int32))
    odometers.add(packets(rows[before:], 1))
    seen = odometers.samples(BEFORE).at
    assert DEPTH // 4 <= len(seen) <= DEPTH
    assert seen[0] <= at[before - 1]
    odometers.span_all(np.array([0], dtype=np.int32))
    assert np.array_equal(odometers.samples(BEFORE).at, seen)


def test_fewer_sightings_are_kept_of_a_qp_that_is_seen_often() -> None:
    odometers = Odometers()
    odometers.add(packets([(KEY, 0.0, 0)], 1))
    odometers.space(np.array([0], dtype=np.int32), 1.0)
    odometers.add(packets([(KEY, i / 1000, i) for i in range(1, 20_001)], 1))
    samples = odometers.samples(BEFORE)
    assert 10 <= len(samples.at) <= 40
    gaps = np.diff(samples.at)
    assert (gaps >= 0.5).all()
    assert (gaps <= 1.6).all()
    assert samples.sent.tolist() == [round(at * 1000) for at in samples.at]


@given(st.integers(1, 20), st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=25), max_size=12))
def test_memory_holds_the_qps_seen_last_and_no_more(most: int, batches: list[list[int]]) -> None:
    odometers = Odometers(most=most)
    newest: dict[int, float] = {}
    for at, qps in enumerate(batches):
        chosen = sorted(set(qps))[:most]
        rows = [(QpKey(qp, qp + 1, 49152, qp), float(at), at) for qp in chosen]
        odometers.add(packets(rows, 1))
        newest |= dict.fromkeys(chosen, float(at))
    there = {key.src for key in odometers.keys if key is not None}
    assert len(odometers) == len(there) == min(most, len(newest))
    assert all(newest[gone] <= min(newest[qp] for qp in there) for gone in newest.keys() - there)


def test_what_was_silent_for_long_is_forgotten() -> None:
    odometers = Odometers()
    other = QpKey(3, 4, 49153, 8)
    odometers.add(packets([(KEY, 0.0, 0), (other, 5.0, 0)], 1))
    odometers.forget(before=1.0)
    assert [key for key in odometers.keys if key is not None] == [other]
    odometers.add(packets([(KEY, 6.0, 9)], 1))
    samples = odometers.samples(BEFORE)
    assert sorted(zip(samples.at.tolist(), samples.sent.tolist(), strict=True)) == [(5.0, 0), (6.0, 0)]
