"""A fabric on Mininet hosts and Open vSwitch switches: real packets, real OpenFlow, on one machine.

    isolate.enter()
    with Lab(fabric) as lab:
        lab.spawn("controller", ["ryu-manager", "--fabric", ..., "controller.app"])
        lab.wait_connected()
        assert lab.ping_all() == []

The lab lives in a network namespace that was made for it (``emulation.isolate``), brings its own Open vSwitch, writes
every child's log to ``out/logs/NAME.log``, and records what it makes (``emulation.runfile``), so that the next start
removes what a killed one left. docs/how-to/lab.md has the whole story.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from mininet.link import Link
from mininet.net import Mininet

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from emulation import isolate, logs, needs
from emulation.errors import LabError
from emulation.interrupts import deaf, ending_by_exception
from emulation.lab.nodes import LabHost, LabSwitch
from emulation.lab.several_ports import addressing, routing
from emulation.pings import Pair, Pinger, Pinging
from emulation.private_ovs import DATAPATH, PrivateOvs
from emulation.processes import LABEL, POLL_SECONDS, Child, Popen
from emulation.rates import emulated_mbps, tc_commands
from emulation.runfile import RunFile, delete_interfaces, sweep_dead
from emulation.socket_buffers import enlarge_packet_buffers
from emulation.tables import FlowEntry, GroupEntry, ReadPortCounters, parse_flows, parse_groups, parse_ports
from emulation.wiring import CableEnd, Wiring, wire_up

HOST_MTU = 4500
"""RoCE's largest payload is 4,096 bytes; its headers fit beside it."""

SWITCH_MTU = 9000
"""A switch port must also hold the labels that segment routing pushes onto a full packet."""

CONNECT_SECONDS = 120.0
DEFAULT_CONTROLLER = ("127.0.0.1", 6653)


class Lab:
    """A running fabric. As a context manager, it removes everything that it created, also after an exception.

    Args:
        fabric: the fabric to build, with its names, ids, addresses and ports. Cables that are not ``up`` are built and
            set down.
        controller: the controller that the bridges connect to: (host, port), or in Open vSwitch's notation
            (``unix:PATH``, ``ssl:HOST:PORT``).
        out: logs are written to ``out/logs``.
        mbps_per_gbps: limit every link, in both directions, to its Gbit/s times this, in Mbit/s; ``None``: no limit.
        wired_as: build the cables of this fabric, or this wiring, instead, so that the real fabric differs from the one
            that the controller knows.

    Raises:
        InputError: a link rate or port number is not possible.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        controller: tuple[str, int] | str = DEFAULT_CONTROLLER,
        out: str | Path = "out",
        mbps_per_gbps: float | None = None,
        wired_as: Fabric | Wiring | None = None,
    ) -> None:
        """Check the wiring and the rates; nothing is created before ``start``."""
        self.fabric = fabric
        real = fabric if wired_as is None else wired_as
        self.wiring = wire_up(real) if isinstance(real, Fabric) else real
        self.controller = controller if isinstance(controller, str) else f"tcp:{controller[0]}:{controller[1]}"
        self.out = Path(out)
        self._mbps = {} if mbps_per_gbps is None else emulated_mbps(self.wiring.wires, mbps_per_gbps)
        self._ends = {end.interface: end for wire in self.wiring.wires for end in (wire.a, wire.b)}
        self._switch_names = {switch.name for switch in self.wiring.switches}
        self._undo = ExitStack()
        self._signals = ExitStack()
        self._children: dict[str, list[Child]] = {}

    # -- life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Lab:
        """Start the lab."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the lab."""
        self.stop()

    def start(self) -> None:
        """Remove the remains of killed labs, then build everything; the bridges begin to connect to the controller.

        Raises:
            LabError: the user is not root, the process is not in a private namespace, or a part did not start;
                everything is removed again.
        """
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        if not isolate.isolated():
            raise LabError("the lab needs its own network namespace: python -m emulation.isolate COMMAND ...")
        sweep_dead()
        try:
            self._build()
        except BaseException:
            self.stop()
            raise

    def _build(self) -> None:
        self._signals.enter_context(ending_by_exception())
        self._runfile = RunFile()
        self._undo.callback(self._runfile.sweep)
        self._undo.callback(self._stop_hosts)
        self.net = Mininet(topo=None, build=False, controller=None)
        self.name = self._runfile.label
        """Distinguishes it from other labs on this machine."""
        self.ovs = PrivateOvs(self._runfile.folder, self._spawn_daemon)
        self._plug()
        self._undo.callback(self.ovs.stop)
        self.ovs.start()
        self._undo.callback(self._stop_children)
        self.ovs.add_bridges(
            ((switch, self.wiring.ends(switch.name)) for switch in self.wiring.switches), self.controller
        )
        nodes = (*self._switch_names, *(station.name for station in self.wiring.hosts))
        self._shape(map(self.wiring.ends, nodes))
        enlarge_packet_buffers(self.ovs.daemon.pid)
        for wire in self.wiring.wires:
            if not wire.up:
                self.set_cable(wire.name, up=False)

    def stop(self) -> None:
        """End and remove everything. Safe to call twice, and not to be interrupted by a second Ctrl-C."""
        with self._signals.pop_all(), deaf():
            self._undo.close()

    # -- building --------------------------------------------------------------------------------------------

    def _plug(self) -> None:
        """Hosts, switches and cables, as Mininet nodes and links."""
        label = self._runfile.label
        self._hosts: dict[str, LabHost] = {}
        for station in self.wiring.hosts:
            nic = station.namespace
            if nic not in self._hosts:
                self._hosts[nic] = self.net.addHost(nic, cls=LabHost, label=label)
                self._runfile.add_process(nic, self._hosts[nic].pid)
            self._hosts[station.name] = self._hosts[nic]
            self._hosts.setdefault(station.bond or nic, self._hosts[nic])
        for switch in self.wiring.switches:
            node = self.net.addSwitch(switch.name, cls=LabSwitch, label=label, switch=switch, ovs=self.ovs)
            self._runfile.add_process(switch.name, node.pid)
        switch_ends = [end for end in self._ends.values() if end.node in self._switch_names]
        # Open vSwitch's own interfaces outlive it: it makes them persistent.
        made = [*(end.interface for end in switch_ends), *(switch.bridge for switch in self.wiring.switches), DATAPATH]
        self._runfile.add_interfaces(made)
        self._undo.callback(delete_interfaces, made)
        macs = {station.name: {"addr1": station.mac} for station in self.wiring.hosts}
        nodes = {switch.name: self.net[switch.name] for switch in self.wiring.switches} | self._hosts
        for wire in self.wiring.wires:
            # Mininet numbers the ports of a host itself: a NIC may have several.
            self.net.addLink(
                nodes[wire.a.node],
                nodes[wire.b.node],
                wire.a.port or None,
                wire.b.port or None,
                cls=Link,
                intfName1=wire.a.interface,
                intfName2=wire.b.interface,
                **macs.get(wire.a.node, {}),
            )
        self._prepare(switch_ends, SWITCH_MTU, None)
        for station in self.wiring.hosts:
            host = self._hosts[station.name]
            self._prepare(self.wiring.ends(station.name), HOST_MTU, host)
            self._in_node(host, ["sh", "-ec", f"ip link set dev lo up{addressing(self.wiring, station.name)}"])
            if self.wiring.ends(station.name) and not station.nic:
                host.setIP(station.ip, 8)

    def _prepare(self, ends: Iterable[CableEnd], mtu: int, host: LabHost | None) -> None:
        """MTU, no IPv6 chatter, and checksums that are computed: a userspace switch copies packets as they are."""
        for end in ends:
            name = end.interface
            script = (
                f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6; "
                f"ip link set dev {name} mtu {mtu} && ethtool -K {name} tx off > /dev/null"
            )
            self._in_node(host, ["sh", "-c", script])

    def _shape(self, groups: Iterable[Iterable[CableEnd]]) -> None:
        """Limit every interface to its link's rate; after the bridges, as Open vSwitch clears the queues of a port."""
        if not self._mbps:
            return
        rate = {end: self._mbps[wire.name] for wire in self.wiring.wires for end in (wire.a, wire.b)}
        for ends in groups:
            lines = [line for end in ends for line in tc_commands(end.interface, rate[end])]
            host = self._hosts.get(next(iter(ends)).node) if lines else None
            self._in_node(host, ["tc", "-batch", "-"], "\n".join(lines) + "\n")

    def _in_node(self, host: LabHost | None, argv: Sequence[str], text: str = "") -> None:
        """Run a command in a host's namespace, or in the switches' (``None``)."""
        inside = [] if host is None else ["mnexec", "-a", str(host.pid)]
        done = subprocess.run([*inside, *argv], input=text, capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")

    # -- children --------------------------------------------------------------------------------------------

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        host: str | None = None,
        env: Mapping[str, str] = {},
        popen: Popen = subprocess.Popen,
    ) -> Child:
        """Start a program in the lab's namespace, or in a host's, by ``popen``; output to ``out/logs/NAME.log``.

        It ends with the lab at the latest. A name may be used again (a controller that comes back): its log goes on.
        """
        inside = [] if host is None else ["mnexec", "-a", str(self.host(host).pid)]
        earlier = self._children.setdefault(name, [])
        labelled = os.environ | {LABEL: self._runfile.label} | dict(env)
        child = Child(name, [*inside, *argv], self.log_path(name), labelled, append=bool(earlier), popen=popen)
        earlier.append(child)
        self._runfile.add_process(name, child.pid)
        return child

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """``subprocess.Popen`` in a host's namespace; the options are Popen's. Ends with the lab at the latest."""
        process: subprocess.Popen[Any] = self.host(host).popen(list(argv), **options)
        return process

    def run(
        self, host: str, argv: Sequence[str], *, timeout: float = 60.0, stdin: int | IO[Any] = subprocess.DEVNULL
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a host's namespace to its end; its output is text."""
        process = self.popen(host, argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise LabError(f"not within {timeout:g} s on {host}: {' '.join(argv)}") from None
        return subprocess.CompletedProcess(list(argv), process.returncode, output, errors)

    def _spawn_daemon(self, name: str, argv: Sequence[str]) -> Child:
        return self.spawn(name, argv, env=PrivateOvs.environment(self._runfile.folder))

    def log_path(self, name: str) -> Path:
        """Return the path of the log of the child process ``name``."""
        return self.out / "logs" / f"{name}.log"

    def problems(self, *, harmless: Iterable[tuple[str, str]] = ()) -> list[str]:
        """Tracebacks and OpenFlow errors in the logs of everything that this lab has started (emulation.logs)."""
        return [line for name in self._children for line in logs.problems(self.log_path(name), harmless=harmless)]

    def _stop_children(self) -> None:
        # The newest first: what was started later may need what was started before. Open vSwitch has its own turn.
        children = [child for group in self._children.values() for child in group if not self.ovs.owns(child)]
        for child in reversed(children):
            child.stop()

    def _stop_hosts(self) -> None:
        for node in (*self.net.hosts, *self.net.switches):
            node.terminate()

    # -- asking ----------------------------------------------------------------------------------------------

    def host(self, name: str) -> LabHost:
        """Return a host, or the NIC of a port; Mininet's ``cmd``, ``popen`` and ``pexec`` run commands in it.

        Raises:
            InputError: no host, port or NIC has this name.
        """
        try:
            return self._hosts[name]
        except KeyError:
            raise InputError("no host has this name", field="host", value=name) from None

    def wait_connected(self, timeout: float = CONNECT_SECONDS) -> None:
        """Wait until every bridge is connected to the controller.

        Raises:
            LabError: some are not in time; names them.
        """
        deadline = time.monotonic() + timeout
        while missing := [name for name, connected in self.ovs.connected().items() if not connected]:
            if time.monotonic() > deadline:
                raise LabError(
                    f"not connected to {self.controller} within {timeout:g} s: {', '.join(missing)}"
                    f"{self.ovs.daemon.tail()}"
                )
            self.ovs.try_again()
            time.sleep(POLL_SECONDS)

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

    def ping_all(self, pairs: Iterable[Pair] | None = None, *, timeout: float = 2.0) -> list[Pair]:
        """Ping each ordered pair of hosts (or the given ones) once, all at once; return the pairs without an answer."""
        with self._pinger() as pinger:
            return sorted(pinger.round(self._pairs(pairs), timeout=timeout))

    def pinging(self, pairs: Iterable[Pair] | None = None, *, interval: float = 0.05, timeout: float = 5.0) -> Pinging:
        """Ping in rounds while a ``with`` block runs; its ``Tally`` then has the losses of each pair.

        A round ends once all are answered, or ``timeout`` seconds after its last request: an answer that a busy machine
        delays is no loss.
        """
        return Pinging(self._pinger(), self._pairs(pairs), interval=interval, timeout=timeout)

    def _pinger(self) -> Pinger:
        return Pinger({station.name: (self._hosts[station.name].pid, station.ip) for station in self.wiring.hosts})

    def _pairs(self, pairs: Iterable[Pair] | None) -> list[Pair]:
        return self.wiring.pairs() if pairs is None else list(pairs)

    # -- breaking and mending ----------------------------------------------------------------------------------

    def set_cable(self, name: str, up: bool) -> None:
        """Both ends of a cable (``leaf1-spine2``, ``h1-leaf1``) down or up."""
        wire = self.wiring.wire(name)
        for end in (wire.a, wire.b):
            self._set_end(end, up=up)

    def set_port(self, switch: str, port: int, up: bool) -> None:
        """One end of a cable down or up; the other end sees its carrier go and come."""
        for end in self.wiring.ends(switch):
            if end.port == port:
                self._set_end(end, up=up)
                return
        raise InputError("the switch has no such port", field=switch, value=port)

    def _set_end(self, end: CableEnd, *, up: bool) -> None:
        script = f"ip link set dev {end.interface} {'up' if up else 'down'}"
        if up and end.node in self._hosts:
            script += routing(self.wiring, end.node)
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
