"""Wiring: the fabric's port numbers, interface names that Linux accepts, deliberate mistakes."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.files.clos import clos
from emulation.lab.several_ports import addressing
from emulation.wiring import LONGEST_INTERFACE_NAME, CableEnd, Wiring, wire_routers, wire_up
from tests.unit.strategies import with_routers

closes = st.builds(clos, st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), parallel=st.integers(1, 3))  # type: ignore[var-annotated]


@st.composite
def half_numbered(draw: st.DrawFn) -> Fabric:
    """Return a Clos fabric with some unknown port numbers."""
    fabric: Fabric = draw(closes)
    known = st.booleans()
    hosts = tuple(h if draw(known) else dataclasses.replace(h, port=None) for h in fabric.hosts)
    cables = tuple(
        dataclasses.replace(
            c,
            lower_port=c.lower_port if draw(known) else None,
            upper_port=c.upper_port if draw(known) else None,
        )
        for c in fabric.cables
    )
    return dataclasses.replace(fabric, hosts=hosts, cables=cables)


def switch_ends(wiring: Wiring) -> list[CableEnd]:
    return [end for switch in wiring.switches for end in wiring.ends(switch.name)]


@given(closes)
def test_every_cable_has_the_ends_and_ports_and_name_that_the_fabric_gives_it(fabric: Fabric) -> None:
    wiring = wire_up(fabric)
    assert [(switch.name, switch.dpid) for switch in wiring.switches] == [
        (switch.name, switch.dpid) for switch in fabric.switches
    ]
    assert [(host.name, host.ip, host.mac) for host in wiring.hosts] == [(h.name, h.ip, h.mac) for h in fabric.hosts]
    plugged = {wire.name: (wire.a.node, wire.a.port, wire.b.node, wire.b.port) for wire in wiring.wires}
    hosts = {f"{h.name}-{h.leaf}": (h.name, 0, h.leaf, h.port) for h in fabric.hosts}
    cables = {
        name: (c.lower, c.lower_port, c.upper, c.upper_port)
        for name, c in zip(fabric.cable_names, fabric.cables, strict=True)
    }
    assert plugged == hosts | cables


@given(half_numbered())
def test_no_two_cables_share_a_port_and_given_numbers_are_kept(fabric: Fabric) -> None:
    wiring = wire_up(fabric)
    used = Counter((end.node, end.port) for end in switch_ends(wiring))
    assert set(used.values()) <= {1}
    assert min((port for _, port in used), default=1) >= 1
    for host in fabric.hosts:
        assert host.port in (None, wiring.wire(f"{host.name}-{host.leaf}").b.port)
    for name, cable in zip(fabric.cable_names, fabric.cables, strict=True):
        wire = wiring.wire(name)
        assert cable.lower_port in (None, wire.a.port)
        assert cable.upper_port in (None, wire.b.port)


@given(closes)
def test_a_fabric_without_any_numbers_is_plugged_like_the_conventional_one(fabric: Fabric) -> None:
    bare = dataclasses.replace(
        fabric,
        hosts=tuple(dataclasses.replace(host, port=None) for host in fabric.hosts),
        cables=tuple(dataclasses.replace(cable, lower_port=None, upper_port=None) for cable in fabric.cables),
    )
    assert wire_up(bare) == wire_up(fabric)


names = st.text("ab.-_0e1th", min_size=1, max_size=20).filter(lambda name: name[0] != "-")


@given(st.lists(names, min_size=4, max_size=4, unique=True), st.integers(1, 60000))
def test_whatever_switches_are_called_linux_takes_every_interface_name(switches: list[str], port: int) -> None:
    leaves = tuple(Switch(name, i) for i, name in enumerate(switches[:2], start=1))
    spines = tuple(Switch(name, i) for i, name in enumerate(switches[2:], start=11))
    cables = tuple(
        Cable(leaf.name, spine.name, 1.0, lower_port=port + s, upper_port=port + n)
        for n, leaf in enumerate(leaves)
        for s, spine in enumerate(spines)
    )
    hosts = (Host("a-host-with-a-long-name", leaves[0].name, 1.0, "10.0.0.1", "02:00:00:00:00:01", "server"),)
    wiring = wire_up(Fabric((leaves, spines), hosts, cables))
    made = [switch.bridge for switch in wiring.switches] + [end.interface for end in switch_ends(wiring)]
    assert len(made) == len(set(made))
    assert all(0 < len(name) <= LONGEST_INTERFACE_NAME for name in made)
    assert {"lo", "ovs-netdev", ".", ".."}.isdisjoint(made)
    assert all(len(end.interface) <= LONGEST_INTERFACE_NAME for end in wiring.ends(hosts[0].name))


def test_a_switch_whose_name_is_another_ones_port_gets_a_name_of_ours() -> None:
    fabric = clos(1, 1, 1)
    clash = dataclasses.replace(
        fabric,
        layers=(fabric.leaves, (Switch("leaf1-eth2", 9),)),
        cables=(dataclasses.replace(fabric.cables[0], upper="leaf1-eth2"),),
    )
    assert [switch.bridge for switch in wire_up(clash).switches] == ["sw1", "sw2"]


def test_a_port_number_that_open_vswitch_does_not_have_is_refused() -> None:
    fabric = clos(1, 1, 1)
    cables = (dataclasses.replace(fabric.cables[0], lower_port=65280),)
    with pytest.raises(InputError, match="leaf1 port: 65280: Open vSwitch numbers ports"):
        wire_up(dataclasses.replace(fabric, cables=cables))


@given(closes.filter(lambda fabric: len(fabric.cables) > 1), st.data())
def test_swapping_two_cables_twice_is_no_change_and_once_uses_the_same_ports(
    fabric: Fabric, data: st.DataObject
) -> None:
    wiring = wire_up(fabric)
    first, second = data.draw(st.lists(st.sampled_from(fabric.cable_names), min_size=2, max_size=2, unique=True))
    swapped = wiring.swapped(first, second)
    assert swapped != wiring
    assert swapped.swapped(first, second) == wiring
    assert sorted(map(repr, switch_ends(swapped))) == sorted(map(repr, switch_ends(wiring)))
    assert (swapped.wire(first).a, swapped.wire(first).b) == (wiring.wire(first).a, wiring.wire(second).b)


def test_a_cable_left_out_has_no_ports() -> None:
    wiring = wire_up(clos(2, 2, 1)).without("leaf1-spine2")
    assert len(wiring.wires) == 2 + 4 - 1
    assert 3 not in {end.port for end in wiring.ends("leaf1")}
    with pytest.raises(InputError, match="no cable has this name"):
        wiring.wire("leaf1-spine2")


def test_an_extra_cable_may_join_any_two_switches_but_only_at_free_ports() -> None:
    wiring = wire_up(clos(2, 2, 1))
    wrong = wiring.with_extra(("leaf1", 9), ("leaf2", 9))
    assert {end.interface for end in wrong.ends("leaf1")} - {end.interface for end in wiring.ends("leaf1")} == {
        "leaf1-eth9"
    }
    with pytest.raises(InputError, match="the port is already used"):
        wiring.with_extra(("leaf1", 1), ("leaf2", 9))
    with pytest.raises(InputError, match="no switch has this name"):
        wiring.with_extra(("leaf7", 1), ("leaf2", 9))


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
def test_the_ports_of_a_nic_share_a_namespace_and_have_an_interface_and_a_plane_each(
    planes: int, leaves: int, spines: int, hosts: int
) -> None:
    fabric = clos(spines, leaves, hosts, planes=planes)
    wiring = wire_up(fabric)
    for nic in fabric.nic_names:
        ports = wiring.ports(nic)
        assert [port.network for port in ports] == list(range(planes))
        assert {port.namespace for port in ports} == {nic}
        ends = [end for port in ports for end in wiring.ends(port.name)]
        assert [end.interface for end in ends] == [f"{nic}-eth{number}" for number in range(planes)]
        prefixes = [prefix for port in ports for prefix in port.reaches]
        assert len(set(prefixes)) == len(prefixes) == planes * leaves
    reached = {frozenset(pair) for pair in wiring.pairs()}
    assert len(reached) == planes * (leaves * hosts) * (leaves * hosts - 1) // 2
    with pytest.raises(InputError, match="no host has this name"):
        wiring.ports("h1.p1")


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3))
def test_each_port_of_a_bond_has_a_namespace_of_its_own_with_the_address_of_all(
    planes: int, leaves: int, hosts: int
) -> None:
    fabric = clos(1, leaves, hosts, planes=planes, bond=True)
    wiring = wire_up(fabric)
    for host, station in zip(fabric.hosts, wiring.hosts, strict=True):
        assert (station.bond, station.namespace, station.ip, station.mac) == (host.nic, host.name, host.ip, host.mac)
        assert [end.interface for end in wiring.ends(host.name)] == [f"{host.name}-eth0"]
        assert addressing(wiring, host.name) == ""
    assert len(wiring.pairs()) == planes * (leaves * hosts) * (leaves * hosts - 1)


@given(closes)
def test_each_router_has_its_interfaces_in_a_namespace_of_its_own(fabric: Fabric) -> None:
    bridges, wiring = wire_up(fabric), wire_routers(fabric, lambda switch, port: f"eth{port}")
    assert wiring.routers == tuple(switch.name for switch in fabric.switches)
    assert (wiring.switches, wiring.hosts) == ((), bridges.hosts)
    for wire, other in zip(wiring.wires, bridges.wires, strict=True):
        assert (wire.name, wire.gbps, wire.up) == (other.name, other.gbps, other.up)
        for end, bridge in zip((wire.a, wire.b), (other.a, other.b), strict=True):
            assert (end.node, end.port) == (bridge.node, bridge.port)
            assert end.interface == (f"eth{end.port}" if end.port else bridge.interface)


def test_names_of_interfaces_that_the_fabric_gives_are_those_of_routers_and_must_be_possible() -> None:
    fabric = clos(1, 2, 1)
    cables = [dataclasses.replace(fabric.cables[0], lower_interface="Ethernet48"), *fabric.cables[1:]]
    named = dataclasses.replace(fabric, cables=tuple(cables))
    assert wire_routers(named, lambda switch, port: f"eth{port}").wire("leaf1-spine1").a.interface == "Ethernet48"
    cables[0] = dataclasses.replace(cables[0], lower_interface="eth1")
    with pytest.raises(InputError, match="two interfaces would have this name"):
        wire_routers(dataclasses.replace(fabric, cables=tuple(cables)), lambda switch, port: f"eth{port}")


def test_on_routers_each_port_of_a_nic_has_a_namespace_of_its_own_and_shared_addresses_are_refused() -> None:
    fabric = clos(1, 2, 2, planes=2)
    wiring = wire_routers(fabric, lambda switch, port: f"eth{port}")
    for host, station in zip(fabric.hosts, wiring.hosts, strict=True):
        assert (station.bond, station.namespace, station.ip) == (host.nic, host.name, host.ip)
    assert len(wiring.pairs()) == 2 * 4 * 3
    with pytest.raises(InputError, match=r"hosts: 'h1\.p1': is a port that shares its address"):
        wire_routers(clos(1, 2, 1, planes=2, bond=True), lambda switch, port: f"eth{port}")


def test_a_fabric_with_routers_has_no_bridges() -> None:
    with pytest.raises(InputError, match="this lab has no routers"):
        wire_up(with_routers(clos(1, 2, 1)))
