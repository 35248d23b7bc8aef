"""What every lab is, whatever its switches are: hosts, cables with rates, child processes, logs, and an end.

A lab lives in a network namespace that was made for it (``emulation.isolate``), writes every child's log to
``out/logs/NAME.log``, and records what it makes (``emulation.runfile``), so that the next start removes what a killed
one left. ``emulation.lab.Lab`` has OpenFlow switches, ``emulation.lab.routers.RouterLab`` has Linux routers.
"""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from mininet.link import Link
from mininet.net import Mininet

from controller.model.errors import InputError
from emulation import isolate, logs, needs
from emulation.errors import LabError
from emulation.interrupts import deaf, ending_by_exception
from emulation.lab.nodes import LabHost, LabNode
from emulation.pings import Pair, Pinger, Pinging
from emulation.processes import LABEL, Child, Popen
from emulation.rates import emulated_mbps, tc_commands
from emulation.runfile import RunFile, sweep_dead
from emulation.wiring import CableEnd, Wiring


class BaseLab(ABC):
    """A running fabric. As a context manager, it removes everything that it created, also after an exception.

    Args:
        wiring: switches, hosts and cables as they are built. Cables that are not ``up`` are built and set down.
        out: logs are written to ``out/logs``.
        mbps_per_gbps: limit every link, in both directions, to its Gbit/s times this, in Mbit/s; ``None``: no limit.

    Raises:
        InputError: a link rate is not possible.
    """

    def __init__(self, wiring: Wiring, *, out: str | Path, mbps_per_gbps: float | None) -> None:
        """Check the rates; nothing is created before ``start``."""
        self.wiring = wiring
        self.out = Path(out)
        self._mbps = {} if mbps_per_gbps is None else emulated_mbps(wiring.wires, mbps_per_gbps)
        self._undo = ExitStack()
        self._signals = ExitStack()
        self._children: dict[str, list[Child]] = {}

    # -- life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start the lab."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the lab."""
        self.stop()

    def start(self) -> None:
        """Remove the remains of killed labs, then build everything.

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
            self._signals.enter_context(ending_by_exception())
            self._runfile = RunFile()
            self._undo.callback(self._runfile.sweep)
            self._undo.callback(self._stop_nodes)
            self.net = Mininet(topo=None, build=False, controller=None)
            self.name = self._runfile.label
            """Distinguishes it from other labs on this machine."""
            self._build()
            for wire in self.wiring.wires:
                if not wire.up:
                    self.set_cable(wire.name, up=False)
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def _build(self) -> None:
        """Make the nodes, the cables, and what switches need; ``self._undo`` gets how to end each."""

    def stop(self) -> None:
        """End and remove everything. Safe to call twice, and not to be interrupted by a second Ctrl-C."""
        with self._signals.pop_all(), deaf():
            self._undo.close()

    @abstractmethod
    def prepare_for_load(self) -> None:
        """Do what has to be done once before full load, when each switch has sent a packet."""

    @property
    def folder(self) -> Path:
        """The folder of sockets and other files that end with the lab."""
        return self._runfile.folder

    # -- building --------------------------------------------------------------------------------------------

    def _add_hosts(self) -> None:
        """Make the namespaces of hosts; the ports of a NIC share one."""
        self._hosts: dict[str, LabHost] = {}
        for station in self.wiring.hosts:
            nic = station.namespace
            if nic not in self._hosts:
                self._hosts[nic] = self._add_node(self.net.addHost, nic, cls=LabHost)
            self._hosts[station.name] = self._hosts[nic]
            self._hosts.setdefault(station.bond or nic, self._hosts[nic])

    def _add_node(self, add: Any, name: str, **options: Any) -> Any:
        """Make a node of Mininet, by a method of its network; it ends with the lab."""
        node = add(name, label=self._runfile.label, **options)
        self._runfile.add_process(name, node.pid)
        return node

    def _add_cables(self, nodes: Mapping[str, Any]) -> None:
        """Make a cable for each wire; ``nodes`` has the node of each end."""
        macs = {station.name: {"addr1": station.mac} for station in self.wiring.hosts}
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

    def _shape(self, groups: Iterable[Iterable[CableEnd]]) -> None:
        """Limit every interface to its link's rate. The interfaces of a group are in one namespace."""
        if not self._mbps:
            return
        rate = {end: self._mbps[wire.name] for wire in self.wiring.wires for end in (wire.a, wire.b)}
        for ends in groups:
            lines = [line for end in ends for line in tc_commands(end.interface, rate[end])]
            node = self._node_of(next(iter(ends)).node) if lines else None
            self._in_node(node, ["tc", "-batch", "-"], "\n".join(lines) + "\n")

    def _node_of(self, name: str) -> LabNode | None:
        """Return the node in whose namespace the interfaces of a host or switch are; ``None``: in that of the lab."""
        return self._hosts.get(name)

    def _in_node(self, node: LabNode | None, argv: Sequence[str], text: str = "") -> str:
        """Run a command in a node's namespace, or in the lab's (``None``), and return what it prints."""
        inside = [] if node is None else ["mnexec", "-a", str(node.pid)]
        done = subprocess.run([*inside, *argv], input=text, capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
        return done.stdout

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
        inside = [] if host is None else ["mnexec", "-a", str(self.node(host).pid)]
        earlier = self._children.setdefault(name, [])
        labelled = os.environ | {LABEL: self._runfile.label} | dict(env)
        child = Child(name, [*inside, *argv], self.log_path(name), labelled, append=bool(earlier), popen=popen)
        earlier.append(child)
        self._runfile.add_process(name, child.pid)
        return child

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """``subprocess.Popen`` in a host's namespace; the options are Popen's. Ends with the lab at the latest."""
        process: subprocess.Popen[Any] = self.node(host).popen(list(argv), **options)
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

    def log_path(self, name: str) -> Path:
        """Return the path of the log of the child process ``name``."""
        return self.out / "logs" / f"{name}.log"

    def problems(self, *, harmless: Iterable[tuple[str, str]] = ()) -> list[str]:
        """Tracebacks and OpenFlow errors in the logs of everything that this lab has started (emulation.logs)."""
        return [line for name in self._children for line in logs.problems(self.log_path(name), harmless=harmless)]

    def _stop_children(self) -> None:
        # The newest first: what was started later may need what was started before.
        children = [child for group in self._children.values() for child in group if self._is_ours_to_stop(child)]
        for child in reversed(children):
            child.stop()

    def _is_ours_to_stop(self, child: Child) -> bool:
        """Return whether a child ends with all others, and has no turn of its own."""
        del child
        return True

    def _stop_nodes(self) -> None:
        for node in (*self.net.hosts, *self.net.switches):
            node.terminate()

    # -- asking ----------------------------------------------------------------------------------------------

    def node(self, name: str) -> LabNode:
        """Return a host, or a switch that has a namespace of its own.

        Raises:
            InputError: there is none of this name.
        """
        node = self._node_of(name)
        return self.host(name) if node is None else node

    def host(self, name: str) -> LabHost:
        """Return a host, or the NIC of a port; Mininet's ``cmd``, ``popen`` and ``pexec`` run commands in it.

        Raises:
            InputError: no host, port or NIC has this name.
        """
        try:
            return self._hosts[name]
        except KeyError:
            raise InputError("no host has this name", field="host", value=name) from None

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

    @abstractmethod
    def _set_end(self, end: CableEnd, *, up: bool) -> None:
        """Set one end of a cable down, or up with all that it needs."""
