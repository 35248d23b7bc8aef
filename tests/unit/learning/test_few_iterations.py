"""How soon a job is learned, and how exactly, from each feeder: looks go on while its first iterations are sent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.iterations import agree, find_iterations, follow
from controller.learning.learned_job import LearnedJob
from controller.learning.life import LearnedLife
from controller.learning.marks import marks_of
from controller.learning.odometer import Odometers
from controller.learning.sightings import SightingBatch
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Draw, polled_counters, ring, sampled_packets

GB = 1_000_000_000
HOSTS, LOOK_SECONDS = 8, 2.0
RING = range(HOSTS)
ITERATIONS = 3
"""After which a job must be known."""
BYTES_OFF = {"host": 0.01, "sflow": 0.02}


def seen_by(feeder: str, period: float, duty: float, iterations: int, seed: int) -> SightingBatch:
    """Return what a feeder sees of a ring that computes first in each iteration, then sends."""
    rng = np.random.default_rng(seed)
    transfers = ring(RING, GB, (1 - duty) * period, 0.999 * period)
    draw = Draw(period, iterations, period_jitter=0.02, sampling=GB / 4096 / 150)
    if feeder == "sflow":
        return sampled_packets(transfers, draw, rng)
    return polled_counters(transfers, draw, 0.1, rng)


def looks(batch: SightingBatch, until: float) -> list[list[LearnedJob]]:
    """Return the learned jobs after each look; the last ones follow the last packet."""
    odometers, life, found = Odometers(), LearnedLife(), []
    for now in np.arange(LOOK_SECONDS, until + 4 * LOOK_SECONDS, LOOK_SECONDS).tolist():
        rows = (batch.at >= now - LOOK_SECONDS) & (batch.at < now)
        odometers.add(batch._replace(qp=batch.qp[rows], at=batch.at[rows], sent=batch.sent[rows]))
        life.step(infer(odometers, now - 600, np.random.default_rng(0)), now)
        found.append(list(life.jobs.values()))
    return found


def bytes_off(job: LearnedJob) -> float:
    return max(abs(size / GB - 1) for group in job.groups for size in group.bytes)


@pytest.mark.parametrize("feeder", ["host", "sflow"])
@given(st.floats(6, 14), st.floats(0.3, 0.65), st.integers(0, 2**32))
# Counters that are read regularly repeat at halves of the iterations, too.
@example(9.208984375, 0.3, 100783)
@settings(max_examples=examples(8, 45))
def test_a_job_is_known_in_time(feeder: str, period: float, duty: float, seed: int) -> None:
    batch = seen_by(feeder, period, duty, ITERATIONS, seed)
    (job,) = looks(batch, float(batch.at.max()))[-1]
    assert {(key.src, key.dst) for key in job.qps} == {(a, (a + 1) % HOSTS) for a in RING}
    # Of drawn samples, some are off by more than others: one in thousands by more than 2 %.
    assert bytes_off(job) <= 2 * BYTES_OFF[feeder]
    assert job.period_seconds == pytest.approx(period, rel=0.05)


def test_a_period_that_was_none_does_not_hide_the_true_one() -> None:
    seed, period = 1967, 13.88235940724902
    batch = seen_by("sflow", period, 0.5608025147590832, ITERATIONS, seed)
    found = looks(batch, float(batch.at.max()))
    # By chance, packets of the first burst look periodic.
    assert 0 < min(job.period_seconds for jobs in found for job in jobs if job.period_seconds) < period / 2
    assert found[-1][0].period_seconds == pytest.approx(period, rel=0.05)


@pytest.mark.parametrize("feeder", ["host", "sflow"])
def test_no_look_tells_iterations_that_are_none_and_the_last_one_is_exact(feeder: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        period, duty = float(rng.uniform(6, 14)), float(rng.uniform(0.3, 0.65))
        batch = seen_by(feeder, period, duty, ITERATIONS, seed)
        found = looks(batch, float(batch.at.max()))
        for job in (job for jobs in found for job in jobs if job.period_seconds):
            assert job.period_seconds == pytest.approx(period, rel=0.1)
            assert bytes_off(job) <= 0.05
        assert bytes_off(found[-1][0]) <= BYTES_OFF[feeder]


@given(st.integers(0, 2**32), st.floats(0.3, 0.7))
@settings(max_examples=examples(10, 60))
def test_iterations_agree_at_the_period_and_not_at_another(seed: int, duty: float) -> None:
    rng = np.random.default_rng(seed)
    odometers = Odometers()
    odometers.add(seen_by("host", 3.0, duty, 8, seed))
    marks = marks_of(odometers.samples(-1.0), rng)
    found = find_iterations(marks, rng)
    if found is not None:
        assert found.period_seconds == pytest.approx(3.0, rel=0.05)
    at = np.sort(marks.at)
    assert agree(follow(at, 3.0), marks)
    assert not agree(follow(at, 2.0), marks)
