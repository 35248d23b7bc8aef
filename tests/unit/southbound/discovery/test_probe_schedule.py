"""Every port has its turn, at a bounded rate; what is in doubt goes first."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.network_state import PortId
from controller.southbound.discovery.probe_schedule import (
    AWAY,
    BATCH,
    FAST_RATE,
    LEAST_STEADY,
    NEW,
    PERIOD,
    QUIET_EVERY,
    STEADY_RATE,
    ProbeSchedule,
)
from tests.unit.laws import examples

TICK = 0.05


def asked(schedule: ProbeSchedule, begin: float, seconds: float) -> Counter[PortId]:
    found: Counter[PortId] = Counter()
    for tick in range(1, round(seconds / TICK) + 1):
        for dpid, ports in schedule.due(begin + tick * TICK):
            assert 0 < len(ports) <= BATCH or not ports
            found.update(PortId(dpid, port) for port in ports)
    return found


@settings(deadline=None, max_examples=examples(15, 90))
@given(st.lists(st.integers(1, 150), min_size=1, max_size=12), st.integers(0, 3))
def test_each_port_has_its_turn_in_every_round(sizes: list[int], quiet: int) -> None:
    schedule = ProbeSchedule(0.0)
    ports = [PortId(dpid, port) for dpid, size in enumerate(sizes) for port in range(size)]
    for port in ports:
        schedule.add(port)
        schedule.quiet(port, port.port % 4 < quiet)
    rounds = 2 * QUIET_EVERY
    found = asked(schedule, 0.0, rounds * schedule.period)
    for port in ports:
        usual = rounds / QUIET_EVERY if port.port % 4 < quiet else rounds
        assert abs(found[port] - usual) <= 2


def test_a_round_of_many_ports_takes_longer_and_the_rate_stays() -> None:
    schedule = ProbeSchedule(0.0)
    for dpid in range(96):
        for port in range(100):
            schedule.add(PortId(dpid, port))
    assert schedule.period == 9600 / STEADY_RATE
    found = asked(schedule, 0.0, 2.0)
    assert abs(found.total() - 2 * STEADY_RATE) <= 2 * BATCH
    for dpid in range(90):
        schedule.remove_switch(dpid)
    assert schedule.period == PERIOD
    assert {port.switch for port in asked(schedule, 2.0, 3.0)} == set(range(90, 96))


def test_new_ports_are_asked_at_once_and_again_at_growing_intervals_within_a_budget() -> None:
    schedule = ProbeSchedule(0.0)
    many = [PortId(dpid, port) for dpid in range(100) for port in range(100)]
    for port in many:
        schedule.add(port)
        schedule.soon(port, 0.0, NEW)
    found = asked(schedule, 0.0, 1.0)
    assert found.total() <= FAST_RATE * 1.2 + STEADY_RATE
    assert len(asked(schedule, 1.0, 9.0)) == len(many)


def test_a_port_that_is_stable_or_removed_is_not_probed_before_its_turn() -> None:
    schedule = ProbeSchedule(0.0)
    calm, gone = PortId(1, 1), PortId(1, 2)
    for port in (calm, gone):
        schedule.add(port)
        schedule.soon(port, 0.0, (0.5, 0.7))
    schedule.calm(calm)
    schedule.remove(gone)
    assert asked(schedule, 0.0, 0.9) == {calm: 1}


def test_what_was_missed_in_a_pause_is_not_made_up_for() -> None:
    schedule = ProbeSchedule(0.0)
    for port in range(40):
        schedule.add(PortId(1, port))
    assert sum(len(ports) for _, ports in schedule.due(3600.0)) <= BATCH


def test_the_steady_round_slows_down_where_the_event_loop_is_late_and_catches_nothing_up() -> None:
    schedule = ProbeSchedule(0.0)
    for dpid in range(96):
        for port in range(100):
            schedule.add(PortId(dpid, port))
    late = 5 * TICK
    found = sum(len(ports) for turn in range(1, 41) for _, ports in schedule.due(turn * late))
    assert abs(found - 40 * TICK * STEADY_RATE) <= 2 * BATCH
    assert schedule.lag == AWAY * (late - TICK)
    rested = asked(schedule, 40 * late, 2.0)
    assert abs(rested.total() - 2 * STEADY_RATE) <= 2 * BATCH
    assert schedule.lag < TICK


@given(st.floats(1.0, 8.0))
def test_a_port_is_not_asked_again_before_its_first_packet_can_be_back(slower: float) -> None:
    schedule, at = ProbeSchedule(0.0), PortId(1000, 1)
    late = slower * TICK
    # Its regular turn comes after that of many others, seconds later.
    for port in range(10_000):
        schedule.add(PortId(1, port))
    schedule.add(at)
    schedule.due(late)
    schedule.soon(at, late, NEW)
    times = [turn * late for turn in range(2, 40) for dpid, _ in schedule.due(turn * late) if dpid == at.switch]
    assert times[0] == 2 * late
    assert times[1] - times[0] >= AWAY * (late - TICK)
    assert len(times) == len(NEW) or times[-1] > 39 * late - NEW[-1] - AWAY * late


def test_ports_with_an_open_question_go_before_most_of_the_steady_round() -> None:
    schedule = ProbeSchedule(0.0)
    many = [PortId(dpid, port) for dpid in range(100) for port in range(100)]
    for port in many:
        schedule.add(port)
    for port in many:
        schedule.soon(port, 0.0, (0.0,))
    found = asked(schedule, 0.0, 2.0)
    again = found.total() - len(found)
    assert set(found) <= set(many)
    assert found.total() <= 2 * (FAST_RATE + LEAST_STEADY * STEADY_RATE) + FAST_RATE / 10 + 2 * BATCH
    assert again <= 2 * LEAST_STEADY * STEADY_RATE + BATCH
