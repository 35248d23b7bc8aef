"""Finding hosts: ARP packets that reach the controller, and the probes that check what they say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ryu.lib import hub

from controller.model.fabric import Fabric
from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey
from controller.model.texts.zones import plain
from controller.southbound.hosts.host_counts import HostCounts
from controller.southbound.hosts.host_search import Searches
from controller.southbound.hosts.probe_mac import ProbeMac
from controller.southbound.limits.allowance import Allowance, Allowances
from controller.southbound.limits.packet_load import LOUD, PacketLoad
from controller.southbound.openflow.connections.packet_in import PacketIn
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.observing import arp
from controller.southbound.openflow.observing.discovery import Discovery
from controller.southbound.rollout.write_permission import WritePermission
from controller.southbound.rules.priorities import HOST
from controller.southbound.rules.rule import Output
from controller.southbound.rules.rule_set import SwitchRules

LOG = logging.getLogger("fairspine.southbound")

TICK = 0.1
"""Seconds between two checks for packets to send."""

REST = 1.0
"""Seconds until the next check after a failed one."""

FIRST_ROUND, LAST_ROUND = 1.0, 60.0
"""Seconds until hosts that are not heard are asked for again, doubling from the first to the last."""

ANSWERS_PER_PORT = 10.0
"""ARP requests a second of one port that the controller itself answers, or for whose target it searches."""

CHANGE_INTERVAL = 0.5
"""Least seconds between two reports that hosts have changed."""

HOSTS_AT_ONCE = 1000
"""Hosts examined at once when a round begins, which takes about a millisecond."""

CLAIMS_PART = 0.75
"""Part of the probes that checks of claims get while there are searches, too."""


class HostFinder:
    """Learns where hosts are, and answers ARP requests that no rule delivers.

    Attributes:
        fabric: the fabric as it is known now, whose hosts are asked for; ``None``: it is not known.
        permission: to change switches; without it nothing is sent.
        malformed: ARP packets so far that were not sound.
    """

    def __init__(
        self,
        discovery: Discovery,
        *,
        datapath: Callable[[SwitchKey], Any],
        clock: Callable[[], float],
        probes_per_second: int,
        load: PacketLoad,
        dropped: Mapping[int, int],
        changed: Callable[[], None],
    ) -> None:
        """Begin without hosts; ``start`` begins to probe.

        Args:
            discovery: the observed state, with the table of hosts.
            datapath: the connection of a switch, ``None`` where there is none.
            clock: seconds of a monotonic clock.
            probes_per_second: most probes a second.
            load: counts each ARP packet.
            dropped: how many packets of each switch were dropped before they came here; it grows.
            changed: called when hosts have changed, at most once in ``CHANGE_INTERVAL``.
        """
        self._discovery, self._datapath, self._clock = discovery, datapath, clock
        self.fabric: Fabric | None = None
        self._table = discovery.hosts
        self._intended = discovery.intended_hosts
        self._load, self._dropped, self._on_change = load, dropped, changed
        self._known_dropped: dict[int, int] = {}
        self._macs = ProbeMac()
        self._searches = Searches()
        self._probes = Allowance(probes_per_second, clock())
        self._answers = Allowance(probes_per_second, clock())
        self._asks = Allowances(ANSWERS_PER_PORT, ANSWERS_PER_PORT)
        self._is_changed, self._changed_at = False, float("-inf")
        self._wait, self._asked_at, self._n_edge = FIRST_ROUND, float("-inf"), 0
        self.permission = WritePermission()
        self.malformed = 0

    def start(self) -> None:
        """Begin to ask for hosts that are not heard."""
        hub.spawn(self._run)

    def counts(self) -> HostCounts:
        """Return the counters of the host table."""
        table = self._table
        return HostCounts(len(table), table.n_claims, table.n_clashes, table.claims_refused, self.malformed)

    def was_read(self, dpid: int, held: SwitchRules) -> None:
        """Search for hosts where the rules of a switch lead that has connected with rules from before a restart."""
        for rule in held.rules.values():
            if rule.priority != HOST or not rule.actions:
                continue
            fields, out = dict(rule.match), rule.actions[0]
            if "ipv4_dst" in fields and isinstance(out, Output):
                self._table.recall(self._zoned(str(fields["ipv4_dst"]), dpid), PortId(dpid, out.port))

    def packet(self, dpid: int, packet: PacketIn) -> None:
        """Process a packet from a switch."""
        self._load.arrived(dpid)
        at = PortId(dpid, packet.in_port)
        heard = arp.parse(packet.data)
        if heard is None:
            self.malformed += arp.is_arp(packet.data)
            return
        if not self._discovery.is_edge(at):
            return
        now = self._clock()
        if heard.ip != arp.NOBODY:
            ip = self._zoned(heard.ip, dpid)
            if not heard.request and self._macs.proves(heard.target_mac, heard.ip, at, now):
                self._searches.end(ip)
                self._changed(self._table.answered(ip, heard.mac, at, now))
            else:
                self._table.heard(ip, heard.mac, at, now)
        if heard.request and heard.target not in (heard.ip, arp.NOBODY):
            self._asked(heard, at, now)

    def _asked(self, heard: arp.Heard, at: PortId, now: float) -> None:
        """Handle a host's request for an address to which no rule leads, or not from there."""
        target = self._zoned(heard.target, at.switch)
        if self._intended is not None and target not in self._intended.leaves:
            # No such host, or one whose port the file names: rounds ask for it there.
            return
        owner = self._table.place(target)
        if (owner is not None and owner.at == at) or not self._asks.take(at, now):
            return
        if owner is None:
            self._searches.want(target, (port for port in self._discovery.edge_ports() if port != at), asker=at)
        elif self._answers.take(now):
            self._send(at, arp.answer(heard, owner))

    def _zoned(self, ip: str, key: SwitchKey) -> str:
        """Return the address of a host on a switch with its zone."""
        return ip if self._intended is None else self._intended.zoned(ip, key)

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except Exception:
                # Continue the search: this is a programming error.
                LOG.exception("a round of the search for hosts failed")
                hub.sleep(REST)
            hub.sleep(TICK)

    def _look(self) -> None:
        """Begin a round if one is due, and send what is."""
        n_edge = self._discovery.n_edge_ports
        if n_edge != self._n_edge:
            # Something was plugged in or came up: hosts may be there that were not before.
            self._wait, self._n_edge = FIRST_ROUND, n_edge
        if self._clock() - self._asked_at >= self._wait:
            wait, self._wait, self._asked_at = self._wait, min(2 * self._wait, LAST_ROUND), self._clock()
            self._ask_round(everywhere=wait > FIRST_ROUND)
        self._tick(self._clock())

    def _tick(self, now: float) -> None:
        """Send the probes that are due, and report what has changed."""
        for dpid, count in self._dropped.items():
            if count != self._known_dropped.get(dpid, 0):
                self._load.arrived(dpid, max(count - self._known_dropped.get(dpid, 0), 0))
                self._known_dropped[dpid] = count
        room = self._probes.available(now)
        most = max(1, int(room * CLAIMS_PART)) if len(self._searches) and room else room
        claims, changed = self._table.due(now, most)
        searches = self._searches.due(room - len(claims))
        for ip, port in (*claims, *searches):
            self._send(port, arp.probe(plain(ip), self._macs.of(plain(ip), port, now)))
        self._probes.spend(len(claims) + len(searches))
        for ip in self._table.newly_away():
            self._searches.want(ip, self._discovery.edge_ports())
        self._is_changed |= changed
        self._report(now)

    def _changed(self, changed: bool) -> None:
        self._is_changed |= changed
        self._report(self._clock())

    def _report(self, now: float) -> None:
        if self._is_changed and now - self._changed_at >= CHANGE_INTERVAL:
            self._is_changed, self._changed_at = False, now
            self._on_change()

    def _ask_round(self, *, everywhere: bool) -> None:
        """Ask for each host of the fabric that is not heard: at its port, later at all ports without a known host."""
        fabric = self.fabric
        if fabric is None:
            return
        key = {leaf.name: leaf.key for leaf in fabric.leaves}
        free: list[PortId] | None = None
        for number, host in enumerate(fabric.hosts):
            if number % HOSTS_AT_ONCE == HOSTS_AT_ONCE - 1:
                # Packets and requests wait meanwhile.
                hub.sleep(0)
            if not isinstance(key[host.leaf], int):
                # No OpenFlow port leads to it.
                continue
            ip = self._zoned(host.ip, key[host.leaf])
            if self._table.place(ip) is not None:
                if self._table.is_away(ip):
                    self._searches.want(ip, self._discovery.edge_ports())
                continue
            if host.port is not None and not everywhere:
                self._searches.want(ip, [PortId(key[host.leaf], host.port)])
                continue
            if free is None:
                free = self._discovery.silent_ports()
            self._searches.want(ip, free)

    def _send(self, port: PortId, data: bytes) -> None:
        datapath = None if self.permission.withheld else self._datapath(port.switch)
        # The probe may be dropped: a switch that does not read must not hold up the sender.
        if datapath is None or not datapath.offer_msg(messages.packet_out(datapath, port.port, data)):
            # The probe was not sent, so a missing answer has no meaning.
            self._load.arrived(port.switch, LOUD)
