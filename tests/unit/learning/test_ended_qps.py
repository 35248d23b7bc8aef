"""QPs that end while others of their job go on leave it, and the job keeps its period for as long as it goes on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.learned_job import LearnedJob
from controller.learning.odometer import Odometers
from controller.learning.sightings import SightingBatch
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Draw, polled_counters, ring, sampled_packets

GB = 1_000_000_000
BEFORE = 8
"""Iterations until some QPs end."""
KNOWN = 4
"""Iterations after which that must be known."""


def told(batch: SightingBatch, ended: set[int], end: float) -> SightingBatch:
    """Return what is seen if some QPs send nothing from a time on; their counters are no longer reported."""
    rows = ~(np.isin(batch.qp, sorted(ended)) & (batch.at >= end))
    return batch._replace(qp=batch.qp[rows], at=batch.at[rows], sent=batch.sent[rows])


def looks(batch: SightingBatch, every: float, first: float) -> list[tuple[float, list[LearnedJob]]]:
    """Return what is found at each of some looks, with the time since the first one."""
    odometers, found, since = Odometers(), [], -np.inf
    for now in np.arange(first, float(batch.at.max()), every).tolist():
        rows = (batch.at >= since) & (batch.at < now)
        odometers.add(batch._replace(qp=batch.qp[rows], at=batch.at[rows], sent=batch.sent[rows]))
        found.append((now, infer(odometers, now - 600, np.random.default_rng(0))))
        since = now
    return found


@settings(max_examples=examples(8, 45), deadline=None)
@given(
    st.integers(4, 8),
    st.integers(1, 2),
    st.floats(0.5, 3),
    st.floats(0.3, 0.7),
    st.booleans(),
    st.integers(0, 2**16),
)
def test_a_ring_that_loses_qps_keeps_its_period(
    hosts: int, gone: int, period: float, idle: float, sampled: bool, seed: int
) -> None:
    # Samples of short rings that send most of the time do not always tell it (docs/explanation/learning.md).
    assume(not sampled or idle >= 0.45)
    rng = np.random.default_rng(seed)
    transfers = ring(range(hosts), GB, idle * period, period)
    draw = Draw(period, 60, 1000.0, period_jitter=0.02, bytes_jitter=0.01, sampling=5_000)
    batch = sampled_packets(transfers, draw, rng) if sampled else polled_counters(transfers, draw, period / 20, rng)
    ended, end = set(range(gone)), draw.start + BEFORE * period
    left = {key for i, key in enumerate(transfers.keys) if i not in ended}
    for now, jobs in looks(told(batch, ended, end), 2 * period, end):
        if now >= end + KNOWN * period:
            assert {key for job in jobs for key in job.qps} == left
            assert [job.period_seconds for job in jobs] == [pytest.approx(period, rel=0.05)] * len(jobs)
