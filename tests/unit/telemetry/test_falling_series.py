"""Series at falling resolution: what is kept of values, for how long, and in how many bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.telemetry.falling_series import LOADS, RESOLUTIONS, SPEEDS, FallingSeries, StoredForm

DAY = 24 * 3600.0
BYTES_PER_LINK, BYTES_PER_JOB = 684, 1332
# As docs/reference/api.md tells them.

SAMPLES = st.lists(st.tuples(st.floats(0.1, 4000), st.floats(0, 1.2) | st.just(float("nan"))), min_size=1, max_size=60)


@given(SAMPLES, st.floats(0, 2 * DAY), st.sampled_from([(LOADS, np.fmax), (SPEEDS, np.fmin)]))
def test_each_slot_has_the_mean_and_the_worst_of_its_samples(
    samples: list[tuple[float, float]], begin: float, kind: tuple[StoredForm, np.ufunc]
) -> None:
    scale, worst = kind
    series = FallingSeries(scale, worst)
    times = begin + np.cumsum([gap for gap, _ in samples])
    values = np.array([value for _, value in samples])
    for at, value in zip(times, values, strict=True):
        series.add(at, ["a"], np.array([value]))
    now = float(times[-1])
    for resolution, told in zip(RESOLUTIONS, series.read("a", now), strict=True):
        assert told.step == resolution.step
        last = now // resolution.step
        assert len(told.mean) == len(told.worst) == min(resolution.slots, last + 1)
        assert now - told.ends == pytest.approx((last + 1) * resolution.step)
        for k in range(len(told.mean)):
            number = last - len(told.mean) + 1 + k
            within = values[(times // resolution.step == number) & ~np.isnan(values)]
            if len(within) == 0:
                assert np.isnan(told.mean[k])
                assert np.isnan(told.worst[k])
                continue
            for stored, true in ((told.mean[k], within.mean()), (told.worst[k], worst.reduce(within))):
                assert true - 1e-5 <= stored <= true + 1 / scale.steps + 1e-5, "rounded up, to the next step at most"


def test_what_is_idle_is_zero_and_what_is_not_is_not() -> None:
    assert LOADS.read(LOADS.store(np.array([0.0, 1e-4, 0.5, 9.0, np.nan]))).tolist()[:3] == [0.0, 0.005, 0.5]


@given(st.lists(st.lists(st.sampled_from("abcd"), unique=True), min_size=1, max_size=6))
def test_a_key_keeps_its_values_while_others_come_and_go_and_loses_them_with_itself(rounds: list[list[str]]) -> None:
    series = FallingSeries(SPEEDS, np.fmin)
    since: dict[str, int] = {}
    for n, keys in enumerate(rounds):
        since = {key: since.get(key, n) for key in keys}
        series.add(10.0 * n, keys, np.array([0.1 * (ord(key) - ord("a") + 1) for key in keys]))
    now = 10.0 * (len(rounds) - 1)
    for key in "abcd":
        told = series.read(key, now)
        assert bool(told) == (key in since)
        if told:
            known = ~np.isnan(told[0].mean)
            assert known.tolist() == [n >= since[key] for n in range(len(rounds))]
            assert told[0].mean[known] == pytest.approx(0.1 * (ord(key) - ord("a") + 1), abs=1e-4)


def test_a_day_and_more_of_samples_takes_no_more_memory_than_the_first() -> None:
    links = clos(leaves=8, spines=4, hosts_per_leaf=4).link_ids
    series = FallingSeries(LOADS, np.fmax)
    values = np.linspace(0, 1, len(links))
    series.add(0.0, links, values)
    assert series.nbytes == BYTES_PER_LINK * len(links)
    speeds = FallingSeries(SPEEDS, np.fmin)
    speeds.add(0.0, ["a"], np.ones(1))
    assert speeds.nbytes == BYTES_PER_JOB
    first = series.nbytes
    for at in np.arange(0, 1.5 * DAY, 30):
        series.add(float(at), links, values)
    assert series.nbytes == first
    assert len(series.read(links[0], 1.5 * DAY)[2].mean) == DAY / 600
