"""Ryu's topology events, and ARP that reaches the controller, as ``Observed`` values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ryu.base.app_manager import lookup_service_brick
from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.observed import Location, Observed, PortId
from controller.southbound.flapping import Damper

GRACE = 3.0
"""Seconds that a switch has to show all its links (a round of discovery takes half of that), or to come back."""


KBPS_PER_GBPS = 1e6
"""OpenFlow tells speeds in kbit/s."""

ROUND = 0.5
"""Seconds over which the discovery packets of one round are spread."""


class Discovery:
    """Collects events; ``snapshot()`` is what they add up to. Every method says whether anything changed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[int, float] = {}
        self._gone: dict[int, float] = {}
        self._began = 0.0
        self._ports: dict[PortId, bool] = {}
        self._gbps: dict[PortId, float] = {}
        self._damper = Damper()
        self._links: dict[PortId, PortId] = {}
        self._hosts: dict[str, Location] = {}
        self._duplicates: dict[tuple[str, str, str], PortId] = {}
        self._switch_ports: set[PortId] = set()

    def snapshot(self) -> Observed:
        now = self._clock()
        flapping = self._damper.held(now)
        return Observed(
            {port: up and port not in flapping for port, up in self._ports.items()},
            frozenset(self._since),
            dict(self._links),
            dict(self._hosts),
            starting=not self._since or now - self._began < GRACE,
            young=frozenset(dpid for dpid, since in self._since.items() if now - since < GRACE),
            lost=frozenset(dpid for dpid, since in self._gone.items() if now - since < GRACE),
            duplicates=frozenset(
                clash for clash, second in self._duplicates.items() if self._clashes(clash[0], second)
            ),
            flapping=flapping,
            gbps={port: gbps for port, gbps in self._gbps.items() if self._ports.get(port, False)},
        )

    def flapping(self) -> bool:
        """Whether some port comes and goes so often that it counts as down; ``flapping.QUIET`` seconds after its last
        change it no longer does."""
        return bool(self._damper.held(self._clock()))

    def switch_entered(self, dpid: int, ports: list[Any]) -> bool:
        """A switch has connected, with its ports."""
        now = self._clock()
        if not self._since:
            self._began = now
        self._since[dpid] = now
        self._gone.pop(dpid, None)
        for port in ports:
            self._set_port(dpid, port)
        pace_discovery(len(self._ports))
        return True

    def switch_left(self, dpid: int) -> bool:
        """A switch is gone. What it forwards is unknown, so its links count as down; hosts keep their place."""
        if self._since.pop(dpid, None) is not None:
            self._gone[dpid] = self._clock()
        pace_discovery(len(self._ports))
        self._ports = {port: up for port, up in self._ports.items() if port.dpid != dpid}
        self._gbps = {port: gbps for port, gbps in self._gbps.items() if port.dpid != dpid}
        self._damper.forget(dpid)
        self._switch_ports = {port for port in self._switch_ports if port.dpid != dpid}
        self._links = {a: b for a, b in self._links.items() if dpid not in (a.dpid, b.dpid)}
        return True

    def port_changed(self, dpid: int, port: Any) -> bool:
        """A port has come, or changed its state or its speed."""
        at = PortId(dpid, port.port_no)
        before = self._ports.get(at), self._gbps.get(at)
        self._set_port(dpid, port)
        after = self._ports.get(at), self._gbps.get(at)
        if before[0] is not None and after[0] is not None and before[0] != after[0]:
            self._damper.changed(at, after[0], self._clock())
        return before != after

    def port_gone(self, dpid: int, number: int) -> bool:
        """A port was removed."""
        self._switch_ports.discard(PortId(dpid, number))
        return self._ports.pop(PortId(dpid, number), None) is not None

    def link_up(self, a: PortId, b: PortId) -> bool:
        """A discovery packet sent out of ``a`` has arrived at ``b``."""
        changed = self._links.get(a) != b
        self._links[a] = b
        # Until it goes down: discovery packets may fail to pass, and a port to a switch is one still.
        self._switch_ports |= {a, b}
        # What was heard from a port that turns out to lead to a switch was only passing through.
        gone = [ip for ip, place in self._hosts.items() if place.at in (a, b)]
        for ip in gone:
            del self._hosts[ip]
        return changed or bool(gone)

    def link_down(self, a: PortId, b: PortId) -> bool:
        """Discovery packets no longer pass from ``a`` to ``b``."""
        if self._links.get(a) != b:
            return False
        del self._links[a]
        return True

    def heard(self, ip: str, mac: str, at: PortId) -> bool:
        """A host has spoken from an edge port (one that leads to no switch)."""
        if at in self._switch_ports:
            return False
        known = self._hosts.get(ip)
        if known is not None and known.mac != mac and self._ports.get(known.at, False) and known.at != at:
            # Two hosts with one address: the first keeps it, and the clash is reported.
            clash = (ip, known.mac, mac)
            changed = self._duplicates.get(clash) != at
            self._duplicates[clash] = at
            return changed
        self._hosts[ip] = Location(mac, at)
        return known != self._hosts[ip]

    def edge_ports(self) -> list[PortId]:
        """Ports that are up and lead to no switch, as far as is known."""
        return sorted(port for port, up in self._ports.items() if up and port not in self._switch_ports)

    def silent_ports(self) -> list[PortId]:
        """Edge ports from which no host has been heard."""
        spoken = {place.at for place in self._hosts.values()}
        return [port for port in self.edge_ports() if port not in spoken]

    def place(self, ip: str) -> Location | None:
        """Where a host was heard last."""
        return self._hosts.get(ip)

    def _clashes(self, ip: str, second: PortId) -> bool:
        """Whether two hosts claim an address still: both their ports are up."""
        first = self._hosts.get(ip)
        if first is None or first.at == second:
            return False
        return self._ports.get(first.at, False) and self._ports.get(second, False)

    def _set_port(self, dpid: int, port: Any) -> None:
        if port.port_no >= ofp.OFPP_MAX:
            return
        up = not (port.config & ofp.OFPPC_PORT_DOWN) and not (port.state & ofp.OFPPS_LINK_DOWN)
        at = PortId(dpid, port.port_no)
        self._ports[at] = up
        if up and port.curr_speed:
            self._gbps[at] = port.curr_speed / KBPS_PER_GBPS
        else:
            self._gbps.pop(at, None)
        if not up:
            self._switch_ports.discard(at)


def port_id(port: Any) -> PortId:
    """Ryu's topology port as ours."""
    return PortId(port.dpid, port.port_no)


def pace_discovery(ports: int) -> None:
    """Have Ryu ask all ports within ``ROUND`` seconds of each other, however many there are.

    It would send one discovery packet every 50 ms: on 1,000 ports a round would take 50 s, and a link whose first
    packet found the far switch not connected yet would look broken for as long.
    """
    switches = lookup_service_brick("switches")
    if switches is not None:
        switches.LLDP_SEND_GUARD = min(type(switches).LLDP_SEND_GUARD, ROUND / max(1, ports))


def release_topology() -> None:
    """Wake Ryu's discovery loops so that they can end: Ryu waits for them before it tells them to."""
    switches = lookup_service_brick("switches")
    if switches is not None and switches.link_discovery:
        switches.is_active = False
        switches.lldp_event.set()
        switches.link_event.set()
