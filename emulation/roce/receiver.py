"""The responder's half of a queue pair: packets in, memory written, acknowledgements and arrivals out.

After InfiniBand Architecture volume 1, chapter 9.7: packets count only in order; the first one after a gap is answered
by one NAK (PSN sequence error) until the missing one arrives; a packet seen before writes nothing and is acknowledged
again if it asks for it; a packet that breaks the protocol fails the queue pair. A write with immediate data completes
at the responder's software. On real hardware a write without tells it nothing, and it polls its memory; here such a
message is returned, too, when it is complete, which stands for that polling.

Pure: no socket, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from emulation.roce.psn import PSN_MASK, psn_offset
from emulation.roce.wire import (
    FIRST_PACKETS,
    LAST_PACKETS,
    NAK_INVALID_REQUEST,
    NAK_REMOTE_ACCESS,
    NAK_SEQUENCE,
    SYNDROME_ACK,
    SYNDROME_NAMES,
    Ack,
    Write,
)


class ReceivedMessage(NamedTuple):
    """A message that is in memory as a whole, with its immediate data if it has any."""

    va: int
    length: int
    immediate: int | None = None


class PacketOutcome(NamedTuple):
    """The result of a packet: an acknowledgement to send, or none; a completed message, or none."""

    ack: Ack | None
    arrival: ReceivedMessage | None


_NOTHING = PacketOutcome(None, None)


@dataclass(slots=True)
class ReceiverCounters:
    """Counters of a receiver. ``bytes`` is the written payload, each byte counted once."""

    messages: int = 0
    bytes: int = 0
    packets: int = 0
    duplicates: int = 0
    out_of_sequence: int = 0
    naks: int = 0


class Receiver:
    """One queue pair's responder, which writes into ``memory`` (addresses start at 0) if ``rkey`` matches.

    Attributes:
        peer_qp: queue pair number at the requester, for acknowledgements.
        counters: counters since the start.
        error: why the queue pair failed, or empty; a failed one accepts no more packets.
    """

    def __init__(self, peer_qp: int, memory: memoryview, rkey: int, *, mtu: int = 4096, first_psn: int = 0) -> None:
        """Expect packet ``first_psn`` first."""
        self.peer_qp = peer_qp
        self.counters = ReceiverCounters()
        self.error = ""
        self._memory = memory
        self._rkey = rkey
        self._mtu = mtu
        self._expected = first_psn
        self._completed = 0
        self._nak_sent = False
        self._message: ReceivedMessage | None = None  # the one under way
        self._written = 0

    def on_packet(self, packet: Write) -> PacketOutcome:
        """Take a packet of this queue pair."""
        if self.error:
            return _NOTHING
        self.counters.packets += 1
        ahead = psn_offset(packet.psn, self._expected)
        if ahead < 0:
            self.counters.duplicates += 1
            return PacketOutcome(self._ack(), None) if packet.ack_request else _NOTHING
        if ahead > 0:
            self.counters.out_of_sequence += 1
            if self._nak_sent:
                return _NOTHING
            self._nak_sent = True
            return self._nak(NAK_SEQUENCE)
        refused = self._place(packet)
        if refused is not None:
            self.error = f"refused packet {packet.psn}: {SYNDROME_NAMES[refused]}"
            return self._nak(refused)
        self._nak_sent = False
        self._expected = (self._expected + 1) & PSN_MASK
        arrival = None
        if packet.opcode in LAST_PACKETS and self._message is not None:
            arrival, self._message = self._message._replace(immediate=packet.immediate), None
            self._completed += 1
            self.counters.messages += 1
        return PacketOutcome(self._ack() if packet.ack_request else None, arrival)

    def _place(self, packet: Write) -> int | None:
        """Write the payload; a NAK syndrome if the packet may not do that."""
        size = len(packet.payload)
        if packet.opcode in FIRST_PACKETS:
            reth = packet.reth
            if self._message is not None or reth is None:
                return NAK_INVALID_REQUEST
            if reth.rkey != self._rkey or reth.va + reth.length > len(self._memory):
                return NAK_REMOTE_ACCESS
            message, written = ReceivedMessage(reth.va, reth.length), 0
        elif self._message is None:
            return NAK_INVALID_REQUEST
        else:
            message, written = self._message, self._written
        left = message.length - written
        if packet.opcode in LAST_PACKETS:
            fits = size == left and size <= self._mtu
        else:
            fits = size == self._mtu and size < left
        if not fits:
            return NAK_INVALID_REQUEST
        at = message.va + written
        self._memory[at : at + size] = packet.payload
        self._message, self._written = message, written + size
        self.counters.bytes += size
        return None

    def _ack(self) -> Ack:
        return Ack(self.peer_qp, (self._expected - 1) & PSN_MASK, SYNDROME_ACK, self._completed & PSN_MASK)

    def _nak(self, syndrome: int) -> PacketOutcome:
        self.counters.naks += 1
        return PacketOutcome(Ack(self.peer_qp, self._expected, syndrome, self._completed & PSN_MASK), None)
