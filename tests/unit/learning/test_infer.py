"""Jobs are found in what is seen of them: periods, volumes, phases and groups, and nothing that was not there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.iterations import period, period_of_gaps
from controller.learning.learned_job import LearnedJob
from controller.learning.marks import Marks
from controller.learning.odometer import DEPTH, Odometers
from controller.learning.sightings import QpKey
from controller.model.traffic import ANY_PORT
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import (
    Draw,
    Transfers,
    edges,
    exchange,
    first_sightings,
    polled_counters,
    ring,
    sampled_packets,
    together,
)

GB = 1_000_000_000
CLOSE = 0.02
"""Error of a volume, relative to others of the job."""


def spaced(transfers: Transfers, draw: Draw) -> Odometers:
    """Return odometers that keep as many sightings as if they had seen the job for some time."""
    odometers = Odometers()
    odometers.add(first_sightings(transfers, -1000.0))
    odometers.space(np.arange(len(transfers.keys), dtype=np.int32), draw.period_seconds * draw.iterations / DEPTH)
    return odometers


def learn(transfers: Transfers, draw: Draw, seed: int = 0) -> list[LearnedJob]:
    rng = np.random.default_rng(seed)
    odometers = spaced(transfers, draw)
    odometers.add(sampled_packets(transfers, draw, rng))
    return infer(odometers, -500.0, rng)


def volume(jobs: list[LearnedJob]) -> dict[QpKey, int]:
    return {key: size for job in jobs for group in job.groups for key, size in zip(group.qps, group.bytes, strict=True)}


def truth(transfers: Transfers) -> dict[QpKey, int]:
    total = np.bincount(transfers.qp, transfers.bytes, len(transfers.keys))
    return dict(zip(transfers.keys, total.astype(int).tolist(), strict=True))


def off(transfers: Transfers, jobs: list[LearnedJob]) -> float:
    """Return the largest relative error of a volume, where all volumes of the job may be scaled by one factor."""
    found, true = volume(jobs), truth(transfers)
    ratio = np.array([found[key] / true[key] for key in true])
    return float(np.abs(ratio / np.median(ratio) - 1).max())


def shapes(jobs: list[LearnedJob]) -> list[tuple[int, str, int]]:
    return [(group.phase, group.shape, len(group.qps)) for job in jobs for group in job.groups]


JOBS = {
    "ring": (ring(range(32), GB, 0.4, 0.8), 0.8, [(0, "ring", 32)]),
    "small ring": (ring(range(8), GB, 0.4, 0.8), 0.8, [(0, "ring", 8)]),
    "short burst": (ring(range(8), 4 * GB, 0.8, 1.0), 1.0, [(0, "ring", 8)]),
    "phases that look alike": (
        together(ring(range(16), GB, 0.2, 0.4), ring(range(16), GB, 0.6, 0.8, first_qp=1000)),
        0.8,
        [(0, "ring", 16), (1, "ring", 16)],
    ),
    "phases without a gap": (
        together(ring(range(16), GB, 0.2, 0.5), ring(range(16), 2 * GB, 0.5, 0.8, first_qp=1000)),
        0.8,
        [(0, "ring", 16), (1, "ring", 16)],
    ),
    "expert exchange and rings": (
        together(exchange(range(8), GB, 0.2, 0.5), ring(range(8), 4 * GB, 0.6, 0.9, first_qp=1000)),
        1.0,
        [(0, "direct", 56), (1, "ring", 8)],
    ),
    "rings of three sizes": (
        together(
            ring(range(8), GB, 0.2, 0.5),
            ring(range(4, 12), GB * 11 // 10, 0.2, 0.5, first_qp=1000),
            ring(range(8, 16), 2 * GB, 0.2, 0.5, first_qp=2000),
        ),
        0.8,
        [(0, "ring", 8)] * 3,
    ),
    "a pipeline": (edges([(i, i + 1) for i in range(15)], GB, 0.3, 0.6), 0.9, [(0, "flows", 15)]),
}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("seed", range(3))
def test_ten_iterations_sampled_at_one_in_ten_thousand_show_the_job(name: str, seed: int) -> None:
    transfers, period, groups = JOBS[name]
    jobs = learn(transfers, Draw(period, 10, bytes_jitter=0.01, sampling=10_000, loss=0.1), seed)
    assert [job.period_seconds for job in jobs] == [pytest.approx(period, rel=0.02)]
    assert sorted(shapes(jobs)) == sorted(groups)
    assert off(transfers, jobs) < CLOSE
    assert jobs[0].confidence > 0.95


@pytest.mark.parametrize("qps", [[0, 0], [0, 1], [0, 0, 1, 1]])
def test_marks_at_the_ends_of_the_observed_time_alone_show_no_period(qps: list[int]) -> None:
    marks = Marks(np.array(qps, dtype=np.int32), np.resize([0.0, 8.0], len(qps)), np.ones(len(qps)))
    assert period(marks, np.random.default_rng(0)) == 0


@given(st.floats(0.0, 0.35), st.integers(0, 2**32))
@settings(max_examples=examples(10, 60))
def test_confidence_is_less_by_what_bytes_vary_between_iterations(jitter: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    odometers = Odometers()
    odometers.add(polled_counters(ring(range(16), GB, 0.4, 0.8), Draw(1.0, 12, bytes_jitter=jitter), 0.05, rng))
    (job,) = infer(odometers, -1.0, rng)
    # The standard deviation of a uniform distribution, from twelve draws of each QP.
    assert 1 - job.confidence == pytest.approx(jitter / 3**0.5, rel=0.4, abs=0.01)


@pytest.mark.parametrize("name", JOBS)
def test_iterations_of_unequal_length_are_followed(name: str) -> None:
    transfers, period, groups = JOBS[name]
    jobs = learn(transfers, Draw(period, 10, period_jitter=0.05, sampling=20_000, loss=0.1))
    assert [job.period_seconds for job in jobs] == [pytest.approx(period, rel=0.05)]
    assert sorted(shapes(jobs)) == sorted(groups)
    assert off(transfers, jobs) < 2 * CLOSE


@settings(max_examples=examples(15, 90), deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(3, 24),
    st.floats(0.1, 20.0),
    st.floats(0.1, 0.9),
    st.integers(4, 12),
    st.sampled_from([1_000, 10_000, 100_000]),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_each_edge_that_was_seen_is_learned_and_no_other(
    seed: int, hosts: int, period: float, idle: float, iterations: int, sampling: int, loss: float
) -> None:
    transfers = ring(range(hosts), 4 * GB, idle * period, period)
    draw = Draw(period, iterations, sampling=sampling, loss=loss)
    rng = np.random.default_rng(seed)
    batch = sampled_packets(transfers, draw, rng)
    odometers = Odometers()
    odometers.add(batch)
    jobs = infer(odometers, -1.0, rng)
    twice = {transfers.keys[i] for i in np.flatnonzero(np.bincount(batch.qp, minlength=hosts) > 1)}
    found = volume(jobs).keys()
    assert found <= set(transfers.keys)
    if jobs:
        assert {key for key in twice if key in found} == twice


@pytest.mark.parametrize("every", [0.01, 0.05])
def test_polled_counters_show_the_job(every: float) -> None:
    transfers, period, groups = JOBS["expert exchange and rings"]
    rng = np.random.default_rng(1)
    odometers = spaced(transfers, Draw(period, 10))
    odometers.add(polled_counters(transfers, Draw(period, 10), every, rng))
    jobs = infer(odometers, -1.0, rng)
    assert sorted(shapes(jobs)) == sorted(groups)
    assert jobs[0].period_seconds == pytest.approx(period, rel=0.02)
    true = truth(transfers)
    for key, size in volume(jobs).items():
        assert size == pytest.approx(true[key], rel=CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_short_pauses_between_long_bursts_show_the_iterations(seed: int) -> None:
    transfers = ring(range(8), GB, 1.0, 7.0)
    rng = np.random.default_rng(seed)
    odometers = Odometers()
    odometers.add(sampled_packets(transfers, Draw(7.0, 3, period_jitter=0.03, sampling=5_000), rng))
    (job,) = infer(odometers, -1.0, rng)
    assert (job.qps, job.iterations) == (frozenset(transfers.keys), 3)
    assert job.period_seconds == pytest.approx(7.0, rel=0.05)


@given(st.integers(0, 2**32), st.integers(2, 2000))
@settings(deadline=None)
def test_marks_at_random_times_show_no_pauses(seed: int, number: int) -> None:
    assert period_of_gaps(np.sort(np.random.default_rng(seed).random(number)) * 100) == 0


def test_computing_times_are_the_idle_times_before_the_phases() -> None:
    transfers = together(ring(range(16), GB, 0.3, 0.5), ring(range(16), GB, 0.6, 1.0, first_qp=1000))
    rng = np.random.default_rng(1)
    odometers = spaced(transfers, Draw(1.0, 6))
    odometers.add(polled_counters(transfers, Draw(1.0, 10), 0.01, rng))
    (job,) = infer(odometers, -1.0, rng)
    assert job.compute_seconds == pytest.approx((0.3, 0.1), abs=0.06)
    document = job.document(lambda address: f"h{address}")
    assert document["compute_seconds"] == {"0": pytest.approx(0.3, abs=0.06), "1": pytest.approx(0.1, abs=0.06)}


def test_jobs_on_other_hosts_are_other_jobs() -> None:
    rng = np.random.default_rng(0)
    odometers = Odometers()
    odometers.add(sampled_packets(ring(range(8), GB, 0.4, 0.8), Draw(0.8, 10, sampling=20_000), rng))
    odometers.add(sampled_packets(ring(range(20, 36), GB, 0.4, 1.3), Draw(1.3, 6, sampling=20_000), rng))
    jobs = infer(odometers, -1.0, rng)
    assert sorted(len(job.qps) for job in jobs) == [8, 16]
    assert sorted(job.period_seconds for job in jobs) == [pytest.approx(0.8, rel=0.03), pytest.approx(1.3, rel=0.03)]


def test_a_job_that_sends_without_pause_has_no_period_and_its_volumes_are_rates() -> None:
    transfers = together(ring(range(8), GB, 0.0, 1.0), ring(range(8), 3 * GB, 0.0, 1.0, first_qp=500))
    jobs = learn(transfers, Draw(1.0, 10, sampling=10_000))
    assert [job.period_seconds for job in jobs] == [0.0]
    assert off(transfers, jobs) < CLOSE


def test_flows_of_pushed_jobs_are_not_learned() -> None:
    transfers = ring(range(8), GB, 0.4, 0.8)
    rng = np.random.default_rng(0)
    odometers = Odometers()
    odometers.add(sampled_packets(transfers, Draw(0.8, 10, sampling=10_000), rng))
    pushed = {(key.src, key.dst, key.udp_src) for key in transfers.keys[:4]}
    (job,) = infer(odometers, -1.0, rng, pushed)
    assert job.qps == frozenset(transfers.keys[4:])
    unknown_ports = {(key.src, key.dst, ANY_PORT) for key in transfers.keys}
    assert infer(odometers, -1.0, rng, unknown_ports) == []


def test_small_flows_are_no_part_of_a_job() -> None:
    transfers = together(ring(range(8), GB, 0.4, 0.8), ring(range(8), 100_000, 0.4, 0.8, first_qp=500))
    rng = np.random.default_rng(0)
    odometers = Odometers()
    odometers.add(polled_counters(transfers, Draw(0.8, 10), 0.05, rng))
    (job,) = infer(odometers, -1.0, rng)
    assert job.qps == frozenset(transfers.keys[:8])


def test_qps_from_a_host_to_itself_belong_to_no_job() -> None:
    inside = edges([(3, 3)], GB, 0.3, 0.7, first_qp=90)
    jobs = learn(together(ring(range(6), GB, 0.3, 0.7), inside), Draw(1.0, 8))
    assert len(jobs) == 1
    assert not jobs[0].qps & set(inside.keys)
    assert not learn(inside, Draw(1.0, 8))


@pytest.mark.parametrize("by", ["readings", "samples"])
def test_a_ring_of_another_order_is_learned_in_four_iterations(by: str) -> None:
    rng = np.random.default_rng(0)
    in_order, shuffled = list(range(16)), [*range(0, 16, 2), *range(1, 16, 2)]
    odometers = Odometers()
    for order, draw in ((in_order, Draw(0.8, 12)), (shuffled, Draw(0.8, 4, start=12 * 0.8))):
        pairs = [(a, order[(i + 1) % 16]) for i, a in enumerate(order)]
        transfers = edges(pairs, GB, 0.4, 0.8, first_qp=1000 * (order is shuffled))
        batch = (
            polled_counters(transfers, draw, 0.1, rng)
            if by == "readings"
            else sampled_packets(transfers, dataclasses.replace(draw, sampling=50_000), rng)
        )
        odometers.add(batch)
        (found,) = infer(odometers, -500.0, rng)
        assert found.qps == frozenset(transfers.keys)
        assert [group.shape for group in found.groups] == ["ring"]
