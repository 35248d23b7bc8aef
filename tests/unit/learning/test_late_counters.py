"""Counters that are a second late show no iterations that are none, and those that are there as well as others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.late_counters import LATE_SECONDS, LateCounters
from controller.learning.learned_job import LearnedJob
from controller.learning.odometer import Odometers
from controller.learning.sightings import QpKey, SightingBatch
from tests.unit.learning.drawn_sightings import tallies

KEY = QpKey(1, 2, 50000, 3)
HOSTS, GB = 8, 1_000_000_000
POLL, REFRESH, LOOK = 0.5, 1.0, 2.0


def late(burst: float, period: float, bursts: int, rng: np.random.Generator) -> SightingBatch:
    """Return readings of the counters of a ring, each of which is told anew about once a second."""
    end = bursts * period
    at = np.cumsum(POLL * rng.uniform(1, 1.3, int(end / POLL)))
    at = at[at < end]
    begins = period * np.arange(bursts)
    times = np.stack([begins, begins + burst], axis=1).ravel()
    values = np.stack([np.arange(bursts), np.arange(bursts) + 1], axis=1).ravel() * float(GB)
    sent = []
    for _ in range(HOSTS):
        told = np.cumsum(REFRESH * rng.uniform(0.8, 1.2, int(1.5 * end / REFRESH)))
        told = np.concatenate(([0.0], told - rng.uniform(0, REFRESH)))
        sent.append(np.interp(told[np.searchsorted(told, at, side="right") - 1], times, values))
    keys = tuple(QpKey(i, (i + 1) % HOSTS, 49152 + i, i) for i in range(HOSTS))
    return SightingBatch(
        keys,
        np.tile(np.arange(HOSTS, dtype=np.int32), len(at)),
        np.repeat(at, HOSTS),
        np.array(sent).T.astype(np.int64).ravel(),
    )


def looks(batch: SightingBatch, counters: LateCounters | None) -> list[list[LearnedJob]]:
    odometers, found, since = Odometers(), [], 0.0
    for now in np.arange(LOOK, float(batch.at.max()), LOOK).tolist():
        rows = (batch.at >= since) & (batch.at < now)
        part = batch._replace(qp=batch.qp[rows], at=batch.at[rows], sent=batch.sent[rows])
        odometers.add(part if counters is None else counters.certain(part))
        found.append(infer(odometers, now - 600, np.random.default_rng(0)))
        since = now
    return found


def test_a_long_burst_shows_no_iterations() -> None:
    shown = {True: 0, False: 0}
    for seed in range(8):
        batch = late(30.0, 30.0, 1, np.random.default_rng(seed))
        for leaves_out in shown:
            found = looks(batch, LateCounters() if leaves_out else None)
            shown[leaves_out] += sum(job.period_seconds > 0 for jobs in found for job in jobs)
    # As they are read, some of these counters show iterations that are none.
    assert shown[False] > 0
    assert shown[True] == 0


@pytest.mark.parametrize(("burst", "period"), [(5.0, 10.0), (2.0, 6.0), (10.0, 13.0)])
def test_iterations_that_pause_for_three_seconds_are_known(burst: float, period: float) -> None:
    for seed in range(4):
        batch = late(burst, period, 6, np.random.default_rng(seed))
        (job,) = looks(batch, LateCounters())[-1]
        assert len(job.qps) == HOSTS
        assert job.period_seconds == pytest.approx(period, rel=0.03)
        assert all(size == pytest.approx(GB, rel=0.02) for size in job.volumes.values())


@given(st.lists(st.tuples(st.floats(0.01, 2), st.integers(0, 1)), min_size=1, max_size=40), st.integers(1, 8))
def test_what_is_left_out_equals_a_reading_shortly_before(steps: list[tuple[float, int]], parts: int) -> None:
    at = np.cumsum([seconds for seconds, _ in steps]).tolist()
    sent = np.cumsum([rise for _, rise in steps]).tolist()
    rows = [(KEY, seconds, value) for seconds, value in zip(at, sent, strict=True)]
    counters, kept = LateCounters(), list[tuple[float, int]]()
    for part in np.array_split(np.arange(len(rows)), parts):
        if len(part):
            told = counters.certain(tallies([rows[i] for i in part]))
            kept += zip(told.at.tolist(), told.sent.tolist(), strict=True)
    changed = {value: min(seconds for seconds, other in zip(at, sent, strict=True) if other == value) for value in sent}
    assert kept == [
        (seconds, value)
        for seconds, value in zip(at, sent, strict=True)
        if seconds == changed[value] or seconds - changed[value] > LATE_SECONDS
    ]
