"""What discovery makes of events: who is where, and who clashes with whom."""

from __future__ import annotations

from types import SimpleNamespace

from controller import ryu_compat

ryu_compat.prepare()

from controller.model.observed import Location, PortId  # noqa: E402 (Ryu first)
from controller.southbound.flapping import MOST, QUIET  # noqa: E402
from controller.southbound.openflow.discovery import GRACE, Discovery  # noqa: E402

A, B, UPLINK, FAR = PortId(1, 1), PortId(1, 2), PortId(1, 3), PortId(9, 1)


def port(number: int, *, up: bool = True, kbps: int = 0) -> SimpleNamespace:
    return SimpleNamespace(port_no=number, config=0, state=0 if up else 1, curr_speed=kbps)


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


def test_a_port_that_comes_and_goes_too_often_counts_as_down_until_it_is_quiet() -> None:
    discovery, clock = connected()
    for _ in range(MOST):
        discovery.port_changed(1, port(3, up=False))
        discovery.port_changed(1, port(3))
        clock.now += 0.5
        assert discovery.snapshot().ports[UPLINK]
    discovery.port_changed(1, port(3, up=False))
    discovery.port_changed(1, port(3))
    assert discovery.flapping()
    assert not discovery.snapshot().ports[UPLINK]
    assert discovery.snapshot().flapping == {UPLINK}
    clock.now += QUIET
    assert discovery.snapshot().ports[UPLINK]
    assert not discovery.flapping()


def test_a_port_that_comes_back_with_another_speed_is_a_change_and_tells_it() -> None:
    discovery, _ = connected()
    assert discovery.port_changed(1, port(3, kbps=100_000_000))
    assert discovery.snapshot().gbps == {UPLINK: 100.0}
    assert not discovery.port_changed(1, port(3, kbps=100_000_000))
    assert discovery.port_changed(1, port(3, kbps=25_000_000))
    assert discovery.snapshot().gbps == {UPLINK: 25.0}
    assert discovery.port_changed(1, port(3, up=False, kbps=25_000_000))
    assert discovery.snapshot().gbps == {}
