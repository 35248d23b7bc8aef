"""Finding hosts: ARP packets that reach the controller, and probes for hosts that nobody has heard yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ryu.lib import hub

from controller.model.fabric import Fabric
from controller.model.observed import PortId
from controller.southbound.base import HOST
from controller.southbound.openflow import arp, messages
from controller.southbound.openflow.arp import Allowance, Probes
from controller.southbound.openflow.discovery import Discovery
from controller.southbound.rules import Output, SwitchRules

TICK = 0.1
"""Seconds between two looks at what is to be sent."""

FIRST_ROUND, LAST_ROUND = 1.0, 60.0
"""Seconds until hosts that are not heard are asked for again, doubling from the first to the last."""


class HostFinder:
    """Learns where hosts are, and answers ARP requests that no rule delivers."""

    def __init__(
        self,
        discovery: Discovery,
        *,
        fabric: Callable[[], Fabric | None],
        datapath: Callable[[int], Any],
        clock: Callable[[], float],
        probes_per_second: int,
    ) -> None:
        """
        Args:
            fabric: the fabric as it is known now.
            datapath: the connection of a switch, ``None`` where there is none.
        """
        self._discovery, self._fabric, self._datapath, self._clock = discovery, fabric, datapath, clock
        self._probes = Probes(probes_per_second, clock())
        self._answers = Allowance(probes_per_second, clock())

    def start(self) -> None:
        """Begin to ask for hosts that are not heard."""
        hub.spawn(self._run)

    def was_read(self, dpid: int, held: SwitchRules) -> None:
        """A switch has connected with rules from before a restart: hosts are asked for where those rules lead."""
        for rule in held.rules.values():
            fields = dict(rule.match)
            if rule.priority == HOST and "ipv4_dst" in fields and rule.actions:
                out = rule.actions[0]
                if isinstance(out, Output):
                    self._probes.want(str(fields["ipv4_dst"]), [PortId(dpid, out.port)])

    def packet(self, message: Any) -> bool:
        """A packet has come from a switch; whether it taught us anything about where hosts are."""
        heard = arp.parse(message.data)
        if heard is None:
            return False
        at = PortId(message.datapath.id, message.match["in_port"])
        changed = heard.ip != arp.NOBODY and self._discovery.heard(heard.ip, heard.mac, at)
        self._probes.found(heard.ip)
        if heard.request and heard.target != heard.ip:
            self._asked(heard, at)
        return changed

    def _asked(self, heard: arp.Heard, at: PortId) -> None:
        owner = self._discovery.place(heard.target)
        if owner is None:
            self._probes.want(heard.target, (port for port in self._discovery.edge_ports() if port != at))
        elif owner.at != at and self._answers.take(self._clock()):
            self._send(at, arp.answer(heard, owner))

    def _run(self) -> None:
        wait, asked_at, ports = FIRST_ROUND, -LAST_ROUND, 0
        while True:
            edge = self._discovery.edge_ports()
            if len(edge) != ports:
                # Something was plugged in or came up: hosts may be there that were not before.
                wait, ports = FIRST_ROUND, len(edge)
            if self._clock() - asked_at >= wait:
                self._ask_round(edge, everywhere=wait > FIRST_ROUND)
                wait, asked_at = min(2 * wait, LAST_ROUND), self._clock()
            for ip, port in self._probes.due(self._clock()):
                self._send(port, arp.probe(ip))
            hub.sleep(TICK)

    def _ask_round(self, edge: list[PortId], *, everywhere: bool) -> None:
        """Ask for each host of the fabric that is not heard: where it should be, later wherever nobody was heard."""
        fabric = self._fabric()
        if fabric is None:
            return
        dpid = {leaf.name: leaf.dpid for leaf in fabric.leaves}
        free: list[PortId] | None = None
        for host in fabric.hosts:
            place = self._discovery.place(host.ip)
            if place is not None:
                continue
            if host.port is not None and not everywhere:
                self._probes.want(host.ip, [PortId(dpid[host.leaf], host.port)])
                continue
            if free is None:
                free = self._discovery.silent_ports()
            self._probes.want(host.ip, free)

    def _send(self, port: PortId, data: bytes) -> None:
        datapath = self._datapath(port.dpid)
        if datapath is not None:
            datapath.send_msg(messages.packet_out(datapath, port.port, data))
