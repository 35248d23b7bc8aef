"""Limits on how long changes of the network delay the next state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.service.reconciler import LONGEST_REST, REST, pause

SECONDS = st.floats(0, 100)


@given(debounce=st.floats(0, 1), took=SECONDS, rested=SECONDS)
def test_steps_take_a_third_of_the_time_at_most_unless_they_are_very_long(debounce, took, rested) -> None:
    waits = pause(debounce, took, rested)
    assert debounce <= waits <= max(debounce, LONGEST_REST)
    assert waits + rested >= min(REST * took, LONGEST_REST)


@given(debounce=st.floats(0, 1), took=SECONDS)
def test_after_a_rest_the_first_change_waits_for_the_debounce_time_only(debounce, took) -> None:
    assert pause(debounce, took, LONGEST_REST) == debounce
