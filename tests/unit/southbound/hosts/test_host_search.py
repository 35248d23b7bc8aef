"""Searches for hosts, and what is allowed per second."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from controller.model.network_state import PortId
from controller.southbound.hosts.host_search import AT_ONCE, ENDED_AT_ONCE, Searches
from controller.southbound.limits.allowance import Allowance, Allowances
from controller.southbound.limits.packet_load import LOUD, MEMORY, PacketLoad

PORTS = [PortId(1, n) for n in range(1, 6)]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([None, *PORTS[:2]]))), st.integers(1, 7))
def test_each_search_asks_each_port_once_and_an_asker_has_a_few_at_a_time(
    wanted: list[tuple[int, PortId | None]], room: int
) -> None:
    searches = Searches()
    begun = {f"10.0.0.{n}" for n, asker in wanted if searches.want(f"10.0.0.{n}", PORTS, asker)}
    assert len(searches) == len(begun)
    for asker in PORTS[:2]:
        assert sum(each == asker for each in searches._askers.values()) <= AT_ONCE
    asked = []
    while due := searches.due(room):
        assert len(due) <= room
        asked += due
    assert sorted(asked) == sorted((ip, port) for ip in begun for port in PORTS)
    assert len(searches) == 0
    assert searches._of == {}


def test_askers_take_turns_and_a_host_that_is_found_is_asked_for_no_more() -> None:
    searches = Searches()
    for n in range(AT_ONCE):
        searches.want(f"10.6.6.{n}", PORTS, PORTS[0])
    searches.want("10.0.0.1", PORTS, PORTS[1])
    first = searches.due(4)
    assert sum(ip == "10.0.0.1" for ip, _ in first) == 2
    searches.end("10.0.0.1")
    searches.end("10.0.0.1")
    assert all(ip != "10.0.0.1" for ip, _ in searches.due(100))


def test_searches_without_any_port_left_end_a_part_at_a_time() -> None:
    searches = Searches()
    for n in range(3 * ENDED_AT_ONCE):
        searches.want(str(n), [])
    searches.want("last", PORTS)
    left = [len(searches)]
    while len(searches) > 1:
        searches.due(5)
        left.append(len(searches))
    assert max(before - after for before, after in itertools.pairwise(left)) == ENDED_AT_ONCE
    assert [ip for ip, _ in searches.due(5)] == ["last"] * len(PORTS)


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5))
def test_an_allowance_is_never_exceeded(steps: list[float], rate: int) -> None:
    allowance, now, taken = Allowance(rate, 0.0), 0.0, 0
    for step in steps:
        now += step
        taken += allowance.take(now)
        assert taken <= rate + rate * now + 1e-6


@given(st.lists(st.integers(0, 50), max_size=200))
def test_allowances_by_key_forget_the_oldest_keys(keys: list[int]) -> None:
    allowances = Allowances(1.0, 1.0, most=10)
    first = [allowances.take(key, 0.0) for key in keys]
    assert len(allowances) <= 10
    assert first[:1] in ([], [True])
    if len(set(keys)) <= 10:
        assert sum(first) == len(set(keys))


def test_a_switch_that_sends_very_much_is_loud_for_a_moment() -> None:
    now = [5.0]
    load = PacketLoad(lambda: now[0])
    load.arrived(1, LOUD - 1)
    assert not load.loud(1)
    load.arrived(1)
    assert load.loud(1)
    assert not load.loud(2)
    now[0] += MEMORY + 1
    assert not load.loud(1)
