"""Laws of the imbalance measures."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.telemetry.imbalance import Imbalance, imbalance

loads = st.lists(st.integers(0, 10**12), min_size=1, max_size=40)


def close(one: Imbalance, other: Imbalance) -> bool:
    pairs = zip((one.fim, one.max_over_mean, one.cv), (other.fim, other.max_over_mean, other.cv), strict=True)
    return all(a == pytest.approx(b, rel=1e-9, abs=1e-9) for a, b in pairs)


@given(loads)
def test_the_measures_lie_within_their_bounds(load: list[int]) -> None:
    found, n = imbalance(load), len(load)
    assert 0 <= found.fim <= 2 * (n - 1) / n + 1e-9
    assert 1 <= found.max_over_mean <= n + 1e-9
    assert 0 <= found.cv <= (n - 1) ** 0.5 + 1e-9


@given(loads, st.floats(1e-6, 1e6))
def test_units_do_not_matter(load: list[int], factor: float) -> None:
    assert close(imbalance([factor * each for each in load]), imbalance(load))


@given(loads, st.randoms(use_true_random=False))
def test_the_order_of_links_does_not_matter(load: list[int], random: Random) -> None:
    shuffled = list(load)
    random.shuffle(shuffled)
    assert close(imbalance(shuffled), imbalance(load))


@given(loads, st.integers(2, 5))
def test_several_layers_of_a_kind_are_as_uneven_as_one(load: list[int], times: int) -> None:
    assert close(imbalance(load * times), imbalance(load))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_a_layer_is_even_exactly_if_all_links_carry_the_same(load: list[int]) -> None:
    found, even = imbalance(load), len(set(load)) == 1
    assert (found.fim < 1e-12) == even
    assert (found.cv < 1e-9) == even
    assert (found.max_over_mean < 1 + 1e-9) == even


@given(st.integers(2, 40), st.integers(1, 10**9))
def test_everything_on_one_link_is_the_worst_there_is(n: int, load: int) -> None:
    worst = Imbalance(2 * (n - 1) / n, float(n), (n - 1) ** 0.5)
    assert close(imbalance([load] + [0] * (n - 1)), worst)


@given(loads, st.data())
def test_moving_load_from_the_fullest_to_the_emptiest_link_makes_no_measure_worse(
    load: list[int], data: st.DataObject
) -> None:
    assume(max(load) > min(load))
    full, empty = load.index(max(load)), load.index(min(load))
    moved = list(load)
    part = data.draw(st.integers(1, max(1, (max(load) - min(load)) // 2)))
    assume(2 * part <= max(load) - min(load))
    moved[full] -= part
    moved[empty] += part
    before, after = imbalance(load), imbalance(moved)
    assert after.fim <= before.fim + 1e-9
    assert after.max_over_mean <= before.max_over_mean + 1e-9
    assert after.cv <= before.cv + 1e-9


def test_fim_is_the_mean_distance_from_the_mean_over_the_mean() -> None:
    load = np.array([3.0, 1.0, 0.0, 0.0])
    assert imbalance(load).fim == pytest.approx(np.mean(np.abs(load - load.mean())) / load.mean())


def test_a_layer_without_links_or_load_is_even() -> None:
    assert imbalance([]) == imbalance([0.0, 0.0]) == Imbalance(0.0, 1.0, 0.0)
