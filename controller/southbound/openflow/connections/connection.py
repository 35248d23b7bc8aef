"""One connection to a switch: reads and checks messages, drops those in excess, and passes the rest to Ryu.

It is Ryu's ``Datapath`` with its loops replaced (docs/explanation/ryu.md says why). Everything a peer can do wrong
ends at most its own connection, with one line in the log.
"""

from __future__ import annotations

import contextlib
import socket as sockets
import struct
import time
import traceback
from typing import Any

from ryu.controller import controller, ofp_event
from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, HANDSHAKE_DISPATCHER, MAIN_DISPATCHER
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.limits.allowance import Allowance
from controller.southbound.limits.packet_budget import PacketBudget
from controller.southbound.openflow.connections import own_messages, packet_in, raw_replies
from controller.southbound.openflow.connections.connection_context import ConnectionContext
from controller.southbound.openflow.connections.message_cutter import MessageCutter
from controller.southbound.openflow.connections.outbox import Outbox
from controller.southbound.openflow.connections.raw_replies import TooMuchError
from controller.southbound.openflow.connections.readable import Reader
from controller.southbound.wire import message_check as check
from controller.southbound.wire.length_check import MalformedError

READ_BYTES = 1 << 16
"""Read at once: a whole message of any size, or hundreds of small ones."""

MOST_PORTS = 4096
"""Ports of one switch, besides the special ones."""

TURN_SECONDS = 0.003
"""Seconds of reading after which other connections are served."""

FLOOD_REST = 4.0
"""After a read with more packets than allowed, the connection pauses for this multiple of the duration of the read."""

LONGEST_REST = 0.1

PORT_CHANGES_PER_SECOND = 1000
"""Beyond this, reading waits; no change is lost."""

UNASKED_PER_SECOND = 100
"""Messages of one type without a receiver: those beyond this are dropped."""

FIRST_XID = 2
"""Of the hello. Mininet reads the hello as text when it checks that a controller listens: it ends with an error on most
bytes above 127, and waits forever after a byte 1."""

_PORT_NUMBER = struct.Struct("!I")
_PORT_SIZE = 64

_EVENTS: dict[int, str] = {
    check.ERROR: "EventOFPErrorMsg",
    check.EXPERIMENTER: "EventOFPExperimenter",
    check.GET_CONFIG_REPLY: "EventOFPGetConfigReply",
    check.FLOW_REMOVED: "EventOFPFlowRemoved",
    check.PORT_STATUS: "EventOFPPortStatus",
    check.BARRIER_REPLY: "EventOFPBarrierReply",
    check.QUEUE_GET_CONFIG_REPLY: "EventOFPQueueGetConfigReply",
    check.ROLE_REPLY: "EventOFPRoleReply",
    check.GET_ASYNC_REPLY: "EventOFPGetAsyncReply",
}
"""Ryu's events by the type of the message that they are made of."""


class _BrokenError(Exception):
    """A message is malformed. ``message``: its bytes, as far as they are known."""

    def __init__(self, text: str, message: bytes) -> None:
        super().__init__(text)
        self.message = message


class SwitchConnection(controller.Datapath):
    """A connection, from its first byte to its last.

    Attributes:
        received: how often something has come: it grows with every sign of life.
        at_gate: whether it waits for admission.
        reading: whether what comes is read now; else it is still worked on, or waits for its turn here.
        progress: how many steps of the handshake have been made.
        unfinished_since: since when a message is being received, on the clock of ``ConnectionContext.awake``.
        sending_since: since when the same bytes are being written, on that clock.
        cutter: what the bytes that come are cut by.
        intended: whether its switch may be part of the intended fabric, as far as is known.
    """

    ports: Any = None
    """The ports by number. Ryu's own attribute warns at every access."""

    at_gate = False
    intended = True
    state: Any
    xid: int

    def __init__(self, context: ConnectionContext, socket: Any, address: Any) -> None:
        """Prepare a connection that was accepted; ``serve`` runs it."""
        self.context = context
        self.received = 0
        self.reading = False
        self.progress = 0
        self.unfinished_since: float | None = None
        self.sending_since: float | None = None
        self._outbox = Outbox()
        now = time.perf_counter()
        self.cutter = MessageCutter(
            PacketBudget(context.everybody),
            watched=context.watched,
            # All ports of a switch that is not intended share one budget.
            has_port=lambda port: self.intended and port in self.ports,
            answer=lambda reply: self._outbox.offer(reply, ahead=True),
            now=now,
        )
        self._port_changes = Allowance(PORT_CHANGES_PER_SECOND, now)
        self._unasked: dict[int, Allowance] = {}
        self._ended = ""
        super().__init__(socket, address)
        # Ryu's is drawn. The first message gets the one after it.
        self.xid = FIRST_XID - 1
        self._reader = Reader(self.socket)
        self.ports = {}

    @property
    def packets(self) -> PacketBudget:
        """The budget of packets from this switch."""
        return self.cutter.packets

    @property
    def echoed(self) -> int:
        """The number of echo replies received."""
        return self.cutter.echoed

    @property
    def place(self) -> str:
        """The peer's address, without the port, which differs each time."""
        return str(self.address[0]) if self.address else "a local socket"

    @property
    def who(self) -> str:
        """The switch and its address, for people."""
        if self.id is None:
            return f"the connection from {self.place}"
        return f"{self.context.name(int(self.id))} (connected from {self.place})"

    # -- life ------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Exchange messages until the connection ends; called once, in its own greenlet."""
        sender = hub.spawn(self._send_loop)
        try:
            self.send_msg(self.ofproto_parser.OFPHello(self))
            self._recv_loop()
        finally:
            self._outbox.close()
            hub.kill(sender)
            self.is_active = False
            self._reader.close()
            with contextlib.suppress(OSError):
                self.socket.close()

    def end(self, reason: str, kind: str, *, error: bytes = b"") -> None:
        """End the connection and say why, in one line for all such endings of a minute.

        Args:
            reason: in words, for the log.
            kind: of reason, one of a few; they are counted by it.
            error: an OpenFlow error that is sent to the switch before.
        """
        if self._ended or self.state == DEAD_DISPATCHER:
            return
        self._ended = kind
        self.context.ended(self.place, self.who, kind, reason)
        if error and self._outbox.offer(error):
            # The sender's turn: the error is on its way before the connection is cut.
            hub.sleep(0)
        self.close()

    def close(self) -> None:
        """End the connection; nothing of it remains but what others hold."""
        self.set_state(DEAD_DISPATCHER)
        self._outbox.close()
        self._close_write()

    def _close_write(self) -> None:
        """Shut both directions down: a blocked read returns at once, and the file is closed."""
        with contextlib.suppress(OSError, EOFError):
            self.socket.shutdown(sockets.SHUT_RDWR)

    # -- sending ---------------------------------------------------------------------------------------------

    def send(self, buf: Any, close_socket: bool = False) -> bool:
        """Queue messages, once there is room; blocks the greenlet. Return ``False`` where the connection is closing."""
        return self._outbox.put(bytes(buf), last=close_socket)

    def offer(self, data: bytes) -> bool:
        """Queue messages if there is room now: for what may be lost. Never blocks. Return whether they are queued."""
        return self._outbox.offer(data)

    def offer_msg(self, message: Any) -> bool:
        """Serialize one of Ryu's messages and ``offer`` it."""
        if message.xid is None:
            self.set_xid(message)
        message.serialize()
        return self._outbox.offer(bytes(message.buf))

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that wait to be sent."""
        return self._outbox.waiting

    def ask_echo(self) -> None:
        """Send an echo request, unless there is no room for it."""
        self.xid = (self.xid + 1) & ofp.MAX_XID
        self._outbox.offer(own_messages.echo_request(self.xid))

    def _send_loop(self) -> None:
        last = False
        try:
            while not last:
                data, last = self._outbox.take()
                if data:
                    self.sending_since = self.context.awake
                    self.socket.sendall(data)
                    self.sending_since = None
        except (OSError, EOFError):
            # The switch does not read, or is gone; the reading greenlet detects that.
            pass
        finally:
            self._outbox.close()
            self._close_write()

    # -- receiving -------------------------------------------------------------------------------------------

    def _recv_loop(self) -> None:
        while self.state != DEAD_DISPATCHER:
            self.reading = True
            try:
                data = self._reader.read(READ_BYTES)
            except TimeoutError:
                continue
            except (OSError, EOFError):
                return
            if not data:
                return
            self.reading = False
            self.received += 1
            if self.state == MAIN_DISPATCHER:
                self.context.heard, self.context.heard_at = self.context.awake, self.context.clock()
            data = self.cutter.joined(data)
            if not data:
                continue
            try:
                used = self._take(data)
            except _BrokenError as error:
                self._refuse(error.message, str(error))
                return
            except TooMuchError as error:
                self.context.notices.give((self.id, "too long"), f"{self.who}: {error}: the connection was closed")
                self.end(str(error), "reply too long")
                return
            if used or self.unfinished_since is None:
                self.unfinished_since = self.context.awake
            self.cutter.keep(data, used)
            if not self.cutter.unfinished:
                self.unfinished_since = None

    def _take(self, data: bytes) -> int:
        """Take all whole messages; return how many bytes they are.

        Raises:
            _BrokenError: the switch does not speak OpenFlow 1.3 as it should.
            TooMuchError: a reply is too long.
        """
        began = time.perf_counter()
        dropped = self.packets.dropped
        todo, used, broken = self.cutter.cut(data, began, in_handshake=self.state != MAIN_DISPATCHER)
        turn = began
        for kind, xid, at, end in todo:
            if self.state == DEAD_DISPATCHER:
                return used
            try:
                self._receive(kind, xid, data[at:end])
            except MalformedError as error:
                raise _BrokenError(str(error), data[at:end]) from None
            now = time.perf_counter()
            if now - turn > TURN_SECONDS:
                hub.sleep(0)
                turn = time.perf_counter()
        if broken:
            # Its length may be wrong, too: include at least its header.
            length = int.from_bytes(data[used + 2 : used + 4], "big")
            raise _BrokenError(broken, data[used : used + max(length, check.HEADER_SIZE)])
        too_many = self.packets.dropped - dropped
        if too_many:
            self.context.too_many_packets(self.id, self.who, too_many)
            hub.sleep(min(LONGEST_REST, FLOOD_REST * (time.perf_counter() - began)))
        elif len(data) >= READ_BYTES // 2:
            hub.sleep(0)
        return used

    def _receive(self, kind: int, xid: int, message: bytes) -> None:
        """Process one whole message that is no echo."""
        try:
            if kind == check.PACKET_IN:
                if packet_in.receive(self, message) or self.state != MAIN_DISPATCHER:
                    return
            elif not self._is_of_use(kind, xid, message):
                return
            check.check(message)
        except MalformedError as error:
            raise MalformedError(f"{check.name(kind)}: {error}") from None
        if kind == check.HELLO:
            self._hello(message)
        elif kind == check.PORT_STATUS:
            self._port_status(message)
        else:
            self._dispatch(kind, xid, message)

    def _is_of_use(self, kind: int, xid: int, message: bytes) -> bool:
        """Return whether a message has a receiver. One without is not parsed."""
        state = self.state
        if kind == check.MULTIPART_REPLY:
            if state == MAIN_DISPATCHER:
                raw_replies.receive(self, xid, message)
                return False
            return state == CONFIG_DISPATCHER and self.id is not None and _is_port_description(message)
        if kind == check.HELLO:
            return bool(state == HANDSHAKE_DISPATCHER)
        if kind == check.FEATURES_REPLY:
            return state == CONFIG_DISPATCHER and self.id is None
        if kind not in _EVENTS:
            name = check.name(kind)
            self.context.log.warning((self.place, "unknown"), "%s sends %s, which are dropped", self.who, name)
            return False
        if state != MAIN_DISPATCHER:
            return kind == check.ERROR
        if kind == check.PORT_STATUS or (
            kind in (check.ERROR, check.BARRIER_REPLY) and raw_replies.expected(self, xid)
        ):
            return True
        return self._rate(kind).take(time.perf_counter()) and self._somebody_listens(kind)

    def _rate(self, kind: int) -> Allowance:
        allowance = self._unasked.get(kind)
        if allowance is None:
            allowance = self._unasked[kind] = Allowance(UNASKED_PER_SECOND, time.perf_counter())
        return allowance

    def _somebody_listens(self, kind: int) -> bool:
        event = getattr(ofp_event, _EVENTS[kind])
        return bool(self.ofp_brick.observers.get(event) or self.ofp_brick.event_handlers.get(event))

    # -- single messages -------------------------------------------------------------------------------------

    def _hello(self, message: bytes) -> None:
        """Handle a HELLO: Ryu's own parser of this message misreads the padding of its elements."""
        offered = check.offered_versions(message)
        if ofp.OFP_VERSION not in offered:
            text = f"it supports OpenFlow {own_messages.versions(offered)}, not 1.3"
            self.end(text, "version", error=own_messages.incompatible(message, text))
            return
        self.progress += 1
        hello = parser.OFPHello(self, [parser.OFPHelloElemVersionBitmap([ofp.OFP_VERSION])])
        hello.set_headers(ofp.OFP_VERSION, check.HELLO, len(message), 0)
        self._tell(hello)

    def _port_status(self, message: bytes) -> None:
        (number,) = _PORT_NUMBER.unpack_from(message, 16)
        added = message[8] != ofp.OFPPR_DELETE
        if number > ofp.OFPP_MAX and number != ofp.OFPP_LOCAL:
            return
        if number not in self.ports and (not added or not self._has_room_for_port(len(self.ports))):
            return
        while not self._port_changes.take(time.perf_counter()):
            hub.sleep(0.1)
        self._dispatch(check.PORT_STATUS, 0, message)

    def _has_room_for_port(self, known: int) -> bool:
        if known < MOST_PORTS:
            return True
        text = f"{self.who} reports more than {MOST_PORTS} ports: the others are not used"
        self.context.notices.give((self.id, "ports"), text)
        self.context.log.warning((self.id, "ports"), "%s", text)
        return False

    def _dispatch(self, kind: int, xid: int, message: bytes) -> None:
        """Parse a checked message with Ryu, and pass it to its applications."""
        if kind == check.MULTIPART_REPLY:
            message = self._with_fewer_ports(message)
        try:
            parsed = parser.msg_parser(self, message[0], kind, len(message), xid, message)
        except Exception as error:
            raise MalformedError(f"{check.name(kind)}: cannot be parsed: {type(error).__name__} {error}") from None
        if kind == check.ERROR and self.state != MAIN_DISPATCHER:
            self.end(f"it rejects the handshake: error of type {parsed.type}", "refused by the switch")
            return
        self.progress += kind in (check.FEATURES_REPLY, check.MULTIPART_REPLY)
        self._tell(parsed)

    def _with_fewer_ports(self, message: bytes) -> bytes:
        """Return a description of ports without those beyond ``MOST_PORTS``."""
        room = max(0, MOST_PORTS - len(self.ports))
        end = ofp.OFP_MULTIPART_REPLY_SIZE + room * _PORT_SIZE
        if len(message) <= end:
            return message
        self._has_room_for_port(MOST_PORTS)
        return message[:2] + struct.pack("!H", end) + message[4:end]

    def _tell(self, message: Any) -> None:
        """Pass an event to Ryu's applications, as Ryu's own loop does."""
        event = ofp_event.ofp_msg_to_ev(message)
        brick, state = self.ofp_brick, self.state
        brick.send_event_to_observers(event, state)
        if isinstance(message, parser.OFPErrorMsg):
            # Ryu's handler only logs a line for each, and fails on text that is not ASCII.
            return
        for handler in brick.get_handlers(event):
            if state in handler.callers[event.__class__].dispatchers:
                handler(event)

    def _refuse(self, message: bytes, reason: str) -> None:
        self.end(reason, "malformed", error=own_messages.broken(message))


def _is_port_description(message: bytes) -> bool:
    return message[8:10] == ofp.OFPMP_PORT_DESC.to_bytes(2, "big")


def place_of(error: BaseException) -> str:
    """Return the file and line where an exception was raised, for people."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
