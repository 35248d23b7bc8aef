"""Bytes of an iteration are right where most iterations were told apart rightly, wherever the others were cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.activity import BINS, Clusters
from controller.learning.iterations import JobIterations
from controller.learning.odometer import Samples
from controller.learning.volumes import volumes
from controller.model.fabric import FloatArray
from controller.model.traffic import Int64Array

READINGS = 20
"""Of a counter in an iteration; bytes rise evenly in the first half of it."""


def readings(sizes: list[int], iterations: int) -> Samples:
    """Return the counters of QPs that send so many bytes in each of some iterations of a second."""
    at = np.arange(iterations * READINGS) / READINGS
    whole, part = np.divmod(at + 1e-9, 1.0)
    rise = whole + np.minimum(2 * part, 1.0)
    sent = np.concatenate([np.round(rise * size).astype(np.int64) for size in sizes])
    qp = np.repeat(np.arange(len(sizes), dtype=np.int32), len(at))
    return Samples(qp, np.tile(at, len(sizes)), sent, np.zeros(len(sent), dtype=bool))


def of_counters(begins: FloatArray, samples: Samples, qps: int) -> FloatArray:
    """Return the bytes of an iteration of QPs that send at once, in the first half of each."""
    clusters = Clusters(
        np.zeros(qps, dtype=np.int32),
        np.where(np.arange(BINS) < BINS // 2, 2 / BINS, 0.0)[None],
        np.zeros(1, dtype=np.int32),
        np.zeros(1),
        np.full(1, 0.5),
    )
    return volumes(JobIterations(1.0, begins), clusters, samples, qps).bytes


@given(st.lists(st.integers(1_000_000, 10**10), min_size=1, max_size=4), st.integers(10, 40), st.data())
def test_a_few_wrong_begins_change_no_volume(sizes: list[int], iterations: int, data: st.DataObject) -> None:
    begins = np.arange(iterations, dtype=np.float64) + 0.9
    wrong = data.draw(st.sets(st.integers(1, iterations - 2), max_size=iterations // 6))
    # A begin that is missing makes one iteration of two; one that is added makes two of one.
    missing = data.draw(st.sets(st.sampled_from(sorted(wrong)))) if wrong else set()
    added = begins[sorted(wrong - missing)] - 0.3
    cut = np.sort(np.concatenate((np.delete(begins, sorted(missing)), added)))
    assert of_counters(cut, readings(sizes, iterations), len(sizes)) == pytest.approx(sizes, rel=1e-3)


@given(st.integers(4, 30), st.integers(10_000_000, 12_000_000))
def test_bytes_that_differ_in_each_iteration_are_their_mean(iterations: int, size: int) -> None:
    each: Int64Array = size + size // 20 * (np.arange(iterations, dtype=np.int64) % 3)
    rise = np.concatenate(([0], np.cumsum(each)))
    at = np.arange(iterations * READINGS) / READINGS
    k, part = np.divmod(at + 1e-9, 1.0)
    sent = rise[k.astype(int)] + np.round(np.minimum(2 * part, 1.0) * each[k.astype(int)]).astype(np.int64)
    samples = Samples(np.zeros(len(at), dtype=np.int32), at, sent, np.zeros(len(at), dtype=bool))
    assert of_counters(np.arange(0.9, iterations), samples, 1) == pytest.approx(each[1:].mean())
