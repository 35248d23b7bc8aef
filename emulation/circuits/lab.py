"""Servers with several NICs on patch panels, which are Open vSwitch bridges: real packets on planned circuits.

    isolate.enter()
    with CircuitLab(fabric) as lab:
        lab.set_circuits(plan)
        lab.set_hosts(plan)

A server is a network namespace whose Linux kernel forwards for others. It is set up by the same lines that
``fairspine topology --host-files`` writes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan
from controller.circuits.planning.stages import CircuitStage
from controller.circuits.southbound.addresses import mac, nic_address, tree_address
from controller.circuits.southbound.host_files import SYSCTLS, ip_batch, ip_rounds
from controller.circuits.southbound.panel import Panel, discovery_packet
from emulation.errors import LabError
from emulation.lab import HOST_MTU
from emulation.lab.base import BaseLab
from emulation.lab.nodes import LabHost, LabSwitch
from emulation.private_ovs import DATAPATH, PrivateOvs
from emulation.processes import Child
from emulation.runfile import delete_interfaces
from emulation.socket_buffers import enlarge_packet_buffers
from emulation.tables import parse_flows
from emulation.wiring import Bridge, CableEnd, HostAddress, LabCable, Wiring

INTERFACES = "eth{nic}"
_RTO_MICROSECONDS = 5_000_000
"""A few packets in a queue take longer than the usual 0.2 s at rates of some Mbit/s, and queues lose nothing: TCP would
send packets again that only wait. Linux before 6.11 has no such setting."""
_NO_TAIL_LOSS_PROBES = ("net.ipv4.tcp_early_retrans", "0")
"""After two round trips without an acknowledgement, Linux sends the last packet again. It is not lost but waits: one
packet in fifty went twice."""
_COUNTERS_SECONDS = 1.5
"""After this time the counters of Open vSwitch are up to date."""
_SILENT_WITHIN = 60.0


def wire_circuits(fabric: OpticalFabric) -> Wiring:
    """Return the wiring: a bridge for each optical switch, and a cable to it from each NIC."""
    switches = tuple(
        Bridge(name, dpid, f"ocs-{i + 1}")
        for i, (name, dpid) in enumerate(zip(fabric.switch_names, fabric.dpids, strict=True))
    )
    hosts, wires = [], []
    for server, name in enumerate(fabric.servers):
        for nic in range(fabric.nics):
            switch = switches[int(fabric.switch_of[nic])]
            port = int(fabric.ports[server, nic])
            host = f"{name}/{nic}"
            hosts.append(HostAddress(host, nic_address(server, nic), mac(server, nic), nic=name))
            ends = CableEnd(host, 0, INTERFACES.format(nic=nic)), CableEnd(switch.name, port, f"{switch.bridge}-{port}")
            wires.append(LabCable(f"{host}-{switch.name}", *ends, fabric.gbps))
    return Wiring(switches, tuple(hosts), tuple(wires))


class CircuitLab(BaseLab):
    """Running servers and patch panels, at first without circuits.

    Args:
        fabric: servers and optical switches.
        out: logs are written to ``out/logs``.
        mbps_per_gbps: limit every NIC, in both directions, to its Gbit/s times this, in Mbit/s; ``None``: no limit.
        controller: where the panels' controller listens for OpenFlow, in the lab's namespace; ``None``: they have none,
            and ``set_circuits`` sets them.

    Raises:
        InputError: a rate is not possible.
    """

    def __init__(
        self,
        fabric: OpticalFabric,
        *,
        out: str | Path = "out",
        mbps_per_gbps: float | None = None,
        controller: tuple[str, int] | None = None,
    ) -> None:
        """Check the rates; nothing is created before ``start``."""
        super().__init__(wire_circuits(fabric), out=out, mbps_per_gbps=mbps_per_gbps)
        self.optical = fabric
        self._controller = None if controller is None else f"tcp:{controller[0]}:{controller[1]}"

    def _build(self) -> None:
        self.ovs = PrivateOvs(self._runfile.folder, self._spawn_daemon)
        self._add_hosts()
        for switch in self.wiring.switches:
            self._add_node(self.net.addSwitch, switch.name, cls=LabSwitch, switch=switch, ovs=self.ovs)
        ends = [wire.b for wire in self.wiring.wires]
        made = [*(end.interface for end in ends), *(switch.bridge for switch in self.wiring.switches), DATAPATH]
        self._runfile.add_interfaces(made)
        self._undo.callback(delete_interfaces, made)
        self._add_cables({switch.name: self.net[switch.name] for switch in self.wiring.switches} | self._hosts)
        for wire in self.wiring.wires:
            self._prepare(wire.b, None)
            self._prepare(wire.a, self._hosts[wire.a.node])
        self._undo.callback(self.ovs.stop)
        self.ovs.start()
        self._undo.callback(self._stop_children)
        bridges = ((switch, self.wiring.ends(switch.name)) for switch in self.wiring.switches)
        self.ovs.add_bridges(bridges, self._controller)
        # After the bridges, as Open vSwitch clears the queues of a port.
        self._shape(self.wiring.ends(node) for node in (*self._hosts_with_ends(), *self._switch_names()))
        enlarge_packet_buffers(self.ovs.daemon.pid)
        paths = ((f"/proc/sys/{name.replace('.', '/')}", value) for name, value in _settings())
        lines = "; ".join(f"test ! -e {path} || echo {value} > {path}" for path, value in paths)
        for server in self.optical.servers:
            self._in_node(self._hosts[server], ["sh", "-ec", f"ip link set dev lo up; {lines}"])

    def _hosts_with_ends(self) -> list[str]:
        return [station.name for station in self.wiring.hosts]

    def _switch_names(self) -> list[str]:
        return [switch.name for switch in self.wiring.switches]

    def _prepare(self, end: CableEnd, host: LabHost | None) -> None:
        """MTU, no IPv6, and checksums that are computed: a userspace switch copies packets as they are."""
        name = end.interface
        script = (
            f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6; "
            f"ip link set dev {name} mtu {HOST_MTU} up && ethtool -K {name} tx off > /dev/null"
        )
        self._in_node(host, ["sh", "-c", script])

    def _spawn_daemon(self, name: str, argv: Sequence[str]) -> Child:
        return self.spawn(name, argv, env=PrivateOvs.environment(self._runfile.folder))

    def _is_ours_to_stop(self, child: Child) -> bool:
        return not self.ovs.owns(child)

    def prepare_for_load(self) -> None:
        """Send a packet from each port, and enlarge all buffers of the panels.

        The sockets by which they send are opened then. With their own small buffers, packets are lost.
        """
        for wire in self.wiring.wires:
            frame = discovery_packet(Circuit(wire.b.node, wire.b.port, wire.b.port)).hex()
            request = f"in_port=controller,packet={frame},actions=output:{wire.b.port}"
            self.ovs.ofctl("packet-out", self.wiring.switch(wire.b.node), request)
        enlarge_packet_buffers(self.ovs.daemon.pid)

    def _set_end(self, end: CableEnd, *, up: bool) -> None:
        host = self._hosts.get(end.node)
        self._in_node(host, ["ip", "link", "set", "dev", end.interface, "up" if up else "down"])

    # -- circuits ------------------------------------------------------------------------------------------------

    def panel(self, name: str) -> Panel:
        """Return the patch panel of this name."""
        bridge = self.wiring.switch(name).bridge
        return Panel(name, f"unix:{self.folder / (bridge + '.mgmt')}")

    def set_circuits(self, plan: CircuitPlan) -> None:
        """Have all panels set the circuits of a plan."""
        circuits = [circuit for shard in plan.shards for circuit in shard.circuits]
        for name in self.optical.switch_names:
            self.panel(name).set(circuits)

    def set_hosts(self, plan: CircuitPlan) -> None:
        """Give all servers their addresses, neighbours and routes."""
        for shard in plan.shards:
            for i, server in enumerate(shard.shard.servers):
                self.batch(self.optical.servers[server], ip_batch(shard, i, INTERFACES))

    def change(self, plan: CircuitPlan, stages: Sequence[CircuitStage], dark_seconds: float = 0.0) -> None:
        """Go from the circuits of now to those of a plan in stages, while servers send.

        Args:
            plan: the plan to reach.
            stages: those of this plan.
            dark_seconds: how long circuits that change are dark.

        Raises:
            LabError: a circuit carries no packets after its stage.
        """
        for stage in stages:
            self._set_routes(stage.during)
            self._wait_for_silence(stage.removed)
            for name in self.optical.switch_names:
                self.panel(name).set((), stage.removed)
            time.sleep(dark_seconds)
            for name in self.optical.switch_names:
                panel = self.panel(name)
                panel.set(stage.added)
                for circuit, reason in panel.faults(stage.added).items():
                    raise LabError(f"{circuit}: {reason}")
        self._set_routes(plan.shards)

    def _set_routes(self, shards: Iterable[ShardPlan]) -> None:
        """Bring servers to other routes, one round after the other."""
        for shard in shards:
            for lines in ip_rounds(shard, INTERFACES):
                for server, own in zip(shard.shard.servers, lines, strict=True):
                    if own:
                        self.batch(self.optical.servers[server], own)

    def _wait_for_silence(self, circuits: Sequence[Circuit]) -> None:
        """Wait until circuits carry no more packets: those that are under way have arrived.

        Raises:
            LabError: packets still go by them.
        """
        deadline = time.monotonic() + _SILENT_WITHIN
        before: list[int] = []
        while True:
            carried = self.carried()
            now = [carried[each][0] for each in circuits if each in carried]
            if now == before:
                return
            if time.monotonic() > deadline:
                raise LabError(f"packets still go by circuits that should be taken away: {before}, {now}")
            before = now
            time.sleep(_COUNTERS_SECONDS)

    def batch(self, server: str, lines: Iterable[str]) -> None:
        """Run lines of ``ip -batch`` on a server."""
        self._in_node(self._hosts[server], ["ip", "-batch", "-"], "".join(lines))

    def carried(self) -> dict[Circuit, tuple[int, int]]:
        """Return the packets and bytes (Ethernet headers included) of each circuit that panels hold."""
        counted: dict[Circuit, tuple[int, int]] = {}
        for switch in self.wiring.switches:
            for entry in parse_flows(self.ovs.ofctl("dump-flows", switch, "--no-names")):
                if entry.match.startswith("in_port=") and entry.actions.startswith("output:"):
                    ports = int(entry.match.removeprefix("in_port=")), int(entry.actions.removeprefix("output:"))
                    counted[Circuit(switch.name, *ports)] = entry.packets, entry.bytes
        return counted

    # -- one switch for all, to compare ------------------------------------------------------------------------

    def set_ideal(self) -> None:
        """Make each panel a switch on which every NIC reaches those with its number: together, the ideal switch.

        A server has all its NICs to all others if it divides its bytes equally over the addresses of their NICs.
        """
        fabric = self.optical
        for switch, bridge in enumerate(self.wiring.switches):
            lines = [
                f"priority=1,ip,nw_dst={nic_address(server, nic)},actions=output:{int(fabric.ports[server, nic])}\n"
                for server in range(fabric.n_servers)
                for nic in range(fabric.nics)
                if fabric.switch_of[nic] == switch
            ]
            file = self.folder / f"{bridge.bridge}.flows"
            file.write_text("".join(lines))
            self.ovs.ofctl("add-flows", bridge, str(file))
        for server, name in enumerate(fabric.servers):
            lines = [f"address replace {tree_address(server, 0)}/32 dev lo\n"]
            for nic in range(fabric.nics):
                device = INTERFACES.format(nic=nic)
                own = nic_address(server, nic)
                lines += [
                    f"link set dev {device} address {mac(server, nic)}\n",
                    f"address replace {own}/32 dev {device}\n",
                ]
                for other in range(fabric.n_servers):
                    if other != server:
                        there = nic_address(other, nic)
                        lines.append(f"neigh replace {there} lladdr {mac(other, nic)} dev {device} nud permanent\n")
                        lines.append(f"route replace {there}/32 dev {device} src {own}\n")
            self.batch(name, lines)


def _settings() -> list[tuple[str, str]]:
    settings = [(name, value) for name, _, value in (line.partition("=") for line in SYSCTLS)]
    return [*settings, ("net.ipv4.tcp_rto_min_us", str(_RTO_MICROSECONDS)), _NO_TAIL_LOSS_PROBES]
