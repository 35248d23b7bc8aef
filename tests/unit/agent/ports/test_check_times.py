"""The law of checks after an event: none is missing for longer than the event is ago, and in the end all are usual."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ports.check_times import FIRST_SECONDS, CheckTimes


@given(usual=st.floats(0.01, 1e5), before=st.integers(0, 5))
def test_checks_after_an_event_become_as_rare_as_before(usual: float, before: int) -> None:
    times = CheckTimes()
    assert [times.wait(usual) for _ in range(before)] == [usual] * before
    times.event()
    since, waits = 0.0, []
    while not waits or waits[-1] < usual:
        waits.append(times.wait(usual))
        assert 0 < waits[-1] <= min(since + FIRST_SECONDS, usual) * (1 + 1e-9)
        since += waits[-1]
    assert waits == sorted(waits)
    assert times.wait(usual) == usual


def test_a_second_event_begins_anew() -> None:
    times = CheckTimes()
    times.event()
    first = [times.wait(100.0) for _ in range(3)]
    times.event()
    assert [times.wait(100.0) for _ in range(3)] == first == pytest.approx([0.5, 1.0, 2.0])
