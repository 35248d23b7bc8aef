"""What discovery makes of events: who is where, and who clashes with whom."""

from __future__ import annotations

from types import SimpleNamespace

from controller import ryu_compat

ryu_compat.prepare()

from controller.model.observed import Location, PortId  # noqa: E402 (Ryu first)
from controller.southbound.openflow.discovery import GRACE, Discovery  # noqa: E402

A, B, UPLINK, FAR = PortId(1, 1), PortId(1, 2), PortId(1, 3), PortId(9, 1)


def port(number: int, *, up: bool = True) -> SimpleNamespace:
    return SimpleNamespace(port_no=number, config=0, state=0 if up else 1)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def connected() -> tuple[Discovery, Clock]:
    clock = Clock()
    discovery = Discovery(clock)
    discovery.switch_entered(1, [port(1), port(2), port(3), port(0xFFFFFFFE)])
    discovery.switch_entered(9, [port(1)])
    return discovery, clock


def test_two_hosts_with_one_address_are_reported_until_one_of_them_is_gone() -> None:
    discovery, _ = connected()
    assert discovery.heard("10.0.0.1", "aa", A)
    assert discovery.heard("10.0.0.1", "bb", B)
    assert not discovery.heard("10.0.0.1", "bb", B)
    assert discovery.snapshot().duplicates == {("10.0.0.1", "aa", "bb")}
    assert discovery.place("10.0.0.1") == Location("aa", A)
    discovery.port_changed(1, port(1, up=False))
    assert discovery.snapshot().duplicates == frozenset()
    assert discovery.heard("10.0.0.1", "bb", B)
    assert discovery.place("10.0.0.1") == Location("bb", B)
    discovery.port_changed(1, port(1))
    assert discovery.snapshot().duplicates == frozenset()


def test_a_port_that_leads_to_a_switch_has_no_hosts_even_while_discovery_packets_fail_to_pass() -> None:
    discovery, _ = connected()
    assert discovery.heard("10.0.0.7", "cc", UPLINK)
    assert discovery.link_up(UPLINK, FAR)
    assert discovery.place("10.0.0.7") is None
    assert discovery.link_down(UPLINK, FAR)
    assert not discovery.heard("10.0.0.7", "cc", UPLINK)
    assert discovery.edge_ports() == [A, B]
    discovery.port_changed(1, port(3, up=False))
    discovery.port_changed(1, port(3))
    assert discovery.heard("10.0.0.7", "cc", UPLINK)


def test_what_has_just_come_or_gone_is_told_apart_from_what_stays_away() -> None:
    discovery, clock = connected()
    assert discovery.snapshot().starting
    clock.now += GRACE + 1
    seen = discovery.snapshot()
    assert (seen.starting, seen.young, seen.lost) == (False, frozenset(), frozenset())
    discovery.switch_left(9)
    assert discovery.snapshot().lost == {9}
    assert FAR not in discovery.snapshot().ports
    clock.now += GRACE + 1
    assert discovery.snapshot().lost == frozenset()
    discovery.switch_entered(9, [port(1)])
    assert discovery.snapshot().young == {9}
    assert not discovery.snapshot().starting
