"""A job that repeats has the bytes of one iteration, or those of a second, and never those of several iterations.

So it is on loaded machines, where pauses are missed, readings come late, and iterations are of unequal length.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.equal_bytes import iterations_of, single_iterations
from controller.learning.infer import infer
from controller.learning.learned_job import LearnedJob
from controller.learning.life import LearnedLife
from controller.learning.odometer import Odometers, Samples
from controller.learning.sightings import QpKey
from controller.model.fabric import FloatArray
from controller.model.traffic import Int64Array
from tests.unit.laws import LONG, examples
from tests.unit.learning.repeating_jobs import (
    MB,
    Readings,
    RepeatingJob,
    Run,
    drawn_trace,
    keys_of,
    looks,
    run,
)

SEEDS = range(240) if LONG else (19, 20)
"""Traces; the few were learned with up to four and ten iterations in one, before values of counters were looked at."""
MOST_WRONG = 0.1
"""Part of the traces of the long form that may end with the bytes of another number of iterations."""


def sizes_of(jobs: list[LearnedJob]) -> dict[QpKey, int]:
    """Return the bytes of edges in an iteration, of jobs that have a period."""
    return {key: size for job in jobs if job.period_seconds for (_, key), size in job.volumes.items()}


def test_traces_of_busy_machines_end_with_the_bytes_of_one_iteration() -> None:
    wrong = []
    for seed in SEEDS:
        trace = drawn_trace(seed)
        odometers, life, now = Odometers(), LearnedLife(), trace.since
        for now, batches in looks(trace.runs, trace.readings, trace.since, trace.until, np.random.default_rng(seed)):
            for batch in batches:
                odometers.add(batch)
            life.step(infer(odometers, now - 600, np.random.default_rng(0)), now, odometers.activity)
        sizes, sent = sizes_of(list(life.jobs.values())), trace.bytes_at(now)
        assert {key for job in life.jobs.values() for key in job.qps} <= {
            k for each in trace.runs for k in each.job.keys
        }
        if any(abs(sizes[key] / sent[key] - 1) > 0.1 for key in sizes.keys() & sent.keys()):
            wrong.append(seed)
    assert len(wrong) <= (MOST_WRONG * len(SEEDS) if LONG else 0), wrong


def as_floats(sizes: Int64Array, times: float) -> FloatArray:
    """Return so many times the bytes."""
    return (sizes * times).astype(np.float64)


def read(each: Run, readings: Readings, rng: np.random.Generator) -> tuple[Samples, float]:
    """Return all readings of a job, as if all were kept, and the time of the last one."""
    odometers = Odometers()
    last = float(each.ends[-1])
    for _, batches in looks([each], readings, each.job.start, last, rng):
        for batch in batches:
            odometers.add(batch)
    return odometers.samples(-1.0), last


jobs = st.builds(
    lambda size, pause, send, jitter, stalls: RepeatingJob(
        keys_of("mpi", [(0, 1), (1, 2), (2, 0)]),
        np.full(3, size, dtype=np.int64),
        (pause,),
        (send,),
        (1.0,),
        jitter=jitter,
        stalls=stalls,
    ),
    st.integers(2 * MB, 500 * MB),
    st.floats(0.5, 2.0),
    st.floats(0.5, 2.0),
    st.floats(0.0, 0.5),
    st.sampled_from([0.0, 0.05, 0.2]),
)


@given(jobs, st.integers(14, 40), st.floats(0.1, 1.0), st.floats(1.0, 12.0), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(20, 400))
def test_values_of_counters_show_how_many_iterations_are_taken_for_one_or_nothing(
    job: RepeatingJob, iterations: int, part: float, times: float, seed: int
) -> None:
    """Readings are up to as far apart as pauses are long; ``times`` need not be whole."""
    rng = np.random.default_rng(seed)
    seconds = part * job.pause[0]
    samples, _ = read(run(job, iterations, rng), Readings(seconds, 0.2 * seconds, 0.1), rng)
    shown = single_iterations(samples, as_floats(job.bytes, times), rng)
    assert shown is None or shown.parts == pytest.approx(times, rel=0.03)
    if shown is not None:
        found = iterations_of(samples, as_floats(job.bytes, times / shown.parts), shown.since)
        assert found is None or found[1].bytes == pytest.approx(job.bytes, rel=0.05)


@given(jobs, st.floats(0.05, 0.2), st.floats(1.0, 12.0), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(5, 100))
def test_values_of_counters_that_are_read_often_show_it(
    job: RepeatingJob, part: float, times: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    samples, _ = read(run(job, 24, rng), Readings(part * job.pause[0]), rng)
    assert single_iterations(samples, as_floats(job.bytes, times), rng) is not None


@given(st.floats(0.05, 2.0), st.integers(20, 200), st.floats(0.0, 0.05), st.integers(0, 2**32 - 1))
def test_a_counter_that_rises_evenly_shows_no_iterations(seconds: float, number: int, noise: float, seed: int) -> None:
    """It is read regularly, and what it usually rises by is no iteration."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(seconds * (1 + noise * rng.uniform(-1, 1, number)))
    samples = Samples(
        np.zeros(number, np.int32), at, (at * 100 * MB).astype(np.int64), np.zeros(number, dtype=np.bool_)
    )
    assert single_iterations(samples, np.array([100.0 * MB]), rng) is None
