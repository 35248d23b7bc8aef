"""Bursts and idle times are predicted from the iterations that were seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.learned_job import LearnedGroup, LearnedJob, LearnedPhase
from controller.learning.odometer import DEPTH, Odometers
from controller.learning.prediction import MOST_UNSURE, UNSURE, bursts, next_idle
from controller.learning.sightings import QpKey
from tests.unit.learning.drawn_sightings import Draw, polled_counters, ring

GROUP = LearnedGroup(0, "ring", (QpKey(1, 2, 49152, 3),), (1000,))
NOW = 1000.0


def job(period: float, phases: list[tuple[float, float]], ago: float = 0.0) -> LearnedJob:
    begun = NOW - ago * period
    spans = tuple(LearnedPhase(begin * period, end * period) for begin, end in phases)
    return LearnedJob(period, 5, (GROUP,), (), 1.0, begun, begun, spans)


@st.composite
def jobs(draw: st.DrawFn) -> LearnedJob:
    edges = sorted(draw(st.lists(st.floats(0.05, 0.95), min_size=2, max_size=6, unique=True)))
    phases = list(zip(edges[::2], edges[1::2], strict=False))
    return job(draw(st.floats(0.1, 20)), phases, draw(st.floats(0, 3)))


@given(st.lists(jobs(), max_size=4), st.floats(0.01, 2), st.floats(0, 30))
def test_no_job_is_expected_to_send_in_an_idle_time(found: list[LearnedJob], least: float, within: float) -> None:
    idle = next_idle(found, NOW, within, least)
    if idle is None:
        return
    assert idle.seconds >= least - 1e-9
    assert idle.begin >= NOW
    for each in found:
        for burst in bursts(each, NOW, idle.end):
            assert burst.end <= idle.begin + 1e-9 or burst.begin >= idle.end - 1e-9


@given(jobs(), st.floats(0.01, 2))
def test_the_first_long_enough_pause_is_found(one: LearnedJob, least: float) -> None:
    within = 10.0
    found = list(bursts(one, NOW, NOW + within + least))
    ends = [NOW, *np.maximum.accumulate([burst.end for burst in found]).tolist()]
    begins = [burst.begin for burst in found]
    pauses = [begin - end for begin, end in zip(begins, ends, strict=False)]
    assume(all(abs(pause - least) > 1e-6 for pause in pauses))
    first = next((end for end, pause in zip(ends, pauses, strict=False) if pause > least), None)
    idle = next_idle([one], NOW, within, least)
    if first is not None:
        assert idle is not None
        assert idle.begin == pytest.approx(first)


@given(jobs(), st.floats(0.1, 5))
def test_bursts_come_in_order_and_each_contains_a_phase_of_the_job(one: LearnedJob, seconds: float) -> None:
    found = list(bursts(one, NOW, NOW + seconds))
    assert [burst.begin for burst in found] == sorted(burst.begin for burst in found)
    for burst in found:
        middle = (burst.begin + burst.end) / 2
        part = ((middle - one.begun) / one.period_seconds) % 1
        lengths = [(phase.begin / one.period_seconds, phase.end / one.period_seconds) for phase in one.phases]
        unsure = burst.seconds > (1 + 2 * MOST_UNSURE) * one.period_seconds
        assert unsure or any(begin - 1e-6 <= part <= end + 1e-6 for begin, end in lengths) or burst.end == NOW + seconds


def test_a_job_without_a_period_may_send_at_any_time() -> None:
    steady = LearnedJob(0.0, 0, (GROUP,), (), 0.5, NOW, NOW)
    assert next_idle([steady], NOW, 20.0, 0.1) is None
    assert list(bursts(steady, NOW, NOW + 20.0)) == [(NOW, NOW + 20.0)]
    assert next_idle([], NOW, 20.0, 0.1) is not None


def test_what_is_too_far_ahead_is_not_predicted() -> None:
    long_silent = job(1.0, [(0.4, 0.6)], ago=MOST_UNSURE / UNSURE + 2)
    assert next_idle([long_silent], NOW, 20.0, 0.05) is None


@given(st.floats(0.5, 4), st.integers(0, 3))
def test_the_pauses_of_a_drawn_job_are_found(period: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    transfers = ring(range(6), 10**9, 0.3 * period, 0.6 * period)
    draw = Draw(period, 8, start=NOW)
    odometers = Odometers()
    odometers.add(polled_counters(transfers, draw, period / 20, rng))
    odometers.space(np.arange(6, dtype=np.int32), period * draw.iterations / DEPTH)
    (found,) = infer(odometers, 0.0, rng)
    now = NOW + 8 * period
    idle = next_idle([found], now, 2 * period, 0.2 * period)
    assert idle is not None
    parts = [((at - NOW) / period) % 1 for at in np.linspace(idle.begin, idle.end, 9)]
    # Counters are read 20 times in an iteration.
    assert not any(0.3 + 0.06 < part < 0.6 - 0.06 for part in parts)
