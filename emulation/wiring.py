"""The wiring of an emulated fabric: names and numbers of every switch, port and interface, as pure values.

A ``Fabric`` describes the intended network; a ``Wiring`` describes what is built, so it may also be wrong on purpose:
``swapped``, ``without`` and ``with_extra`` produce typical cabling mistakes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from controller.model.errors import InputError
from controller.model.fabric import Fabric, Host
from controller.model.ip_versions import check_ipv4

LONGEST_INTERFACE_NAME = 15
"""Linux: IFNAMSIZ is 16 with the final zero."""

MAX_PORT = 0xFEFF
"""Open vSwitch numbers its OpenFlow ports from 1 to 65279 (ovs-vswitchd.conf.db(5), ofport_request)."""

RESERVED_NAMES = frozenset({"lo", "all", "default", ".", "..", "ovs-netdev", "ovs-system"})


@dataclass(frozen=True, slots=True)
class Bridge:
    """A switch: its name in the fabric, its datapath id, and the name of its Open vSwitch bridge."""

    name: str
    dpid: int
    bridge: str


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host: its address (mask /8, no gateway), its hardware address, and the network in which it reaches others.

    Attributes:
        nic: the NIC of which it is a port, where NICs have several: they share a network namespace. Else its name.
        reaches: the prefixes of its network, which programs reach by this port unless they choose an address; only
            where NICs have several ports.
        bond: the NIC of which it is a port, where each port has a namespace of its own: where some of its ports share
            their addresses, which two interfaces of one namespace cannot have, and on routers, where each port has an
            agent. Programs of the NIC run in the namespace of its first port. ``nic`` and ``reaches`` are empty.
    """

    name: str
    ip: str
    mac: str
    network: int = 0
    nic: str = ""
    reaches: tuple[str, ...] = ()
    bond: str = ""

    @property
    def namespace(self) -> str:
        """Name of its network namespace."""
        return self.nic or self.name


@dataclass(frozen=True, slots=True)
class CableEnd:
    """One end of a cable. ``port`` is the port number of the switch, 0 on a host."""

    node: str
    port: int
    interface: str


@dataclass(frozen=True, slots=True)
class LabCable:
    """A cable, named as in the fabric (``leaf1-spine2:1``, ``h1-leaf1``); the host or leaf end is ``a``."""

    name: str
    a: CableEnd
    b: CableEnd
    gbps: float
    up: bool = True


@dataclass(frozen=True)
class Wiring:
    """The switches, hosts and cables that the lab builds.

    Attributes:
        switches: the OpenFlow switches.
        hosts: the hosts.
        wires: the cables.
        routers: names of the routers.
    """

    switches: tuple[Bridge, ...]
    hosts: tuple[HostAddress, ...]
    wires: tuple[LabCable, ...]
    routers: tuple[str, ...] = ()

    def wire(self, name: str) -> LabCable:
        """Return the cable of this name.

        Raises:
            InputError: no cable has this name.
        """
        for wire in self.wires:
            if wire.name == name:
                return wire
        raise InputError("no cable has this name", field="cable", value=name)

    def switch(self, name: str) -> Bridge:
        """Return the switch of this name.

        Raises:
            InputError: no switch has this name.
        """
        for switch in self.switches:
            if switch.name == name:
                return switch
        raise InputError("no switch has this name", field="switch", value=name)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the ordered pairs of hosts of one network; nothing joins two networks, nor the ports of one NIC."""
        return [
            (a.name, b.name)
            for a, b in itertools.permutations(self.hosts, 2)
            if a.network == b.network and a.namespace != b.namespace
        ]

    def ports(self, name: str) -> tuple[HostAddress, ...]:
        """Return the hosts of a network namespace, in the order of their interfaces: the ports of a NIC, or one host.

        Raises:
            InputError: there is no such NIC or host.
        """
        ports = tuple(host for host in self.hosts if host.namespace == name)
        if not ports:
            raise InputError("no host has this name", field="host", value=name)
        return ports

    def ends(self, node: str) -> tuple[CableEnd, ...]:
        """Return the ports of a switch, or the port of a host, in wiring order."""
        return tuple(end for wire in self.wires for end in (wire.a, wire.b) if end.node == node)

    def swapped(self, first: str, second: str) -> Wiring:
        """Two wires with their far (``b``) ends exchanged: the commonest mistake in a machine room."""
        one, two = self.wire(first), self.wire(second)
        exchanged = {first: dataclasses.replace(one, b=two.b), second: dataclasses.replace(two, b=one.b)}
        return dataclasses.replace(self, wires=tuple(exchanged.get(wire.name, wire) for wire in self.wires))

    def without(self, name: str) -> Wiring:
        """One wire never plugged in; its ports do not exist."""
        gone = self.wire(name)
        return dataclasses.replace(self, wires=tuple(wire for wire in self.wires if wire is not gone))

    def with_extra(self, a: tuple[str, int], b: tuple[str, int], *, gbps: float = 100.0) -> Wiring:
        """One wire too many, between two ports (switch, number) that are free; any two switches, also two leaves."""
        ends = []
        for name, port in (a, b):
            switch = self.switch(name)
            if any(end.port == port for end in self.ends(name)):
                raise InputError("the port is already used", field=name, value=port)
            ends.append(CableEnd(name, port, f"{switch.bridge}-eth{port}"))
        _check_names([*self._names(), *(end.interface for end in ends)])
        wire = LabCable(f"{a[0]}-{b[0]}:extra", ends[0], ends[1], gbps)
        return dataclasses.replace(self, wires=(*self.wires, wire))

    def _names(self) -> list[str]:
        """Every interface name in the switches' namespace."""
        switches = {switch.name for switch in self.switches}
        ends = (end for wire in self.wires for end in (wire.a, wire.b) if end.node in switches)
        return [switch.bridge for switch in self.switches] + [end.interface for end in ends]


def wire_up(fabric: Fabric) -> Wiring:
    """Return the wiring of a fabric of OpenFlow switches.

    Ports that the fabric leaves open get the lowest free numbers: a leaf's hosts first, then its uplinks in order.
    Bridges have their switch's name; if one is too long for Linux or not unique, all are ``sw1``, ``sw2``, ..

    Raises:
        InputError: a switch is a router, a host has an IPv6 address, or Open vSwitch does not have a port number.
    """
    switches = fabric.switches
    if fabric.routers:
        raise InputError("this lab has no routers", field="switches", value=fabric.routers[0].name)
    check_ipv4(fabric, "this lab")
    plugs = _plugs(fabric)
    bridges = {switch.name: switch.name for switch in switches}
    try:
        _check_names(_switch_names(bridges, plugs))
    except InputError:
        bridges = {switch.name: f"sw{i}" for i, switch in enumerate(switches, start=1)}
        _check_names(_switch_names(bridges, plugs))
    hosts = _hosts(fabric)
    interfaces = _interfaces(hosts)

    def end(plug: _Plug) -> CableEnd:
        if plug.node in bridges:
            return CableEnd(plug.node, plug.port, f"{bridges[plug.node]}-eth{plug.port}")
        return CableEnd(plug.node, 0, interfaces[plug.node])

    return Wiring(
        tuple(Bridge(switch.name, switch.dpid, bridges[switch.name]) for switch in switches),
        hosts,
        tuple(LabCable(name, end(a), end(b), gbps, up) for name, a, b, gbps, up in plugs),
    )


def wire_routers(fabric: Fabric, interface: Callable[[str, int], str]) -> Wiring:
    """Return the wiring of a fabric all of whose switches are routers, each in a network namespace of its own.

    Args:
        fabric: the fabric.
        interface: returns the name of the interface of a router's port, where the fabric does not give one.

    Raises:
        InputError: ports of NICs share their addresses, or a name of an interface is not possible.
    """
    if fabric.planes.bonds:
        reason = "is a port that shares its address: paths to such ports are not told apart on routers"
        raise InputError(reason, field="hosts", value=next(host.name for host in fabric.hosts if host.nic))
    hosts = tuple(
        dataclasses.replace(host, nic="", reaches=(), bond=host.nic) if host.nic else host for host in _hosts(fabric)
    )
    own = _interfaces(hosts)

    def end(plug: _Plug) -> CableEnd:
        if plug.node in own:
            return CableEnd(plug.node, 0, own[plug.node])
        return CableEnd(plug.node, plug.port, plug.interface or interface(plug.node, plug.port))

    wires = tuple(LabCable(name, end(a), end(b), gbps, up) for name, a, b, gbps, up in _plugs(fabric))
    for switch in fabric.switches:
        _check_names([e.interface for wire in wires for e in (wire.a, wire.b) if e.node == switch.name])
    return Wiring((), hosts, wires, tuple(switch.name for switch in fabric.switches))


class _Plug(NamedTuple):
    """An end of a cable: the port of a switch, which may have a name of its own, or a host (port 0)."""

    node: str
    port: int = 0
    interface: str | None = None


_Plugs = list[tuple[str, _Plug, _Plug, float, bool]]
"""Name, both ends, rate and state of each cable."""


def _plugs(fabric: Fabric) -> _Plugs:
    ports = _Ports(fabric)
    plugs: _Plugs = []
    for host in fabric.hosts:
        leaf = _Plug(host.leaf, ports.number(host.leaf, host.port), host.interface)
        plugs.append((f"{host.name}-{host.leaf}", _Plug(host.name), leaf, host.gbps, host.up))
    for name, cable in zip(fabric.cable_names, fabric.cables, strict=True):
        lower = _Plug(cable.lower, ports.number(cable.lower, cable.lower_port), cable.lower_interface)
        upper = _Plug(cable.upper, ports.number(cable.upper, cable.upper_port), cable.upper_interface)
        plugs.append((name, lower, upper, cable.gbps, cable.up))
    return plugs


def _hosts(fabric: Fabric) -> tuple[HostAddress, ...]:
    planes = fabric.planes
    network = planes.network_of_plane[planes.of_host].tolist()
    prefixes: dict[int, dict[str, None]] = {}
    for leaf, number in dict(zip(fabric.host_leaf.tolist(), network, strict=True)).items():
        prefixes.setdefault(number, {}).update((str(prefix), None) for prefix in fabric.leaf_prefixes[leaf])
    first = planes.address.tolist()
    bonds = {fabric.hosts[i].nic for i, shared in enumerate(first) if shared != i}

    def addressed(host: Host, number: int) -> HostAddress:
        if host.nic is None:
            return HostAddress(host.name, host.ip, host.mac, number)
        if host.nic in bonds:
            return HostAddress(host.name, host.ip, host.mac, number, bond=host.nic)
        return HostAddress(host.name, host.ip, host.mac, number, host.nic, tuple(prefixes[number]))

    return tuple(itertools.starmap(addressed, zip(fabric.hosts, network, strict=True)))


def _interfaces(hosts: Iterable[HostAddress]) -> dict[str, str]:
    """Return the name of each host's interface; those of a NIC are numbered."""
    used: dict[str, int] = {}
    interfaces: dict[str, str] = {}
    for host in hosts:
        number = used.get(host.namespace, 0)
        used[host.namespace] = number + 1
        # A NIC has its own namespace, so any name is possible, and the long one is clearer in a trace.
        name = f"{host.namespace}-eth{number}"
        interfaces[host.name] = name if len(name) <= LONGEST_INTERFACE_NAME else f"eth{number}"
    return interfaces


class _Ports:
    """Assignment of port numbers: the fabric's number if it has one, else the lowest unassigned one."""

    def __init__(self, fabric: Fabric) -> None:
        self.taken: dict[str, set[int]] = {}
        for host in fabric.hosts:
            self._claim(host.leaf, host.port)
        for cable in fabric.cables:
            self._claim(cable.lower, cable.lower_port)
            self._claim(cable.upper, cable.upper_port)

    def _claim(self, switch: str, port: int | None) -> None:
        taken = self.taken.setdefault(switch, set())
        if port is not None:
            if not 1 <= port <= MAX_PORT:
                raise InputError(f"Open vSwitch numbers ports from 1 to {MAX_PORT}", field=f"{switch} port", value=port)
            taken.add(port)

    def number(self, switch: str, port: int | None) -> int:
        if port is not None:
            return port
        taken = self.taken[switch]
        free = next(number for number in range(1, MAX_PORT + 1) if number not in taken)
        taken.add(free)
        return free


def _switch_names(bridges: dict[str, str], plugs: _Plugs) -> list[str]:
    ends = (end for _, a, b, _, _ in plugs for end in (a, b) if end.node in bridges)
    return [*bridges.values(), *(f"{bridges[end.node]}-eth{end.port}" for end in ends)]


def _check_names(names: list[str]) -> None:
    for name in names:
        if len(name) > LONGEST_INTERFACE_NAME:
            raise InputError(
                f"Linux interface names have at most {LONGEST_INTERFACE_NAME} characters", field="interface", value=name
            )
        if name in RESERVED_NAMES:
            raise InputError("Linux or Open vSwitch uses this name itself", field="interface", value=name)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError("two interfaces would have this name", field="interface", value=name)
        seen.add(name)
