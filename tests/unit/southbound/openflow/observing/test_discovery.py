"""Discovery's results for events: locations, and conflicts between switches."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller import ryu_compat

ryu_compat.prepare()

from controller.model.files.clos import clos  # noqa: E402
from controller.model.network_state import Location, PortId  # noqa: E402 (Ryu first)
from controller.southbound.discovery.awaited_switches import GRACE, HELD  # noqa: E402
from controller.southbound.discovery.flapping import MOST, QUIET  # noqa: E402
from controller.southbound.hosts.host_claims import COOL  # noqa: E402
from controller.southbound.openflow.observing.discovery import Discovery  # noqa: E402
from tests.unit.southbound.discovery_world import probe_of  # noqa: E402
from tests.unit.southbound.openflow.observing.clock_and_ports import Clock, port  # noqa: E402

A, B, UPLINK, FAR = PortId(1, 1), PortId(1, 2), PortId(1, 3), PortId(9, 1)


def link_up(discovery: Discovery, a: PortId, b: PortId) -> None:
    """A discovery packet goes out of a port and comes in by another."""
    stamp = discovery.evidence.sent(a.switch, [a.port], 100.0)
    discovery.arrived(b, probe_of(a, stamp))


def connected() -> tuple[Discovery, Clock]:
    clock = Clock()
    discovery = Discovery(clock)
    discovery.switch_entered(1, [port(1), port(2), port(3), port(0xFFFFFFFE)])
    discovery.switch_entered(9, [port(1)])
    return discovery, clock


def settled(discovery: Discovery, clock: Clock, answering: set[tuple[str, PortId]]) -> None:
    """Let time pass; those who answer for an address at a port do so."""
    for _ in range(40):
        probes, _ = discovery.hosts.due(clock.now, 100)
        for ip, at in probes:
            if (ip, at) in answering:
                discovery.hosts.answered(ip, f"mac of {at.port}", at, clock.now)
        clock.now += 0.1


def test_two_hosts_with_one_address_are_reported_and_the_first_keeps_it_until_its_port_is_down() -> None:
    discovery, clock = connected()
    discovery.hosts.heard("10.0.0.1", "aa", A, clock.now)
    settled(discovery, clock, {("10.0.0.1", A)})
    both = {("10.0.0.1", A), ("10.0.0.1", B)}
    discovery.hosts.heard("10.0.0.1", "bb", B, clock.now)
    settled(discovery, clock, both)
    assert {(c.kind, c.at, c.kept_at) for c in discovery.snapshot().clashes} == {("clash", B, A)}
    assert discovery.hosts.place("10.0.0.1") == Location("mac of 1", A)
    discovery.port_changed(1, port(1, up=False))
    clock.now += COOL
    discovery.hosts.heard("10.0.0.1", "bb", B, clock.now)
    settled(discovery, clock, both)
    assert discovery.snapshot().clashes == frozenset()
    assert discovery.snapshot().hosts == {"10.0.0.1": Location("mac of 2", B)}


def test_a_port_that_leads_to_a_switch_has_no_hosts_even_while_discovery_packets_fail_to_pass() -> None:
    discovery, clock = connected()
    discovery.hosts.heard("10.0.0.7", "cc", UPLINK, clock.now)
    settled(discovery, clock, {("10.0.0.7", UPLINK)})
    assert discovery.hosts.place("10.0.0.7") is not None
    link_up(discovery, UPLINK, FAR)
    assert discovery.snapshot().links == {UPLINK: FAR}
    assert discovery.hosts.place("10.0.0.7") is None
    assert not discovery.is_edge(UPLINK)
    assert discovery.edge_ports() == [A, B]
    discovery.port_changed(1, port(3, up=False))
    discovery.port_changed(1, port(3))
    assert discovery.is_edge(UPLINK)


def test_a_port_is_known_to_be_down_only_while_its_switch_is_connected() -> None:
    discovery, _ = connected()
    assert discovery.port_state(A) is True
    discovery.port_gone(1, 1)
    assert discovery.port_state(A) is False
    discovery.switch_left(1)
    assert discovery.port_state(A) is None
    assert discovery.port_state(B) is None


def test_recent_changes_are_distinguished_from_permanent_absence() -> None:
    discovery, clock = connected()
    assert discovery.snapshot().starting
    clock.now += GRACE + 1
    seen = discovery.snapshot()
    assert (seen.starting, seen.lost) == (False, frozenset())
    discovery.switch_left(9)
    assert discovery.snapshot().lost == {9}
    assert FAR not in discovery.snapshot().ports
    clock.now += GRACE + 1
    assert discovery.snapshot().lost == frozenset()
    discovery.switch_entered(9, [port(1)])
    assert not discovery.snapshot().starting


def test_a_start_waits_as_long_as_switches_come_and_longer_for_those_that_others_see_where_rules_are_held() -> None:
    for held in (False, True):
        clock = Clock()
        discovery = Discovery(clock, clos(2, 2, 1))
        for dpid in (1, 2, 65537):
            clock.now += GRACE - 0.5
            discovery.switch_entered(dpid, [port(number) for number in (1, 2, 3)])
            assert discovery.snapshot().starting
        if held:
            discovery.holds_rules()
        clock.now += GRACE
        # spine2 is not there, and the leaves' ports to it are up.
        assert discovery.snapshot().starting == held
        clock.now += HELD
        assert not discovery.snapshot().starting


def test_a_start_does_not_wait_for_a_switch_whose_cables_are_all_down() -> None:
    clock = Clock()
    discovery = Discovery(clock, clos(2, 2, 1))
    for dpid in (1, 2, 65537):
        discovery.switch_entered(dpid, [port(1), port(2), port(3, up=dpid == 65537)])
    discovery.holds_rules()
    clock.now += GRACE
    assert not discovery.snapshot().starting


def test_a_link_that_ends_at_a_port_of_a_host_in_the_file_moves_no_host() -> None:
    clock = Clock()
    discovery = Discovery(clock, clos(2, 2, 1))
    for dpid in (1, 2):
        discovery.switch_entered(dpid, [port(1), port(2), port(3)])
    discovery.hosts.heard("10.0.1.1", "aa", A, clock.now)
    settled(discovery, clock, {("10.0.1.1", A)})
    link_up(discovery, PortId(2, 2), A)
    assert discovery.snapshot().links == {}
    assert discovery.hosts.place("10.0.1.1") == Location("mac of 1", A)


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


def test_a_port_that_comes_back_with_another_speed_is_a_reported_change() -> None:
    discovery, _ = connected()
    assert discovery.port_changed(1, port(3, kbps=100_000_000))
    assert discovery.snapshot().gbps == {UPLINK: 100.0}
    assert not discovery.port_changed(1, port(3, kbps=100_000_000))
    assert discovery.port_changed(1, port(3, kbps=25_000_000))
    assert discovery.snapshot().gbps == {UPLINK: 25.0}
    assert discovery.port_changed(1, port(3, up=False, kbps=25_000_000))
    assert discovery.snapshot().gbps == {}


def test_ports_of_a_switch_that_is_not_in_the_fabric_file_take_no_part_in_discovery() -> None:
    fabric = clos(2, 2, 1)
    discovery = Discovery(Clock(), fabric)
    for switch in fabric.switches:
        discovery.switch_entered(switch.dpid, [port(number) for number in range(1, 4)])
    before = len(discovery.evidence.schedule)
    assert before
    discovery.switch_entered(0xBAD, [port(number) for number in range(1, 4000)])
    discovery.port_changed(0xBAD, port(4000))
    assert len(discovery.evidence.schedule) == before
    assert 0xBAD in discovery.snapshot().switches
    discovery.switch_left(0xBAD)
    assert 0xBAD not in discovery.snapshot().switches


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["up", "down", "gone", "link", "left", "entered"]),
            st.sampled_from([A, B, UPLINK, FAR]),
            st.sampled_from([A, B, UPLINK, FAR]),
        ),
        max_size=12,
    )
)
def test_edge_ports_are_always_those_that_are_up_and_lead_to_no_switch(events: list[tuple[str, Any, Any]]) -> None:
    discovery, _ = connected()
    for kind, at, other in events:
        if kind in ("up", "down"):
            discovery.port_changed(at.switch, port(at.port, up=kind == "up"))
        elif kind == "gone":
            discovery.port_gone(at.switch, at.port)
        elif kind == "link" and at.switch != other.switch and {at, other} <= discovery.snapshot().ports.keys():
            link_up(discovery, at, other)
        elif kind == "left":
            discovery.switch_left(at.switch)
        elif kind == "entered":
            discovery.switch_entered(at.switch, [port(at.port)])
        up = (each for each, is_up in discovery.snapshot().ports.items() if is_up)
        assert discovery.edge_ports() == sorted(each for each in up if discovery.is_edge(each))
        assert discovery.n_edge_ports == len(discovery.edge_ports())


@given(removed=st.booleans())
def test_a_port_leads_to_a_switch_from_the_first_discovery_packet_until_it_goes_down(removed: bool) -> None:
    discovery, _ = connected()
    assert not discovery.leads_to_switch(UPLINK)
    link_up(discovery, UPLINK, FAR)
    assert discovery.leads_to_switch(UPLINK)
    assert discovery.leads_to_switch(FAR)
    if removed:
        discovery.port_gone(1, UPLINK.port)
    else:
        discovery.port_changed(1, port(UPLINK.port, up=False))
    assert not discovery.leads_to_switch(UPLINK)
