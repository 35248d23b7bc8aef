"""When a port counts as down because it comes and goes too often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.model.network_state import PortId
from controller.southbound.discovery.flapping import MOST, QUIET, WINDOW, Damper

A, B = PortId(1, 1), PortId(2, 1)
pauses = st.lists(st.floats(0.01, 2 * WINDOW), max_size=40)


def down_times(pauses: list[float]) -> list[float]:
    now, times = 0.0, []
    for pause in pauses:
        now += pause
        times.append(now)
    return times


@given(pauses=pauses)
def test_a_port_that_never_flaps_within_the_window_is_not_damped(pauses: list[float]) -> None:
    damper, times = Damper(), []
    for now in down_times(pauses):
        times.append(now)
        damper.changed(A, False, now)
        if A in damper.held(now):
            assert any(later - first <= WINDOW for first, later in zip(times, times[MOST:], strict=False))


@given(pauses=st.lists(st.floats(0.0, WINDOW / (MOST + 1)), min_size=MOST, max_size=MOST), start=st.floats(0.0, 1e6))
def test_once_too_often_within_the_window_and_it_is_held_at_once(pauses: list[float], start: float) -> None:
    damper = Damper()
    for now in [start, *(start + at for at in down_times(pauses))]:
        assert A not in damper.held(now)
        damper.changed(A, False, now)
    assert A in damper.held(now)


@given(pauses=pauses, last=st.booleans())
def test_whatever_happened_quiet_ends_it_and_another_port_is_never_concerned(pauses: list[float], last: bool) -> None:
    damper, now = Damper(), 0.0
    for now in down_times(pauses):
        damper.changed(A, False, now)
        damper.changed(A, True, now)
        assert B not in damper.held(now)
    damper.changed(A, last, now)
    assert damper.held(now + QUIET + 1e-6) == frozenset()


@given(count=st.integers(MOST + 1, 50))
def test_a_port_that_never_rests_stays_held(count: int) -> None:
    damper = Damper()
    for i in range(count):
        damper.changed(A, False, i * 0.9 * min(QUIET, WINDOW / (MOST + 1)))
    assert A in damper.held(count * 0.9 * min(QUIET, WINDOW / (MOST + 1)))


def test_a_switch_that_comes_back_begins_anew() -> None:
    damper = Damper()
    for _ in range(MOST + 1):
        damper.changed(A, False, 1.0)
    assert damper.held(1.0) == {A}
    damper.forget(1)
    assert damper.held(1.0) == frozenset()
