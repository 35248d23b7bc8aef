"""The slope of memory in a soak: that of most of the time, whatever single samples are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.running.soak import MemorySample, by_tenths, second_half, slope


def growing(mib_an_hour: float, count: int = 100) -> list[MemorySample]:
    """Samples of a memory that grows evenly, one each 10 s."""
    return [MemorySample(10.0 * n, 300 + mib_an_hour * 10.0 * n / 3600, n) for n in range(count)]


@given(st.floats(-50, 50), st.lists(st.integers(0, 99), max_size=15), st.floats(-1000, 1000))
def test_the_slope_is_that_of_an_even_growth_though_some_samples_are_far_off(
    mib_an_hour: float, off: list[int], by: float
) -> None:
    samples = growing(mib_an_hour)
    for n in off:
        samples[n] = replace(samples[n], mib=samples[n].mib + by)
    # More than half of the pairs are of samples that are right, and so is their median.
    assert slope(samples) == pytest.approx(mib_an_hour, abs=1e-6)


def test_logs_that_fill_in_the_first_half_are_no_growth() -> None:
    filling = [replace(each, mib=300 + min(each.seconds, 400.0) / 10) for each in growing(0.0)]
    assert slope(second_half(filling)) == 0
    assert slope(filling) > 0
    rows = by_tenths(filling)
    assert len(rows) == 10
    assert [growth > 0 for _, _, growth in rows] == [True] * 4 + [False] * 6
    assert rows[-1][:2] == (pytest.approx(16.5), 340.0)
