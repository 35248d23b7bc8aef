"""Values in messages are cut, whatever their size."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import shorten

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda below: st.lists(below) | st.dictionaries(st.text() | st.integers(), below) | st.tuples(below, below),
)


@settings(deadline=None)
@given(value=values, limit=st.integers(4, 200))
def test_a_value_is_shown_as_its_representation_up_to_the_limit(value: Any, limit: int) -> None:
    whole = repr(value).replace("\n", " ")
    shown = shorten(value, limit)
    if len(whole) <= limit:
        assert shown == whole
    else:
        assert len(shown) == limit
        assert shown.endswith("...")


def test_values_that_memory_could_not_hold_as_text_are_shown() -> None:
    shared: Any = "x" * 1000
    for _ in range(100):
        shared = [shared] * 10
    assert shorten(shared) == "[" * 77 + "..."
    around: list[Any] = []
    around.append(around)
    assert shorten({"a": around}) == "{'a': " + "[" * 71 + "..."
    assert shorten(10**5000) == "an integer of 16610 bits"
