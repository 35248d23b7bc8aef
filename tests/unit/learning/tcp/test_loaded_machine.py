"""A loaded machine delays ranks, and delays and merges looks: jobs of TCP are learned with their bytes, and stay."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.counted_iterations import ENDED, ENDED_OPEN, counted_iterations
from controller.learning.infer import infer
from controller.learning.life import LEAST_SILENCE, PAUSING_PERIODS, LearnedLife
from controller.learning.odometer import Odometers, Samples
from controller.learning.sightings import QpKey, SightingBatch, tcp_key
from controller.model.fabric import FloatArray
from tests.unit.laws import examples
from tests.unit.learning.tcp.loaded_rings import Load, LoadedRing, looks, run

MB = 1_000_000
KNOWN = 6
"""Iterations after which a job must be known: three suffice where no pause between them is missed."""

loads = st.builds(Load, st.floats(0.0, 0.04), st.floats(0.0, 0.008), st.floats(0.3, 1.0))


@st.composite
def rings(draw: st.DrawFn) -> LoadedRing:
    """Draw a ring whose flows collide on hashed paths."""
    ranks = draw(st.integers(4, 8))
    slower = draw(st.lists(st.sampled_from([1, 1, 2, 2, 3]), min_size=ranks, max_size=ranks))
    seconds, computing = draw(st.floats(0.5, 4.0)), draw(st.floats(1.0, 2.0))
    return LoadedRing(range(ranks), draw(st.integers(2 * MB, 8 * MB)), seconds, tuple(slower), computing)


@given(rings(), loads, st.integers(0, 2**32 - 1))
@settings(max_examples=examples(6, 100))
def test_a_job_is_known_after_some_iterations_and_no_edge_vanishes(ring: LoadedRing, load: Load, seed: int) -> None:
    rng = np.random.default_rng(seed)
    curves = run(ring, KNOWN + 4, load, rng)
    edges = {tcp_key(*pair) for pair in ring.pairs}
    odometers, life, was_whole = Odometers(), LearnedLife(), False
    for now, batches in looks([(ring, curves)], float(curves.ends[-1]), load, rng):
        for batch in batches:
            odometers.add(batch)
        life.step(infer(odometers, now - 600, np.random.default_rng(0)), now, odometers.activity)
        learned = {key for job in life.jobs.values() for key in job.qps}
        assert learned <= edges
        was_whole |= learned == edges
        assert not was_whole or learned == edges, now
    (job,) = life.jobs.values()
    assert set(job.qps) == edges
    assert all(size == pytest.approx(ring.bytes, rel=0.02) for size in job.volumes.values())


def polled(at: FloatArray, sent: list[FloatArray]) -> Samples:
    """Return readings of counters, all at the same times."""
    return Samples(
        np.repeat(np.arange(len(sent), dtype=np.int32), len(at)),
        np.tile(at, len(sent)),
        np.concatenate(sent).astype(np.int64),
        np.zeros(len(at) * len(sent), dtype=np.bool_),
    )


@given(
    st.lists(st.tuples(st.floats(0.2, 10.0), st.floats(0.5, 0.7)), min_size=5, max_size=12),
    st.lists(st.integers(MB, 10**9), min_size=1, max_size=6),
)
def test_iterations_of_any_length_have_the_bytes_that_they_send(
    lengths: list[tuple[float, float]], sizes: list[int]
) -> None:
    """Each sends for any time. Pauses are alike: where every second one is longer, two iterations may be one."""
    times = np.cumsum(np.concatenate(([0.0], np.array(lengths).ravel())))
    steps = np.append(np.repeat(np.arange(len(lengths)), 2), len(lengths)) + np.append(np.tile([0, 1], len(lengths)), 0)
    at = np.unique(np.concatenate([np.arange(0.0, times[-1], 0.05), times]))
    progress = np.interp(at, times, steps)
    counted = counted_iterations(
        polled(at, [progress * size for size in sizes]), len(sizes), np.zeros(len(sizes), bool)
    )
    assert counted is not None
    assert counted.bytes == pytest.approx(sizes, rel=0.002)
    assert not counted.ended.any()


@pytest.mark.parametrize("is_open", [False, True])
@given(silent=st.integers(1, 18))
def test_a_connection_that_is_open_ends_after_more_silent_iterations(is_open: bool, silent: int) -> None:
    whole = 6 + silent
    at = np.arange(0.0, whole, 0.05)
    goes_on = np.floor(at) + np.minimum(2 * (at % 1.0), 1.0)
    stops = np.minimum(goes_on, 6.0)
    counted = counted_iterations(polled(at, [goes_on * MB * 5, stops * MB * 5]), 2, np.array([is_open, is_open]))
    if counted is None:
        # Older and newer iterations are as many.
        assert silent <= ENDED + 1
        return
    assert counted.bytes[0] == pytest.approx(5 * MB, rel=0.002)
    assert not counted.ended[0]
    # One more or less, because of the first and the last iteration only parts may have been seen. Of older iterations,
    # nothing may be known: then ``LearnedLife`` keeps those that are open.
    if silent < ENDED - 1:
        assert not counted.ended[1]
    if silent > (ENDED_OPEN if is_open else ENDED):
        assert counted.ended[1]


def learned(is_open: bool | None) -> tuple[Odometers, LearnedLife, frozenset[QpKey], float]:
    """Return a ring that was learned, whose connections are open or not, and the time of the last reading."""
    ring = LoadedRing(range(4), 5 * MB, 0.5, (1, 1, 1, 1), 1.0)
    rng = np.random.default_rng(0)
    curves = run(ring, 8, Load(), rng)
    odometers, life, now = Odometers(), LearnedLife(), 0.0
    keys = frozenset(tcp_key(*pair) for pair in ring.pairs)
    for now, batches in looks([(ring, curves)], float(curves.ends[-1]), Load(), rng):
        for batch in batches:
            odometers.add(batch._replace(open={} if is_open is None else dict.fromkeys(batch.keys, is_open)))
        life.step(infer(odometers, now - 600, rng), now, odometers.activity)
    assert {key for job in life.jobs.values() for key in job.qps} == keys
    return odometers, life, keys, now


@pytest.mark.parametrize(("is_open", "stays"), [(None, False), (False, False), (True, True)])
def test_a_silent_job_stays_while_all_of_its_connections_are_open(is_open: bool | None, stays: bool) -> None:
    odometers, life, keys, now = learned(is_open)
    last = {key: int(odometers.samples(0.0).sent.max()) for key in keys}
    for later in range(10, 200, 10):
        rows = tuple(sorted(keys))
        batch = SightingBatch(
            rows,
            np.arange(4, dtype=np.int32),
            np.full(4, now + later),
            np.array([last[key] for key in rows]),
            open={} if is_open is None else dict.fromkeys(rows, is_open),
        )
        odometers.add(batch)
        life.step([], now + later, odometers.activity)
    assert bool(life.jobs) == stays


@pytest.mark.parametrize(("is_open", "stays"), [(None, True), (True, True), (False, False)])
def test_a_look_without_some_edges_changes_a_job_only_if_their_connections_have_ended(
    is_open: bool | None, stays: bool
) -> None:
    odometers, life, keys, now = learned(is_open)
    (job,) = life.jobs.values()
    (group,) = job.groups
    part = dataclasses.replace(group, shape="flows", qps=group.qps[:2], bytes=group.bytes[:2])
    fewer = dataclasses.replace(job, groups=(part,), seen=now)
    life.step([fewer], now, odometers.activity)
    assert ({key for each in life.jobs.values() for key in each.qps} == keys) == stays
    # In the end, it is what sends.
    later = now + 1 + max(LEAST_SILENCE, PAUSING_PERIODS * job.period_seconds)
    life.step([dataclasses.replace(fewer, seen=later, begun=later)], later, odometers.activity)
    assert {key for each in life.jobs.values() for key in each.qps} == set(group.qps[:2])
