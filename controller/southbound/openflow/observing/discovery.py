"""The observed state: switches, ports, discovery packets and ARP, collected into ``NetworkState`` values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState, PortId
from controller.model.switch_key import SwitchKey
from controller.southbound.cabling.place_cables import places_of
from controller.southbound.discovery.awaited_switches import AwaitedSwitches
from controller.southbound.discovery.flapping import Damper
from controller.southbound.discovery.link_evidence import LinkEvidence, PacketVerdict
from controller.southbound.discovery.lldp import LldpProbe
from controller.southbound.hosts.host_table import HostLimits, HostTable
from controller.southbound.hosts.intended_hosts import IntendedHosts

KBPS_PER_GBPS = 1e6
"""OpenFlow gives speeds in kbit/s."""

LOOK_SECONDS = 0.25
"""Seconds between two checks whether waiting is over."""


class Discovery:
    """Collects events; ``snapshot()`` returns the resulting state. Every method returns whether anything changed.

    Attributes:
        evidence: which cables are there; what sends and receives discovery packets reports to it.
        hosts: where hosts are.
        intended_hosts: those of the fabric file, if there is one.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        intended: Fabric | None = None,
        *,
        hosts: IntendedHosts | None = None,
        limits: HostLimits = HostLimits(),  # noqa: B008 (frozen)
        loud: Callable[[SwitchKey], bool] = lambda key: False,
    ) -> None:
        """Begin without switches.

        Args:
            clock: seconds of a monotonic clock.
            intended: the fabric of the file; ``None``: discovery alone.
            hosts: as ``intended`` in ``HostTable``.
            limits: as in ``HostTable``.
            loud: as in ``HostTable``.
        """
        self._clock = clock
        places = None if intended is None else places_of(intended)
        self._unobserved = frozenset(() if intended is None else (switch.key for switch in intended.routers))
        cables: Mapping[PortId, PortId] = {} if places is None else places.peers
        if self._unobserved:
            cables = {a: b for a, b in cables.items() if self._unobserved.isdisjoint((a.switch, b.switch))}
        self._host_ports = {} if places is None else places.host_ports
        self._near: dict[SwitchKey, list[PortId]] = defaultdict(list)
        for at, peer in cables.items():
            self._near[peer.switch].append(at)
        self._intended = None if intended is None else intended.datapath_ids
        self._awaited = AwaitedSwitches(self._intended)
        self.evidence = LinkEvidence(clock(), expected=cables, host_ports=self._host_ports, has_host=self._has_host)
        self._switches: dict[int, set[int]] = {}
        """The ports of each connected switch."""
        self._ports: dict[PortId, bool] = {}
        self._gbps: dict[PortId, float] = {}
        self._damper = Damper()
        self.intended_hosts = hosts
        self.hosts = HostTable(self.port_state, intended=hosts, limits=limits, loud=loud)
        self._switch_ports: set[PortId] = set()
        self._edge: set[PortId] = set()
        """``edge_ports``, kept with every change: there may be a hundred thousand ports."""
        self._edge_sorted: list[PortId] | None = []
        self._passing: tuple[object, ...] = ()
        self._look_at = clock()

    def snapshot(self) -> NetworkState:
        """Return the present state of the network."""
        now = self._clock()
        flapping = self._damper.held(now)
        evidence = self.evidence
        return NetworkState(
            dict(self._ports) | {port: False for port in flapping if port in self._ports},
            frozenset(self._switches),
            dict(evidence.links),
            self.hosts.places(),
            starting=self._starting(now),
            lost=self._awaited.lost(now),
            silent=frozenset(evidence.silent),
            clashes=self.hosts.clashes(),
            flapping=flapping,
            gbps=dict(self._gbps),
            unobserved=self._unobserved,
        )

    def time_passed(self) -> bool:
        """Check for changes by time alone, and for packets that should be back."""
        now = self._clock()
        changed = self.evidence.judge(now)
        if now < self._look_at:
            return changed
        self._look_at = now + LOOK_SECONDS
        before, self._passing = (
            self._passing,
            (
                self._starting(now),
                self._awaited.lost(now),
                self._damper.held(now),
            ),
        )
        return changed or before != self._passing

    def _starting(self, now: float) -> bool:
        return self._awaited.starting(now, self._is_near)

    def _is_near(self, key: SwitchKey) -> bool:
        """Return whether the other end of some cable of a switch that is not connected is up."""
        return any(self._ports.get(at, False) for at in self._near[key])

    def holds_rules(self) -> None:
        """Record that a switch has connected that forwards by rules from before."""
        self._awaited.holds_rules()

    def flapping(self) -> bool:
        """Return whether some port changes so often that it counts as down.

        It no longer does ``flapping.QUIET`` seconds after its last change.
        """
        return bool(self._damper.held(self._clock()))

    def switch_entered(self, dpid: int, ports: list[Any]) -> bool:
        """Record a switch that has connected, with its ports; return whether the network changed."""
        if dpid in self._switches:
            self.switch_left(dpid)
        now = self._clock()
        self._awaited.entered(dpid, now)
        self._switches[dpid] = set()
        if self._intended is None or dpid in self._intended:
            # No cable of another switch is used, and its ports would take their share of the packets.
            self.evidence.switch_entered(dpid, now)
        for port in ports:
            self._set_port(dpid, port)
        return True

    def switch_left(self, dpid: int) -> bool:
        """Record that a switch has disconnected: its forwarding and its links are unknown; hosts keep their place."""
        self._awaited.left(dpid, self._clock())
        self.evidence.switch_left(dpid)
        for number in self._switches.pop(dpid, ()):
            at = PortId(dpid, number)
            self._ports.pop(at, None)
            self._gbps.pop(at, None)
            self._switch_ports.discard(at)
            self._not_edge(at)
        self._damper.forget(dpid)
        return True

    def port_changed(self, dpid: int, port: Any) -> bool:
        """Record that a port has come, or changed its state or its speed; return whether the network changed."""
        if dpid not in self._switches:
            return False
        at = PortId(dpid, port.port_no)
        before = self._ports.get(at), self._gbps.get(at)
        self._set_port(dpid, port)
        after = self._ports.get(at), self._gbps.get(at)
        if before[0] is not None and after[0] is not None and before[0] != after[0]:
            self._damper.changed(at, after[0], self._clock())
        return before != after

    def port_gone(self, dpid: int, number: int) -> bool:
        """Record that a port was removed; return whether the network changed."""
        at = PortId(dpid, number)
        self._not_edge(at)
        self._switch_ports.discard(at)
        self._gbps.pop(at, None)
        self._switches.get(dpid, set()).discard(number)
        self.evidence.port_down(at, self._clock())
        return self._ports.pop(at, None) is not None

    def intended_host(self, at: PortId) -> str | None:
        """Return the name of the host to which the fabric file gives a port, or ``None``."""
        return self._host_ports.get(at)

    def arrived(self, at: PortId, probe: LldpProbe) -> PacketVerdict:
        """Record that an authentic discovery packet has come in by a port; return what became of it."""
        verdict = self.evidence.arrived(at, probe, self._clock())
        if verdict is PacketVerdict.NEW:
            self._became_link(PortId(probe.dpid, probe.port), at)
        return verdict

    def _became_link(self, a: PortId, b: PortId) -> None:
        # Until it goes down: discovery packets may fail to pass, and a port to a switch is one still.
        ends = {end for end in (a, b) if end not in self._host_ports}
        self._switch_ports |= ends
        for end in ends:
            self._not_edge(end)
        # Packets heard at a port that leads to a switch came from hosts elsewhere.
        self.hosts.forget_at(ends)

    def _has_host(self, at: PortId) -> bool:
        """Return whether a host was heard at a port."""
        return self.hosts.has_host(at)

    def port_state(self, port: PortId) -> bool | None:
        """Return whether a port is up; ``None``: its switch is not connected."""
        return self._ports.get(port, False if port.switch in self._switches else None)

    def is_edge(self, port: PortId) -> bool:
        """Return whether a port is there and leads to no switch, as far as is known."""
        return port in self._ports and port not in self._switch_ports

    def leads_to_switch(self, port: PortId) -> bool:
        """Return whether a port is up and discovery packets have arrived through its cable."""
        return port in self._switch_ports

    def edge_ports(self) -> list[PortId]:
        """Return the ports that are up and lead to no switch, as far as is known."""
        if self._edge_sorted is None:
            self._edge_sorted = sorted(self._edge)
        return self._edge_sorted

    @property
    def n_edge_ports(self) -> int:
        """The number of ``edge_ports``."""
        return len(self._edge)

    def _not_edge(self, at: PortId) -> None:
        if at in self._edge:
            self._edge.discard(at)
            self._edge_sorted = None

    def silent_ports(self) -> list[PortId]:
        """Return the edge ports at which no host has answered."""
        spoken = self.hosts.taken_ports()
        return [port for port in self.edge_ports() if port not in spoken]

    def _set_port(self, dpid: int, port: Any) -> None:
        if port.port_no >= ofp.OFPP_MAX:
            return
        up = not (port.config & ofp.OFPPC_PORT_DOWN) and not (port.state & ofp.OFPPS_LINK_DOWN)
        at = PortId(dpid, port.port_no)
        was_up = self._ports.get(at, False)
        self._ports[at] = up
        if not up:
            self._not_edge(at)
        elif at not in self._switch_ports and at not in self._edge:
            self._edge.add(at)
            self._edge_sorted = None
        self._switches[dpid].add(port.port_no)
        if up and port.curr_speed:
            self._gbps[at] = port.curr_speed / KBPS_PER_GBPS
        else:
            self._gbps.pop(at, None)
        if up and not was_up:
            self.evidence.port_up(at, self._clock())
        elif not up:
            self._switch_ports.discard(at)
            self.evidence.port_down(at, self._clock())
