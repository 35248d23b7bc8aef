"""A job that pauses for long, while it saves its state or is started again, is the job that it was, at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.life import LearnedLife
from controller.learning.odometer import Odometers
from controller.learning.restarts import idle_times, starts
from controller.learning.sightings import SightingBatch
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Draw, Transfers, polled_counters, ring, sampled_packets

LOOK_SECONDS = 2.0
SIZE = 400_000_000
MANY = 8
"""Iterations before a pause."""


def seen_by(feeder: str, transfers: Transfers, draw: Draw, rng: np.random.Generator) -> SightingBatch:
    if feeder == "sflow":
        return sampled_packets(transfers, draw, rng)
    return polled_counters(transfers, draw, 0.1, rng)


def look(odometers: Odometers, life: LearnedLife, batch: SightingBatch, begin: float, end: float) -> list[int]:
    """Return the number of edges of the job after each look, which follows what was seen until then."""
    edges = []
    for now in np.arange(begin, end, LOOK_SECONDS).tolist():
        rows = (batch.at >= now - LOOK_SECONDS) & (batch.at < now)
        odometers.add(batch._replace(qp=batch.qp[rows], at=batch.at[rows], sent=batch.sent[rows]))
        life.step(infer(odometers, now - 600, np.random.default_rng(0)), now)
        edges.append(sum(len(job.qps) for job in life.jobs.values()))
    return edges


@pytest.mark.parametrize("feeder", ["host", "sflow"])
@given(st.floats(3, 8), st.floats(0.3, 0.6), st.floats(6, 40), st.floats(0.02, 0.15), st.integers(0, 2**32))
@settings(max_examples=examples(8, 60))
def test_a_job_is_known_from_its_first_packets_after_a_pause_on(
    feeder: str, period: float, duty: float, pause: float, jitter: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    transfers = ring(range(4), SIZE, (1 - duty) * period, 0.999 * period)
    draw = Draw(period, MANY, period_jitter=jitter, sampling=SIZE / 4096 / 150)
    odometers, life = Odometers(), LearnedLife()
    before = seen_by(feeder, transfers, draw, rng)
    first_end = float(before.at.max()) + 2 * LOOK_SECONDS
    assert look(odometers, life, before, LOOK_SECONDS, first_end)[-1] == 4
    names = set(life.jobs)
    again = first_end + pause * period
    after = seen_by(feeder, transfers, Draw(period, 4, again, jitter, sampling=draw.sampling), rng)
    late = float(after.at.max()) + LOOK_SECONDS
    first_byte = again + (1 + jitter) * (1 - duty) * period
    look(odometers, life, after, again, first_byte + LOOK_SECONDS)
    edges = look(odometers, life, after, again + LOOK_SECONDS * np.ceil((first_byte - again) / LOOK_SECONDS + 1), late)
    # Neither an edge less in any look, nor another job.
    assert edges == [4] * len(edges)
    assert set(life.jobs) == names
    (job,) = life.jobs.values()
    assert job.period_seconds == pytest.approx(period, rel=0.2)


@given(st.integers(1, 3), st.integers(4, 12), st.floats(0.3, 0.7), st.floats(0, 0.3), st.integers(0, 2**32))
@settings(max_examples=examples(20, 200))
def test_iterations_of_equal_phases_are_no_restarts(
    phases: int, iterations: int, duty: float, jitter: float, seed: int
) -> None:
    """The pause of an iteration is longer than those between its phases, of which there are too few."""
    rng, period = np.random.default_rng(seed), 2.0
    each = duty * period / phases
    transfers = ring(range(4), SIZE, 0.0, each / 2)
    transfers = Transfers(
        transfers.keys,
        np.tile(transfers.qp, phases),
        np.tile(transfers.bytes, phases),
        np.repeat(np.arange(phases) * each, 4),
        np.repeat(np.arange(phases) * each + each / 2, 4),
    )
    odometers = Odometers()
    odometers.add(polled_counters(transfers, Draw(period, iterations, period_jitter=jitter), 0.05, rng))
    assert not len(starts(idle_times(odometers.samples(-1.0))))


@given(st.floats(0.0, 0.4), st.floats(5.0, 500.0), st.integers(0, 2**32))
@settings(max_examples=examples(20, 200))
def test_no_counter_rises_in_a_time_in_which_nobody_looked(spacing: float, pause: float, seed: int) -> None:
    """The last reading before it is kept, however few others are, also where a counter begins at 0 after it."""
    rng = np.random.default_rng(seed)
    transfers, odometers = ring(range(2), SIZE, 0.0, 1.0), Odometers()
    for begin in (0.0, 1.0 + pause):
        odometers.add(polled_counters(transfers, Draw(1.0, 1, begin), 0.1, rng))
        odometers.space(np.arange(2, dtype=np.int32), spacing)
    idle = idle_times(odometers.samples(-1.0))
    assert (idle.end - idle.begin).max() >= pause - 0.2
