"""The requester's half of a queue pair: messages in, packets out, acknowledgements in, completions out.

Reliable connection after InfiniBand Architecture volume 1, chapter 9.7: cumulative acknowledgements, go-back-N on a
sequence error (NAK) and on a timeout, an error after too many timeouts. Additions to that standard: the window
counts packets, the timeout adapts (RFC 6298: links a thousand times slower with deep queues have no fixed delay), and
the rate follows ``RateControl``.

Pure: no socket, no clock. Time is seconds from any origin, never backwards.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, replace

from controller.model.errors import InputError
from controller.model.paces import UNANSWERED, window_of_pace
from emulation.roce.pacer import Pacer
from emulation.roce.psn import MAX_WINDOW, PSN_MASK, psn_offset
from emulation.roce.rate import RateControl
from emulation.roce.wire import (
    FRAME_OVERHEAD,
    MAX_MESSAGE,
    NAK_SEQUENCE,
    PATH_MTUS,
    SYNDROME_ACK,
    SYNDROME_NAMES,
    WRITE_FIRST,
    WRITE_LAST,
    WRITE_LAST_IMMEDIATE,
    WRITE_MIDDLE,
    WRITE_ONLY,
    WRITE_ONLY_IMMEDIATE,
    Ack,
    Reth,
    Write,
)

LEAST_WINDOW = 8
"""Packets of the window of a QP that is not paced: with fewer, a queue of some packets on its path stops it."""


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """Options of a sending queue pair.

    Attributes:
        mtu: path MTU, payload bytes of a full packet: one of ``wire.PATH_MTUS``.
        window: largest number of unacknowledged packets.
        ack_every: number of packets after which an acknowledgement is requested, besides the last packet of each
            message. At most half the window is used, since the sender would otherwise wait without a request.
        line_rate: upper limit of the rate in bit/s on the wire.
        pace_window: of a NIC that cannot pace: round trips of its pace that a QP may have in flight, and
            ``UNANSWERED`` packets, of which half wait for an acknowledgement at most. 0: it paces.
        round_trip: seconds of a packet and its acknowledgement with empty queues; 0: each QP measures them.
        first_timeout, min_timeout, max_timeout: seconds; before the first round trip was measured, and the bounds.
        retries: consecutive timeouts, without any progress, before the queue pair fails (7 in InfiniBand as well).
    """

    mtu: int = 4096
    window: int = 32
    ack_every: int = 8
    line_rate: float = 1e9
    pace_window: float = 0.0
    round_trip: float = 0.0
    first_timeout: float = 1.0
    min_timeout: float = 0.2
    max_timeout: float = 4.0
    retries: int = 7

    def __post_init__(self) -> None:
        """Check the values; raise ``InputError`` for an invalid one."""
        if self.mtu not in PATH_MTUS:
            raise InputError(
                f"the path MTU must be one of {', '.join(map(str, PATH_MTUS))}", field="mtu", value=self.mtu
            )
        if not 1 <= self.window < MAX_WINDOW:
            raise InputError("a window must have 1 to 2^23 - 1 packets", field="window", value=self.window)
        if self.ack_every < 1:
            raise InputError("must be at least 1", field="ack_every", value=self.ack_every)
        if not self.line_rate > 0:
            raise InputError("must be more than 0", field="line_rate", value=self.line_rate)
        if not 0 <= self.pace_window < math.inf:
            raise InputError("must be a number and not negative", field="pace_window", value=self.pace_window)
        if not 0 <= self.round_trip < math.inf:
            raise InputError("must be a number and not negative", field="round_trip", value=self.round_trip)
        if not 0 < self.min_timeout <= self.first_timeout <= self.max_timeout:
            raise InputError("0 < min_timeout <= first_timeout <= max_timeout", field="first_timeout")
        if self.retries < 0:
            raise InputError("must not be negative", field="retries", value=self.retries)

    def part(self, share: float, *, paced: bool = True) -> SenderOptions:
        """Return the options of one of several QPs of a connection.

        A ``paced`` one is a piece of a split flow: it has its share of the window (two packets at least) and of the
        rate. Others send as fast as they can, and have twice their share of the window, ``LEAST_WINDOW`` at least: QPs
        meet different queues, and one that waits must not keep the others waiting at the end of each message.
        """
        if not 0 < share <= 1:
            raise InputError("a share must be above 0 and at most 1", field="share", value=share)
        if paced:
            window = min(self.window, max(2, round(self.window * share)))
            return replace(self, window=window, line_rate=self.line_rate * share)
        return replace(self, window=min(self.window, max(LEAST_WINDOW, round(2 * self.window * share))))


@dataclass(slots=True)
class SenderCounters:
    """Counters of a sender. ``bytes`` is the payload of completely acknowledged messages."""

    messages: int = 0
    bytes: int = 0
    packets: int = 0
    retransmissions: int = 0
    sequence_naks: int = 0
    timeouts: int = 0


@dataclass(frozen=True, slots=True)
class _Message:
    data: memoryview
    va: int
    rkey: int
    tag: object
    immediate: int | None
    first: int
    end: int

    def opcode(self, sequence: int) -> int:
        """Return the opcode of a packet of this message."""
        is_first, is_last = sequence == self.first, sequence == self.end - 1
        if not is_last:
            return WRITE_FIRST if is_first else WRITE_MIDDLE
        if self.immediate is None:
            return WRITE_ONLY if is_first else WRITE_LAST
        return WRITE_ONLY_IMMEDIATE if is_first else WRITE_LAST_IMMEDIATE


class Sender:
    """One queue pair's requester. ``poll`` for packets, feed ``on_ack``, call again at ``deadline()``.

    Attributes:
        peer_qp: queue pair number at the responder.
        counters: counters since the start.
        error: why the queue pair failed, or empty; a failed one sends no more packets.
        pace: bit/s of payload in full packets that it keeps beside what congestion control allows, by a pacer or by a
            window (``SenderOptions.pace_window``); ``None``: any.
    """

    def __init__(self, peer_qp: int, options: SenderOptions, *, first_psn: int = 0) -> None:
        """Use ``first_psn`` for the first packet."""
        self.peer_qp = peer_qp
        self.options = options
        self.counters = SenderCounters()
        self.error = ""
        self.pace: float | None = None
        self.rates = RateControl(options.line_rate)
        self._first_psn = first_psn
        window = min(options.window, UNANSWERED) if options.pace_window else options.window
        self._ack_every = max(1, min(options.ack_every, window // 2))
        self._messages: deque[_Message] = deque()
        self._posted = 0  # one past the last packet of what was posted
        self._acked = 0  # everything below is acknowledged
        self._next = 0
        self._sent = 0  # one past the highest ever sent: below it, sending is sending again
        self._asked = -1  # the last packet on its way that asks for an acknowledgement
        self._cursor = 0  # position in _messages of the one that _next belongs to
        self._pacer = Pacer()
        self._timeout_at: float | None = None
        self._timeouts_in_row = 0
        self._smoothed: float | None = None
        self._variation = 0.0
        self._timeout = options.first_timeout
        self._timed: tuple[int, float, int] | None = None
        self._empty_round_trip: tuple[int, float] | None = None  # bytes of the packet, least seconds

    # -- what the caller asks ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether some posted message is not acknowledged yet."""
        return bool(self._messages) and not self.error

    @property
    def outstanding(self) -> int:
        """Packets on their way: at most ``options.window``, and no new one while there are ``window``."""
        return self._next - self._acked

    @property
    def round_trip(self) -> float | None:
        """Seconds of a packet and its acknowledgement with empty queues, stated or the least on this path.

        Switches store packets, so of packets of several sizes the largest count. ``None``: unknown.
        """
        if self.options.round_trip:
            return self.options.round_trip
        return None if self._empty_round_trip is None else self._empty_round_trip[1]

    @property
    def window(self) -> int:
        """Packets that may be on their way: fewer than ``options.window`` where that keeps the pace."""
        if self.pace is None or not self.options.pace_window:
            return self.options.window
        # Before the first answer, the packets that come on top.
        seconds = self.options.pace_window * (self.round_trip or 0.0)
        size = window_of_pace(self.pace / 1e9, seconds, self.options.mtu)
        return min(self.options.window, size // self.options.mtu)

    def rate(self, now: float) -> float:
        """Return the bit/s on the wire at which it may send: those of congestion control, or of its pace if lower."""
        allowed = self.rates.rate(now)
        if self.pace is None or self.options.pace_window:
            return allowed
        return min(allowed, self.pace * (self.options.mtu + FRAME_OVERHEAD) / self.options.mtu)

    @property
    def sent_bytes(self) -> int:
        """Payload that has been sent, each byte counted once: what the counter of a NIC shows for a queue pair."""
        under_way = sum(
            min((self._sent - message.first) * self.options.mtu, len(message.data))
            for message in itertools.takewhile(lambda message: message.first < self._sent, self._messages)
        )
        return self.counters.bytes + under_way

    def post(self, data: memoryview, va: int, rkey: int, tag: object = None, *, immediate: int | None = None) -> None:
        """Write ``data`` (contiguous bytes, not to be changed before the completion) to ``va`` at the responder.

        ``immediate`` is 32 bits for the responder's completion, sent with the last packet; ``None``: there are none.
        """
        if len(data) > MAX_MESSAGE:
            raise InputError("a message must have at most 2^31 bytes", field="bytes", value=len(data))
        packets = max(1, -(-len(data) // self.options.mtu))
        self._messages.append(_Message(data, va, rkey, tag, immediate, self._posted, self._posted + packets))
        self._posted += packets

    def poll(self, now: float) -> Write | None:
        """Return the next packet if one may be sent now. Handles timeouts, so call it at ``deadline()`` too."""
        if self.error:
            return None
        if self._timeout_at is not None and now >= self._timeout_at:
            self._on_timeout(now)
        if not self._may_send() or now < self._pacer.ready_at:
            return None
        return self._send(now)

    def deadline(self) -> float | None:
        """Return the time of the next call of ``poll`` if nothing arrives before; None: no call is needed."""
        if self.error:
            return None
        if self._may_send():
            return self._pacer.ready_at if self._timeout_at is None else min(self._pacer.ready_at, self._timeout_at)
        return self._timeout_at

    def resend(self) -> None:
        """Send again what is not acknowledged: the path has changed, and what is on the old one may be lost."""
        if not self.error:
            self._go_back()
            self._timeouts_in_row = 0
            self._timeout = self._estimated_timeout()
            self._empty_round_trip = None

    def on_ack(self, ack: Ack, now: float) -> list[object]:
        """Take an acknowledgement; return the tags of the messages that it completes, in order."""
        if self.error:
            return []
        sequence = self._acked + psn_offset(ack.psn, self._wire_psn(self._acked))
        if ack.syndrome == SYNDROME_ACK:
            return self._advance(sequence + 1, now) if self._acked <= sequence < self._sent else []
        # A NAK names the missing packet: all before it have arrived. An old NAK has no effect.
        if not self._acked <= sequence < self._sent:
            return []
        done = self._advance(sequence, now)
        if ack.syndrome == NAK_SEQUENCE:
            self.counters.sequence_naks += 1
            self.rates.lost(now)
            self._go_back()
        else:
            name = SYNDROME_NAMES.get(ack.syndrome, f"syndrome {ack.syndrome:#04x}")
            self.error = f"the peer refused packet {ack.psn}: {name}"
        return done

    # -- sending ----------------------------------------------------------------------------------------------

    def _wire_psn(self, sequence: int) -> int:
        return (self._first_psn + sequence) & PSN_MASK

    def _may_send(self) -> bool:
        return self._next < self._posted and self._next - self._acked < self.window

    def _send(self, now: float) -> Write:
        while self._next >= self._messages[self._cursor].end:
            self._cursor += 1
        message = self._messages[self._cursor]
        sequence, mtu = self._next, self.options.mtu
        offset = (sequence - message.first) * mtu
        payload = message.data[offset : offset + mtu]
        is_last = sequence == message.end - 1
        reth = Reth(message.va, message.rkey, len(message.data)) if sequence == message.first else None
        ask = is_last or sequence % self._ack_every == self._ack_every - 1
        self._next += 1
        self.counters.packets += 1
        if sequence < self._sent:
            self.counters.retransmissions += 1
        else:
            self._sent = self._next
            if ask and self._timed is None:
                self._timed = (sequence, now, len(payload))
        if ask:
            self._asked = sequence
            if self._timeout_at is None:
                self._timeout_at = now + self._timeout
        self._pacer.spend(len(payload) + FRAME_OVERHEAD, self.rate(now), now)
        return Write(
            message.opcode(sequence),
            self.peer_qp,
            self._wire_psn(sequence),
            ask,
            reth,
            payload,
            message.immediate if is_last else None,
        )

    # -- progress and its absence -----------------------------------------------------------------------------

    def _advance(self, acked: int, now: float) -> list[object]:
        """Everything below ``acked`` arrived."""
        if acked == self._acked:
            return []
        self.rates.delivered((acked - self._acked) * self.options.mtu, now)
        self._acked = acked
        self._timeouts_in_row = 0
        if self._timed is not None and acked > self._timed[0]:
            self._measure(now - self._timed[1], self._timed[2])
            self._timed = None
        done = []
        size = 0
        while self._messages and self._messages[0].end <= acked:
            message = self._messages.popleft()
            self._cursor -= 1
            size += len(message.data)
            done.append(message.tag)
        if self._next < acked:  # what was about to be sent again had arrived the first time
            self._next = acked
        self._cursor = max(self._cursor, 0)
        self.counters.messages += len(done)
        self.counters.bytes += size
        self._timeout = self._estimated_timeout()
        self._timeout_at = now + self._timeout if acked <= self._asked else None
        if acked == self._next:
            self.rates.idle()
        return done

    def _go_back(self) -> None:
        self._next = self._acked
        self._asked = self._acked - 1
        self._cursor = 0
        self._timed = None  # Karn: no telling which transmission is answered
        self._timeout_at = None

    def _on_timeout(self, now: float) -> None:
        self.counters.timeouts += 1
        self._timeouts_in_row += 1
        if self._timeouts_in_row > self.options.retries:
            self.error = f"no answer from the peer after {self.options.retries} retries"
            return
        self.rates.lost(now)
        self._go_back()
        self._timeout = min(2 * self._timeout, self.options.max_timeout)

    def _measure(self, seconds: float, size: int) -> None:
        """Round-trip estimator of RFC 6298, section 2; and the least round trip, of a packet with so many bytes."""
        least = self._empty_round_trip
        if least is None or size > least[0] or (size == least[0] and seconds < least[1]):
            self._empty_round_trip = size, seconds
        if self._smoothed is None:
            self._smoothed, self._variation = seconds, seconds / 2
        else:
            self._variation += (abs(self._smoothed - seconds) - self._variation) / 4
            self._smoothed += (seconds - self._smoothed) / 8

    def _estimated_timeout(self) -> float:
        if self._smoothed is None:
            return self.options.first_timeout
        timeout = self._smoothed + 4 * self._variation
        return min(max(timeout, self.options.min_timeout), self.options.max_timeout)
