"""A fabric on Mininet hosts and Open vSwitch switches: real packets, real OpenFlow, on one machine.

    isolate.enter()
    with Lab(fabric) as lab:
        lab.spawn("controller", ["ryu-manager", "--fabric", ..., "controller.app"])
        lab.wait_connected()
        assert lab.ping_all() == []

It brings its own Open vSwitch. ``emulation.lab.base`` has what it shares with ``emulation.lab.routers``, and
docs/how-to/lab.md has the whole story.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from controller.model.fabric import Fabric
from controller.southbound.srv6.host_underlay import host_underlay
from controller.southbound.srv6.router_configuration import CableAddresses
from emulation.errors import LabError
from emulation.lab.base import BaseLab
from emulation.lab.nodes import LabHost, LabSwitch
from emulation.lab.several_ports import addressing, routing
from emulation.private_ovs import DATAPATH, PrivateOvs
from emulation.processes import Child, Pauses
from emulation.runfile import delete_interfaces
from emulation.socket_buffers import enlarge_packet_buffers
from emulation.tables import FlowEntry, GroupEntry, ReadPortCounters, parse_flows, parse_groups, parse_ports
from emulation.wiring import CableEnd, Wiring, wire_up

HOST_MTU = 4500
"""RoCE's largest payload is 4,096 bytes; its headers fit beside it."""

SWITCH_MTU = 9000
"""A switch port must also hold the labels that segment routing pushes onto a full packet."""

CONNECT_SECONDS = 120.0
DEFAULT_CONTROLLER = ("127.0.0.1", 6653)


class Lab(BaseLab):
    """A running fabric of OpenFlow switches; the bridges begin to connect to the controller when it starts.

    Args:
        fabric: the fabric to build, with its names, addresses and ports; its ids are those of the bridges.
        controller: the controller that the bridges connect to: (host, port), or in Open vSwitch's notation
            (``unix:PATH``, ``ssl:HOST:PORT``).
        out: see ``BaseLab``.
        mbps_per_gbps: see ``BaseLab``.
        carriers: hosts have IPv6 addresses and a default route, so that agents can write paths into packets.
        wired_as: build the cables of this fabric, or this wiring, instead, so that the real fabric differs from the one
            that the controller knows.

    Raises:
        InputError: a link rate or port number is not possible, or a switch is a router.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        controller: tuple[str, int] | str = DEFAULT_CONTROLLER,
        out: str | Path = "out",
        mbps_per_gbps: float | None = None,
        carriers: bool = False,
        wired_as: Fabric | Wiring | None = None,
    ) -> None:
        """Check the wiring and the rates; nothing is created before ``start``."""
        real = fabric if wired_as is None else wired_as
        wiring = wire_up(real) if isinstance(real, Fabric) else real
        super().__init__(wiring, out=out, mbps_per_gbps=mbps_per_gbps)
        self.fabric = fabric
        self.controller = controller if isinstance(controller, str) else f"tcp:{controller[0]}:{controller[1]}"
        self._carriers = carriers
        self._switch_names = {switch.name for switch in self.wiring.switches}

    def _build(self) -> None:
        self.ovs = PrivateOvs(self._runfile.folder, self._spawn_daemon)
        self._plug()
        self._undo.callback(self.ovs.stop)
        self.ovs.start()
        self._undo.callback(self._stop_children)
        self.ovs.add_bridges(
            ((switch, self.wiring.ends(switch.name)) for switch in self.wiring.switches), self.controller
        )
        nodes = (*self._switch_names, *(station.name for station in self.wiring.hosts))
        # After the bridges, as Open vSwitch clears the queues of a port.
        self._shape(map(self.wiring.ends, nodes))
        enlarge_packet_buffers(self.ovs.daemon.pid)

    def prepare_for_load(self) -> None:
        """Enlarge all buffers of the switches: each opens the socket by which it sends when it first sends."""
        enlarge_packet_buffers(self.ovs.daemon.pid)

    # -- building --------------------------------------------------------------------------------------------

    def _plug(self) -> None:
        """Hosts, switches and cables, as Mininet nodes and links."""
        self._add_hosts()
        for switch in self.wiring.switches:
            self._add_node(self.net.addSwitch, switch.name, cls=LabSwitch, switch=switch, ovs=self.ovs)
        ends = (end for wire in self.wiring.wires for end in (wire.a, wire.b))
        switch_ends = [end for end in ends if end.node in self._switch_names]
        # Open vSwitch's own interfaces outlive it: it makes them persistent.
        made = [*(end.interface for end in switch_ends), *(switch.bridge for switch in self.wiring.switches), DATAPATH]
        self._runfile.add_interfaces(made)
        self._undo.callback(delete_interfaces, made)
        self._add_cables({switch.name: self.net[switch.name] for switch in self.wiring.switches} | self._hosts)
        self._prepare(switch_ends, SWITCH_MTU, None)
        for station in self.wiring.hosts:
            host = self._hosts[station.name]
            self._prepare(self.wiring.ends(station.name), HOST_MTU, host)
            self._in_node(host, ["sh", "-ec", f"ip link set dev lo up{addressing(self.wiring, station.name)}"])
            if self.wiring.ends(station.name) and not station.nic:
                host.setIP(station.ip, 8)
            if self._carriers:
                self._in_node(host, ["sh", "-ec", self._underlay(station.name)])

    def _prepare(self, ends: Iterable[CableEnd], mtu: int, host: LabHost | None) -> None:
        """MTU, no IPv6 chatter, and checksums that are computed: a userspace switch copies packets as they are."""
        for end in ends:
            name = end.interface
            script = (
                f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6; "
                f"ip link set dev {name} mtu {mtu} && ethtool -K {name} tx off > /dev/null"
            )
            self._in_node(host, ["sh", "-c", script])

    def _underlay(self, name: str) -> str:
        """Return a script by which a host sends packets with carriers to its leaf; empty: it has no cable."""
        ends, addresses = self.wiring.ends(name), CableAddresses(self.fabric)
        if not ends:
            return ""
        link = self.fabric.host_index[name]
        near, far = addresses.of_link(link, far=False), addresses.of_link(link, far=True).ip
        return host_underlay(ends[0].interface, near, far)

    # -- children --------------------------------------------------------------------------------------------

    def _spawn_daemon(self, name: str, argv: Sequence[str]) -> Child:
        return self.spawn(name, argv, env=PrivateOvs.environment(self._runfile.folder))

    def _is_ours_to_stop(self, child: Child) -> bool:
        return not self.ovs.owns(child)

    # -- asking ----------------------------------------------------------------------------------------------

    def wait_connected(self, timeout: float = CONNECT_SECONDS) -> None:
        """Wait until every bridge is connected to the controller.

        Raises:
            LabError: some are not in time; names them.
        """
        deadline, pauses = time.monotonic() + timeout, Pauses()
        while missing := [name for name, connected in self.ovs.connected().items() if not connected]:
            if time.monotonic() > deadline:
                raise LabError(
                    f"not connected to {self.controller} within {timeout:g} s: {', '.join(missing)}"
                    f"{self.ovs.daemon.tail()}"
                )
            self.ovs.try_again()
            pauses.sleep()

    def ofctl(self, command: str, switch: str, *args: str) -> str:
        """``ovs-ofctl -O OpenFlow13 COMMAND switch ARGS``, past the controller."""
        return self.ovs.ofctl(command, self.wiring.switch(switch), *args)

    def flows(self, switch: str) -> list[FlowEntry]:
        """Return the rules that a switch holds now, with their counters."""
        return parse_flows(self.ofctl("dump-flows", switch))

    def groups(self, switch: str) -> list[GroupEntry]:
        """Return the groups that a switch holds now."""
        return parse_groups(self.ofctl("dump-groups", switch))

    def port_counters(self, switch: str) -> dict[int, ReadPortCounters]:
        """Return the counters of a switch's ports by OpenFlow port number; ``rx`` counts packets into the switch."""
        return parse_ports(self.ofctl("dump-ports", switch, "--no-names"))

    # -- breaking and mending ----------------------------------------------------------------------------------

    def _set_end(self, end: CableEnd, *, up: bool) -> None:
        script = f"ip link set dev {end.interface} {'up' if up else 'down'}"
        if up and end.node in self._hosts:
            script += routing(self.wiring, end.node)
            script += f"\n{self._underlay(end.node)}" if self._carriers else ""
        self._in_node(self._hosts.get(end.node), ["sh", "-ec", script])

    def kill_switch(self, name: str) -> None:
        """Power off: its connection, its rules and its carriers are gone."""
        self.ovs.delete_bridge(self.wiring.switch(name))
        for end in self.wiring.ends(name):
            self._set_end(end, up=False)

    def start_switch(self, name: str) -> None:
        """Power on again: it comes back empty, with the cables up that are up in the fabric."""
        ends = self.wiring.ends(name)
        self.ovs.add_bridges([(self.wiring.switch(name), ends)], self.controller)
        self._shape([ends])
        enlarge_packet_buffers(self.ovs.daemon.pid)
        dark = {end for wire in self.wiring.wires if not wire.up for end in (wire.a, wire.b)}
        for end in ends:
            self._set_end(end, up=end not in dark)

    def restart_switches(self) -> None:
        """Kill the switch daemon and start it again: all rules and connections are lost, the cables stay."""
        self.ovs.restart_daemon()
        self._shape(self.wiring.ends(node) for node in self._switch_names)
        enlarge_packet_buffers(self.ovs.daemon.pid)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend all switches with open connections: they neither forward packets nor answer messages."""
        self.ovs.daemon.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.ovs.daemon.signal(signal.SIGCONT)
