"""Limits on how long changes of the network delay the next state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.service.reconciling import reconciler
from controller.service.reconciling.reconciler import LONGEST_REST, REST, pause
from tests.unit.service.world import World
from tests.unit.southbound.cabling.networks import seen

SECONDS = st.floats(0, 100)


@given(debounce=st.floats(0, 1), took=SECONDS, rested=SECONDS)
def test_steps_take_a_third_of_the_time_at_most_unless_they_are_very_long(
    debounce: float, took: float, rested: float
) -> None:
    waits = pause(debounce, took, rested)
    assert debounce <= waits <= max(debounce, LONGEST_REST)
    # A difference of floats is rounded.
    assert waits + rested >= min(REST * took, LONGEST_REST) - 1e-9


@given(debounce=st.floats(0, 1), took=SECONDS)
def test_after_a_rest_the_first_change_waits_for_the_debounce_time_only(debounce: float, took: float) -> None:
    assert pause(debounce, took, LONGEST_REST) == debounce


def test_a_failed_cable_is_reported_and_planned_without_during_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = clos(2, 2, 1)
    world = World(whole, seen(whole)).planned()
    monkeypatch.setattr(reconciler, "pause", lambda *_: 60.0)
    before = world.service.state.epoch
    # The first change ends the present wait for changes and begins a rest.
    world.southbound.network = seen(whole.without_links({"leaf1-spine1"}))
    world.southbound.network_changed.set()
    world.southbound.cable_failed.set()
    world.until(lambda: world.service.state.epoch > before)
    assert ("leaf1-spine1", False) in world.service.state.changes
