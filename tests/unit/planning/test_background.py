"""What plans count on beside traffic in no plan: changes with the load, and not with its noise."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.planning.background import STAYS, beside_background, by_link, on_links, stepped
from controller.planning.headroom import with_headroom
from controller.planning.remaining_capacity import STEPS
from tests.unit.strategies import fabrics

LOADS = st.floats(0, 1.5)
COUNTED = st.integers(0, STEPS - 1)


def step(load: float, counted: int, error: float = 0.0) -> int:
    return int(stepped(np.array([load]), np.array([error]), np.array([counted], dtype=np.int32))[0])


@given(LOADS, COUNTED, st.floats(0, 1))
def test_a_load_that_stays_changes_what_is_counted_once_at_most(load: float, counted: int, error: float) -> None:
    first = step(load, counted, error)
    assert step(load, first, error) == first
    assert 0 <= first < STEPS
    if error == 0:
        assert abs(min(load, (STEPS - 1) / STEPS) * STEPS - first) <= STAYS


@given(LOADS, st.lists(st.floats(-0.25, 0.25), max_size=10))
def test_noise_of_a_quarter_of_a_step_does_not_change_a_load_that_was_rounded(load: float, noise: list[float]) -> None:
    rounded = round(load * STEPS)
    if rounded >= STEPS:
        return
    assert step(load, rounded) == rounded
    for off in noise:
        assert step(max(load + off * 0.999 / STEPS, 0.0), rounded) == rounded


@given(COUNTED, LOADS)
def test_a_load_that_is_not_known_or_not_certain_changes_nothing(counted: int, load: float) -> None:
    assert step(float("nan"), counted) == counted
    assert step(load, counted, error=1.0) == counted


@given(fabrics(), st.floats(0, 0.9), st.data())
def test_every_link_keeps_what_neither_the_headroom_nor_the_load_takes(
    fabric: Fabric, headroom: float, data: st.DataObject
) -> None:
    steps = np.array(data.draw(st.lists(COUNTED, min_size=fabric.n_links, max_size=fabric.n_links)), dtype=np.int32)
    background = by_link(fabric, steps)
    assert np.array_equal(on_links(fabric, background), steps)
    left = beside_background(fabric, headroom, background)
    expected = fabric.link_gbps * np.minimum(1 - headroom, 1 - steps / STEPS)
    assert np.allclose(left.link_gbps, expected)
    assert (left.link_gbps > 0).all()
    if not background:
        assert left == with_headroom(fabric, headroom)
