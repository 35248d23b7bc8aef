"""One port's packets never use up what another port has for itself, and all together are bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.limits.notices import MOST, Notices
from controller.southbound.limits.packet_budget import (
    BACKLOG,
    CONTROLLER,
    GUARANTEED,
    PORT,
    SWITCH,
    WINDOW_SECONDS,
    ControllerBudget,
    PacketBudget,
    WatchBudget,
)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(1, 400)), max_size=30))
def test_within_a_window_every_port_has_its_own_and_a_share_of_the_rest(floods: list[tuple[int, int, int]]) -> None:
    everybody = ControllerBudget()
    switches = [PacketBudget(everybody) for _ in range(4)]
    for switch in switches:
        switch.refill(1.0)
        switch.refill(1.0 + WINDOW_SECONDS)
    taken: dict[tuple[int, int], int] = {}
    for number, port, count in floods:
        for _ in range(count):
            if switches[number].take(port):
                taken[number, port] = taken.get((number, port), 0) + 1
    for (number, port), count in taken.items():
        assert GUARANTEED <= count <= GUARANTEED + PORT, (number, port)
    for number in range(4):
        shared = sum(count - GUARANTEED for (of, _), count in taken.items() if of == number)
        assert shared <= SWITCH
    assert sum(count - GUARANTEED for count in taken.values()) <= CONTROLLER
    # A port that has sent nothing yet is heard, whatever all the others did; and all are in the next window.
    assert all(switch.take(77) for switch in switches)
    for switch in switches:
        switch.refill(1.0 + 2 * WINDOW_SECONDS)
    assert all(switch.take(port) for switch in switches for port in range(1, 7))


def test_what_is_dropped_is_counted() -> None:
    budget = PacketBudget(ControllerBudget())
    budget.refill(0.0)
    budget.refill(WINDOW_SECONDS)
    taken = sum(budget.take(1) for _ in range(10_000))
    assert taken == GUARANTEED + PORT
    assert budget.dropped == 10_000 - taken


@given(st.floats(0, 100))
def test_what_has_come_while_the_program_was_held_up_is_no_flood(seconds: float) -> None:
    """Each of 600 ports sends one packet a window; they are all read at once."""
    budget = PacketBudget(ControllerBudget())
    budget.refill(0.0)
    budget.refill(1.0)
    budget.refill(1.0 + seconds)
    windows = max(1, min(BACKLOG, int((1.0 + seconds - 1.0) / WINDOW_SECONDS)))
    assert all(budget.take(port) for _ in range(windows) for port in range(600))
    # And a flood is one all the same.
    assert sum(budget.take(1) for _ in range(10_000)) <= BACKLOG * (GUARANTEED + PORT)


def test_notices_are_shown_once_each_for_some_time_and_are_bounded() -> None:
    clock, changes = [0.0], list[float]()
    notices = Notices(lambda: clock[0], changed=lambda: changes.append(clock[0]), seconds=60.0)
    assert notices.give("a", "first")
    clock[0] = 30.0
    assert not notices.give("a", "the same with another number")
    assert notices.give("b", "second")
    assert notices.texts() == ["first", "second"]
    clock[0] = 89.0
    assert notices.texts() == ["first", "second"]
    clock[0] = 95.0
    assert notices.texts() == []
    assert changes == [0.0, 30.0]
    for n in range(1000):
        notices.give(n, "one of many")
    assert len(notices.texts()) == MOST


@given(st.integers(1, 50), st.lists(st.tuples(st.floats(0, 3), st.integers(0, 200)), max_size=20))
def test_packets_of_windows_are_taken_at_the_rate_of_their_budget_and_all_are_counted(
    per_second: int, bursts: list[tuple[float, int]]
) -> None:
    budget, now, sent = WatchBudget(per_second, 10.0), 10.0, 0
    for pause, count in bursts:
        now += pause
        sent += count
        taken = sum(budget.take(now) for _ in range(count))
        assert taken <= per_second
        assert budget.taken + budget.dropped == sent
        assert budget.taken <= per_second * (1 + now - 10.0) + 1e-6
