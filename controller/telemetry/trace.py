"""Real paths of flows, found by following their packets through the rules that the switches report.

The trace uses the observed state, not the plan: manual changes, rules that are not installed yet and fail-over are
visible in it. Where a switch hashes, each path that the hash can pick is a candidate; ``infer.py`` derives the picked
one from counters, ``capture.py`` from captured packets.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from controller.model.assignment import UNROUTABLE
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.fabric import Fabric, Host
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Traffic
from controller.southbound.enforcement.base import Segments
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.flow_packets import carrier_packet, packet_of
from controller.southbound.enforcement.learned_ports import LearnedPort
from controller.southbound.rules.classifier import OverlapError
from controller.southbound.rules.interpreter import Packet, RuleInterpreter, Walk
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleSet
from controller.telemetry.fabric_snapshot import FabricSnapshot

How = Literal["rules", "counters", "capture", "probes", "samples", "plan", "given", "none"]
"""Source of a real path: the switches' rules alone; a hash's choice from port counters or from captured packets; the
probes of the flow's own source port, or its packets that routers sampled; the plan (a trace without switches, and flows
that have one path only); a file of another tool; or none."""

Links = tuple[int, ...]
"""Link indices of the Fabric, in the order of the path."""


@dataclass(frozen=True)
class TraceInputs:
    """The desired state, with which a trace compares the switches.

    Attributes:
        fabric: the fabric in its present state.
        traffic: the flows of all jobs.
        wire: the encoding: the rows with the paths that they should have.
        mode: ``planned``, ``ecmp`` or ``frozen``.
        enforcement: name of the enforcement of the plan.
        epoch: epoch of the newest plan.
        enforced: epoch of the rules that switches should hold.
        confirmed: epoch that each connected switch has confirmed, by key.
        segments: the addresses that packets carry on planned paths; ``None``: no such address is known.
        by_probes: where hosts learn ports by probes, what is known of the port of each row (``None``: it needs none).
    """

    fabric: Fabric
    traffic: Traffic
    wire: FlowEncoding
    mode: str = "planned"
    enforcement: str = DEFAULT_ENFORCEMENT
    epoch: int = 0
    enforced: int = 0
    confirmed: dict[SwitchKey, int] | None = None
    by_probes: Sequence[LearnedPort | None] | None = None
    segments: Segments | None = None


@dataclass(frozen=True)
class Way:
    """One way through the network: the links that a packet takes, and its end.

    Attributes:
        links: the links in order.
        end: empty if the packet arrives at its host; else what happens to it.
        at: the switch where that happens.
        dscp: what rules have written into the packet when it arrives; ``None``: no rule has.
    """

    links: Links
    end: str = ""
    at: str = ""
    dscp: int | None = None

    @property
    def arrives(self) -> bool:
        """Whether the packet arrives at its destination."""
        return not self.end


@dataclass(frozen=True)
class Traced:
    """The trace of one row of the encoding.

    Attributes:
        planned: links of the planned path; ``None`` if no live path joins its leaves.
        ways: the ways that its packets can take; several if a switch hashes, none if a switch on the way was not read.
        rule: the last rule that it matches at its leaf; ``None`` if there is none, or if the leaf was not read.
        why_unknown: the reason in words if there is no way.
        met: name of each switch and each rule that its packets meet there, in order.
    """

    planned: Links | None
    ways: tuple[Way, ...]
    rule: Rule | None = None
    why_unknown: str = ""
    met: tuple[tuple[str, Rule], ...] = ()

    @property
    def only(self) -> Way | None:
        """The way if there is exactly one, else ``None``."""
        return self.ways[0] if len(self.ways) == 1 else None


def planned_links(situation: TraceInputs, row: int) -> Links | None:
    """Return the links that a row of the encoding should take; ``None`` if it has no path."""
    flow, path = int(situation.wire.flow[row]), int(situation.wire.path[row])
    if path == UNROUTABLE:
        return None
    src, dst = int(situation.traffic.src[flow]), int(situation.traffic.dst[flow])
    return situation.fabric.flow_links(src, dst, path)


def trace(situation: TraceInputs, reading: FabricSnapshot) -> list[Traced]:
    """Trace every row of the encoding, in order."""
    walker = _Walker(situation, reading)
    return [walker.row(row) for row in range(len(situation.wire.flow))]


def cable_ports(fabric: Fabric) -> dict[tuple[str, int], int]:
    """Return the link index by switch name and egress port; links from hosts to leaves have no entry."""
    ports: dict[tuple[str, int], int] = {}
    for h, host in enumerate(fabric.hosts):
        if host.port is not None:
            ports[host.leaf, host.port] = fabric.n_hosts + h
    for c, cable in enumerate(fabric.cables):
        up = fabric.first_cable_link + 2 * c
        if cable.lower_port is not None:
            ports[cable.lower, cable.lower_port] = up
        if cable.upper_port is not None:
            ports[cable.upper, cable.upper_port] = up + 1
    return ports


class _Walker:
    def __init__(self, situation: TraceInputs, reading: FabricSnapshot) -> None:
        self._situation, self._reading = situation, reading
        self._rules: RuleSet = reading.rules
        names = situation.fabric.switch_by_key
        dead = [(names[key].name, port) for key, held in reading.switches.items() if key in names for port in held.dead]
        # A switch forwards by the state of its own ports, not by the state of the cable at the other end.
        self._network = RuleInterpreter(situation.fabric.healthy(), down=dead)
        self._links = cable_ports(situation.fabric)

    def row(self, row: int) -> Traced:
        situation = self._situation
        fabric, traffic, wire = situation.fabric, situation.traffic, situation.wire
        planned = planned_links(situation, row)
        flow = int(wire.flow[row])
        source, target = fabric.hosts[traffic.src[flow]], fabric.hosts[traffic.dst[flow]]
        if source.port is None:
            return Traced(planned, (), why_unknown=f"the port of {source.name} is not known")
        packet = self._packet(row, source, target)
        met: list[Rule] = []
        everywhere: dict[tuple[str, Rule], None] = {}

        def seen(switch: str, rule: Rule) -> None:
            everywhere[switch, rule] = None
            if switch == source.leaf:
                met.append(rule)

        ways = []
        try:
            for walk in self._network.every_walk(self._rules, packet, source=source.name, seen=seen):
                way = self._way(int(traffic.src[flow]), target.name, walk)
                if isinstance(way, str):
                    return Traced(planned, (), met[0] if met else None, way)
                ways.append(way)
        except OverlapError:
            why = "two rules of equal priority match it: the result is undefined"
            return Traced(planned, (), met[0] if met else None, why, tuple(everywhere))
        return Traced(planned, tuple(ways), met[0] if met else None, met=tuple(everywhere))

    def _packet(self, row: int, source: Host, target: Host) -> Packet:
        """Return the packet that the leaf gets, which may have an address that names its path."""
        situation = self._situation
        wire, traffic = situation.wire, situation.traffic
        flow, path = int(wire.flow[row]), int(wire.path[row])
        if situation.segments is not None and path != UNROUTABLE:
            carried = situation.segments(int(traffic.src[flow]), int(traffic.dst[flow]), path)
            if carried is not None:
                return carrier_packet(carried["carrier"])
        return packet_of(source, target, int(wire.udp_src[row]))

    def _way(self, src: int, target: str, walk: Walk) -> Way | str:
        """Convert a walk to links, or return the reason why it is not known."""
        fabric = self._situation.fabric
        source = fabric.hosts[src]
        links = [src]
        at = source.leaf
        for hop in walk.hops:
            at = hop.switch
            link = self._links.get((hop.switch, hop.out_port))
            if link is not None:
                links.append(link)
        if walk.host is None and not walk.end.startswith("sent out"):
            # The walk ends at the switch behind the last hop's egress port.
            last = walk.hops[-1] if walk.hops else None
            at = at if last is None else self._network.peer.get((last.switch, last.out_port), (at, 0))[0]
            unknown = self._unknown(at)
            if unknown:
                return unknown
        broken = [link for link in links if not fabric.link_up[link]]
        if walk.host == target and not broken:
            return Way(tuple(links), dscp=walk.dscp)
        if walk.host == target:
            name = fabric.link_ids[broken[0]]
            return Way(tuple(links), f"{name} is down: packets sent there are lost", at)
        if walk.host is not None:
            return Way(tuple(links), f"it arrives at {walk.host}", at)
        return Way(tuple(links), f"{at} drops it" if walk.end == "dropped" else f"{walk.end} at {at}", at)

    def _unknown(self, switch: str) -> str:
        """Return why the rules of a switch are not known; empty if they are."""
        key = self._network.key[switch]
        if key in self._reading.switches:
            return ""
        if key in self._reading.silent:
            return f"{switch} could not be read: {self._reading.silent[key]}"
        if self._situation.fabric.switch_by_key[key].kind != "openflow":
            return f"{switch} is not an OpenFlow switch: where it forwards is not known"
        return f"{switch} is not connected"


def uplink(fabric: Fabric, links: Sequence[int]) -> int | None:
    """Return the first uplink of a path; ``None`` if it stays within a leaf or ends before the uplink."""
    return next((link for link in links if link >= fabric.first_cable_link and not link % 2), None)


def uplinks(fabric: Fabric, links: Sequence[int]) -> Links:
    """Return the uplinks of a path, up to the first downlink: none if it stays within a leaf."""
    between = [link for link in links if link >= fabric.first_cable_link]
    return tuple(itertools.takewhile(lambda link: link % 2 == 0, between))
