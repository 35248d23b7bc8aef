"""Sends discovery packets, receives them, and reports when discovery has stopped.

Packets of one switch go out in one write: packet-outs of which only stamp and code differ from the last time, and a
barrier request behind them, whose answer shows that they are out. What comes in is taken before Ryu's parser
(``packet_in``). What it all means is for ``controller.southbound.discovery.link_evidence``.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery import lldp
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.discovery.ignored_packets import IgnoredKind, IgnoredPackets
from controller.southbound.discovery.link_evidence import LATE, LONGEST, PacketVerdict
from controller.southbound.discovery.probe_schedule import TURN
from controller.southbound.openflow.connections.packet_in import PacketIn
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.observing.discovery import Discovery
from controller.southbound.rollout.write_permission import WritePermission

LOG = logging.getLogger("fairspine.southbound")

STILL_SECONDS = 10.0
"""Without a packet that comes back for so long (and for two rounds), discovery has stopped."""

NOTICE_SECONDS = 0.5
"""Seconds between two checks of all switches for faults of discovery."""

WAITING_BYTES = 1 << 16
"""A connection on which so much waits to be sent gets no more packets."""

BARRIERS = 256
"""Number of unanswered barriers in the last ``LONGEST`` seconds after which a switch is sent no more packets."""

MANY = 500
"""While cables of more ports than this are to be found, results are reported together ..."""

TOGETHER_SECONDS = 5.0
"""... at this interval in seconds, because each report causes work on the whole network."""

XID = 0xFA150000
"""Transaction id of all packet-outs: they have no answer."""

_PACKET_OUT = struct.Struct("!BBHIIIH6xHHIH6x")
"""Header, buffer id, in port, length of actions, one output action (OpenFlow 1.3.5, section 7.3.7)."""


def packet_out(dpid: int, port: int) -> tuple[bytes, bytes]:
    """Return the message before the frame, and the part of the frame that never changes."""
    head = _PACKET_OUT.pack(
        ofp.OFP_VERSION,
        ofp.OFPT_PACKET_OUT,
        _PACKET_OUT.size + lldp.FRAME_BYTES,
        XID,
        ofp.OFP_NO_BUFFER,
        ofp.OFPP_CONTROLLER,
        16,
        ofp.OFPAT_OUTPUT,
        16,
        port,
        0,
    )
    return head, lldp.head(dpid, port)


@dataclass
class _Connection:
    """The state of one connection.

    Attributes:
        templates: frames by port.
        barriers: stamp and time of each unanswered barrier, in the order in which they were sent.
        unanswered: since when the switch owes an answer; ``None``: it owes none.
    """

    datapath: Any
    templates: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    barriers: dict[int, tuple[int, float]] = field(default_factory=dict)
    unanswered: float | None = None

    def asked(self, xid: int, stamp: int, now: float) -> None:
        """Record that a barrier request was sent."""
        self.barriers[xid] = stamp, now
        if self.unanswered is None:
            self.unanswered = now

    def answered(self, xid: int, now: float) -> int | None:
        """Record that a barrier is answered; return the stamp of the packets before it, if it is known."""
        stamp, _ = self.barriers.pop(xid, (None, 0.0))
        if stamp is not None:
            # Answers come in order: an earlier one that is missing will not come.
            is_last = not self.barriers or next(reversed(self.barriers.values()))[0] < stamp
            self.unanswered = None if is_last else now
        return stamp

    def takes_more(self, now: float) -> bool:
        """Return whether a write would not block: a switch that does not read must not hold up the others."""
        while self.barriers:
            xid, (_, asked) = next(iter(self.barriers.items()))
            if now - asked <= LONGEST:
                break
            # The packets before it are too old to be believed, so the answer has no use.
            del self.barriers[xid]
        return self.datapath.waiting_bytes < WAITING_BYTES and len(self.barriers) < BARRIERS


class Prober:
    """The greenlet that sends, and the handlers of what comes back.

    Attributes:
        permission: to change switches; without it nothing is sent.
    """

    def __init__(
        self,
        discovery: Discovery,
        *,
        changed: Callable[[], None],
        noticed: Callable[[], None],
        name: Callable[[SwitchKey], str],
        clock: Callable[[], float],
        dropped: Mapping[int, int] | None = None,
    ) -> None:
        """Begin without switches; ``start`` begins to send.

        Args:
            discovery: the observed state.
            changed: called when the observed network has changed.
            noticed: called when there is a new notice.
            name: of a switch, for people.
            clock: seconds of a monotonic clock, never the time of day.
            dropped: how many packets of each switch were dropped unread; it grows. ``None``: none ever is.
        """
        self._dropped, self._dropped_before = {} if dropped is None else dropped, dict[int, int]()
        self.permission = WritePermission()
        self._discovery, self._evidence = discovery, discovery.evidence
        self._changed, self._noticed, self._name, self._clock = changed, noticed, name, clock
        self._seal = lldp.Seal()
        self._connections: dict[SwitchKey, _Connection] = {}
        self._ignored = IgnoredPackets(name, discovery.intended_host)
        self._sent = self._received = 0
        self._ran = clock()
        self._lag, self._lag_at = 0.0, clock()
        self._running = False
        self._notices: list[str] = []
        self._looked_at = clock()
        self._unreported, self._reported_at = False, clock()

    def start(self) -> None:
        """Begin to send."""
        self._running = True
        hub.spawn(self._run)

    def stop(self) -> None:
        """Stop sending."""
        self._running = False

    # -- connections -------------------------------------------------------------------------------------------------

    def connected(self, datapath: Any) -> None:
        """Record that a switch has connected, after ``Discovery`` has."""
        self._connections[datapath.id] = _Connection(datapath)

    def disconnected(self, dpid: int) -> None:
        """Record that a connection has ended."""
        self._connections.pop(dpid, None)

    def listens(self, dpid: int) -> None:
        """Record that a switch has the rule that sends discovery packets to the controller."""
        self._evidence.listens(dpid, self._clock())

    # -- what comes back ---------------------------------------------------------------------------------------------

    def answered(self, datapath: Any, xid: int) -> None:
        """Record that a switch has answered a barrier request (any)."""
        connection = self._connections.get(datapath.id)
        if connection is not None and connection.datapath is datapath:
            stamp = connection.answered(xid, self._clock())
            if stamp is not None:
                self._evidence.answered(datapath.id, stamp, self._clock())

    def packet(self, dpid: int, packet: PacketIn) -> None:
        """Process an LLDP frame from a switch, in the greenlet that reads the connection."""
        probe = self._seal.read(packet.data)
        at = PortId(dpid, packet.in_port)
        if probe is None:
            self._not_believed(IgnoredKind.FORGED if lldp.looks_like_ours(packet.data) else IgnoredKind.FOREIGN, at)
            return
        verdict = self._discovery.arrived(at, probe)
        if verdict is PacketVerdict.KNOWN:
            self._received += 1
        elif verdict is PacketVerdict.NEW:
            self._received += 1
            if len(self._evidence.unconfirmed) > MANY:
                self._unreported = True
            else:
                self._unreported = False
                self._changed()
        else:
            kind = IgnoredKind.STALE if verdict is PacketVerdict.STALE else IgnoredKind.DENIED
            self._not_believed(kind, at, PortId(probe.dpid, probe.port))

    def _not_believed(self, kind: IgnoredKind, at: PortId, sender: PortId | None = None) -> None:
        line = self._ignored.saw(kind, at, self._clock(), sender)
        if line is not None:
            LOG.warning("%s", line)
            self._noticed()

    # -- what is sent ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._running:
            try:
                self._tick()
            except Exception:
                # Continue discovery: this is a programming error.
                LOG.exception("a round of discovery packets failed")
                hub.sleep(1.0)
            hub.sleep(TURN)

    def _tick(self) -> None:
        now = self._clock()
        lag = now - self._ran - TURN
        self._ran = now
        if lag > self._lag or now - self._lag_at > STILL_SECONDS:
            self._lag, self._lag_at = max(0.0, lag), now
        if lag > LATE:
            self._evidence.late(now)
        for dpid, count in self._dropped.items():
            if count != self._dropped_before.get(dpid):
                self._dropped_before[dpid] = count
                self._evidence.dropped(dpid, now)
        if self._discovery.time_passed() or (self._unreported and now - self._reported_at >= TOGETHER_SECONDS):
            self._unreported, self._reported_at = False, now
            self._changed()
        for key, ports in self._evidence.schedule.due(now):
            connection = self._connections.get(key)
            worth = self._evidence.worth_asking(key, ports, now)
            if self.permission.withheld:
                continue
            if worth and connection is not None and connection.takes_more(now):
                self._send(connection, connection.datapath.id, worth)
        if now - self._looked_at >= NOTICE_SECONDS:
            self._looked_at = now
            notices = self._standing_still()
            if notices != self._notices:
                self._notices = notices
                self._noticed()

    def _send(self, connection: _Connection, dpid: int, ports: list[int]) -> None:
        datapath, templates, frame = connection.datapath, connection.templates, self._seal.frame
        stamp = self._evidence.sent(dpid, ports, self._clock())
        parts = []
        for port in ports:
            template = templates.get(port)
            if template is None:
                template = templates[port] = packet_out(dpid, port)
            parts.append(template[0])
            parts.append(frame(template[1], stamp))
        barrier = messages.barrier(datapath)
        xid = datapath.set_xid(barrier)
        barrier.serialize()
        parts.append(bytes(barrier.buf))
        if datapath.offer(b"".join(parts)):
            self._sent += len(ports)
            connection.asked(xid, stamp, self._clock())

    # -- what is reported ------------------------------------------------------------------------------------------

    def notices(self) -> list[str]:
        """Return the faults of discovery, for people."""
        return [*self._standing_still(), *self._ignored.notices(self._clock())]

    def counts(self) -> DiscoveryCounts:
        """Return the counters and the state of discovery."""
        now, evidence = self._clock(), self._evidence
        schedule = evidence.schedule
        return DiscoveryCounts(
            self._sent,
            self._received,
            {kind.value: self._ignored.counts[kind] for kind in IgnoredKind},
            now - schedule.round_ended,
            schedule.period,
            max(self._lag, now - self._ran - TURN),
            len(evidence.silent),
            len(evidence.unconfirmed),
        )

    def _standing_still(self) -> list[str]:
        now, evidence = self._clock(), self._evidence
        reasons = []
        if self._running and now - self._ran > STILL_SECONDS:
            reasons.append("link discovery has stopped: its task does not run; failures of cables are not detected")
        elif evidence.links and now - evidence.heard > max(STILL_SECONDS, 2 * evidence.schedule.period):
            reasons.append("link discovery has stopped: no packet has come back; failures of cables are not detected")
        for key, connection in self._connections.items():
            since = connection.unanswered
            if since is not None and now - since > LONGEST and connection.datapath.intended:
                reasons.append(f"{self._name(key)} does not answer barrier requests: its cables cannot be checked")
        for key in evidence.deaf(now):
            reasons.append(f"{self._name(key)} receives no discovery packets: its cables cannot be checked")
        for key in evidence.mute(now):
            reasons.append(f"{self._name(key)} does not send discovery packets: its cables cannot be checked")
        return reasons
