"""Connections never exceed the limit, and no connected switch is dropped for another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.limits.connection_places import PATIENCE_SECONDS, Place, Places, files_for, party, places_for

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


class Floor:
    """Connections that leave when they are told to."""

    def __init__(self, most: int) -> None:
        self.places = Places(most)
        self.told: list[Place] = []
        self.inside: list[Place] = []

    def enter(self, address: str, now: float) -> Place | None:
        box: list[Place] = []
        place = self.places.enter(address, lambda reason: self.told.append(box[0]), now)
        if place is not None:
            box.append(place)
            self.inside.append(place)
        return place


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.sampled_from(("enter", "settle", "left")), st.integers(0, 30), st.floats(0, 1))),
)
def test_places_are_bounded_and_settled_connections_stay(most: int, steps: list[tuple[str, int, float]]) -> None:
    floor = Floor(most)
    now, settled = 0.0, list[Place]()
    for what, number, wait in steps:
        now += wait
        if what == "enter":
            floor.enter(ADDRESSES[number % 3], now)
        elif floor.inside:
            place = floor.inside[number % len(floor.inside)]
            if what == "settle":
                floor.places.settle(place)
                settled += [place] if place.settled else []
            else:
                floor.inside.remove(place)
                floor.places.left(place)
                settled = [each for each in settled if each is not place]
        floor.inside = [place for place in floor.inside if place not in floor.told]
        assert floor.places.taken == len(floor.inside) <= most
        assert floor.places.new <= floor.places.most_new
        for address in ADDRESSES:
            mine = [place for place in floor.inside if place.party == address and not place.settled]
            assert len(mine) <= floor.places.most_by_party
        assert not any(place in floor.told for place in settled)


@given(st.integers(20, 200), st.integers(0, 300))
def test_a_switch_that_comes_back_gets_in_however_many_connections_stand_idle(most: int, idle: int) -> None:
    floor = Floor(most)
    for n in range(idle):
        floor.enter("10.6.6.6", n * 1e-4)
    # At once from an address of its own, after a moment from the same one.
    assert floor.enter("10.0.0.1", 0.1) is not None
    assert floor.enter("10.6.6.6", PATIENCE_SECONDS + 0.2) is not None


def test_the_one_who_has_waited_longest_of_the_largest_crowd_makes_room() -> None:
    floor = Floor(10)
    first = floor.enter("10.0.0.1", 0.0)
    crowd = [floor.enter("10.6.6.6", 1.0 + n / 10) for n in range(3)]
    assert floor.enter("10.0.0.2", 2.0) is not None
    assert floor.enter("10.0.0.3", 3.0) is not None
    assert floor.told == [crowd[0]]
    assert first not in floor.told
    assert floor.places.give_up_oldest(4.0)
    assert floor.told == [crowd[0], first]


@given(st.integers(4, 100), st.integers(0, 300))
def test_switches_that_are_not_intended_leave_places_for_those_that_are(most: int, strangers: int) -> None:
    floor = Floor(most)
    for n in range(strangers):
        place = floor.enter("10.6.6.6", float(n))
        assert place is not None
        if not floor.places.settle(place, known=False):
            floor.places.left(place)
    assert floor.places.taken <= floor.places.most_unknown
    for n in range(most - floor.places.most_unknown):
        place = floor.enter(f"10.0.0.{n}", 1000.0 + n)
        assert place is not None
        assert floor.places.settle(place)
    assert floor.told == []


def test_a_host_is_one_party_however_many_addresses_of_ipv6_it_has() -> None:
    assert party("2001:db8::1") == party("2001:db8::ffff:2") != party("2001:db8:0:1::1")
    assert party("::ffff:10.0.0.1") == party("10.0.0.1") != party("10.0.0.2")
    assert party("fe80::1%eth0") == "fe80::/64"
    assert party("a local socket") == "a local socket"


def test_there_are_as_many_places_as_open_files_allow() -> None:
    assert places_for(0, 1 << 20) == 4096
    assert places_for(0, 1024) == 1024 // 2 - 64
    assert places_for(100, 1024) == 100
    assert places_for(100_000, 1024) == 448
    assert places_for(0, 20) == 16
    for wanted in (0, 1, 500, 100_000):
        assert places_for(wanted, files_for(wanted)) >= (wanted or 4096)
