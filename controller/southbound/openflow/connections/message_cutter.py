"""Splitting of a connection's bytes into messages, with echo replies and the packet budget.

Only headers are examined here. The content of a message is checked when it has a receiver (``connection``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from controller.southbound.limits.allowance import Allowance
from controller.southbound.limits.packet_budget import OTHER, PacketBudget
from controller.southbound.rules.rule import WATCH_PREFIX
from controller.southbound.wire import message_check as check

HANDSHAKE_BYTES = 1 << 20
"""Bytes that a switch may send before the end of its handshake; most of them describe its ports."""

ECHOES_PER_SECOND = 100

_HEADER = struct.Struct("!BBHI")
_FIRST_FIELD = struct.Struct("!II")
_FIRST_FIELD_AT = 28
_COOKIE_AT = 16
_WATCH_COOKIE = WATCH_PREFIX.to_bytes(2, "big")
_IN_PORT = 0x80000004


class Piece(NamedTuple):
    """One whole message in the bytes that have come: type, transaction id, begin and end."""

    kind: int
    xid: int
    at: int
    end: int


class Cut(NamedTuple):
    """The messages found in the received bytes.

    Attributes:
        pieces: the messages that are to be looked at, in order.
        used: how many bytes are whole messages.
        broken: what is wrong with the first message that is broken and begins there; empty: none is.
    """

    pieces: list[Piece]
    used: int
    broken: str = ""


class MessageCutter:
    """The part of a connection that sees bytes.

    Attributes:
        packets: the budget of packets from this switch.
        echoed: how many echo replies have come.
        unfinished: whether a message has begun and not ended.
    """

    def __init__(
        self,
        packets: PacketBudget,
        *,
        watched: Allowance,
        has_port: Callable[[int], bool],
        answer: Callable[[bytes], object],
        now: float,
    ) -> None:
        """Begin without bytes.

        Args:
            packets: the switch's budget.
            watched: the budget of packets of watch windows, which take nothing from the switch's.
            has_port: whether the switch has a port with a separate budget.
            answer: sends an echo reply, ahead of all that waits.
            now: seconds, on the clock of ``cut``.
        """
        self.packets, self._watched, self._has_port, self._answer = packets, watched, has_port, answer
        self.echoed = 0
        self._echoes = Allowance(ECHOES_PER_SECOND, now)
        self._handshake_bytes = 0
        self._rest = bytearray()
        self._needed = 0

    @property
    def unfinished(self) -> bool:
        """True while part of a message has been received."""
        return bool(self._rest)

    def joined(self, data: bytes) -> bytes:
        """Return new bytes behind those that were kept; empty if they make no whole message yet."""
        if not self._rest:
            return data
        self._rest += data
        if len(self._rest) < self._needed:
            return b""
        whole = bytes(self._rest)
        self._rest.clear()
        return whole

    def keep(self, data: bytes, used: int) -> None:
        """Keep what is left of bytes, for the next ones to be put behind it."""
        self._rest += data[used:]
        has_header = len(self._rest) >= check.HEADER_SIZE
        self._needed = int.from_bytes(self._rest[2:4], "big") if has_header else check.HEADER_SIZE

    def cut(self, data: bytes, now: float, *, in_handshake: bool) -> Cut:
        """Cut bytes into messages; echoes are dealt with here, and packets beyond the budget are left out."""
        pieces: list[Piece] = []
        at, size, unpack, packets = 0, len(data), _HEADER.unpack_from, self.packets
        packets.refill(now)
        if in_handshake:
            self._handshake_bytes += size
            if self._handshake_bytes > HANDSHAKE_BYTES:
                return Cut(pieces, 0, f"more than {HANDSHAKE_BYTES} bytes in its handshake")
        while at + 8 <= size:
            version, kind, length, xid = unpack(data, at)
            end = at + length
            if length < 8 or (version != check.VERSION and kind not in (check.HELLO, check.ERROR)):
                broken = f"its header gives the length {length}"
                if length >= 8:
                    broken = f"it has version {version} instead of {check.VERSION}"
                return Cut(pieces, at, f"{check.name(kind)}: {broken}")
            if end > size:
                break
            if kind == check.PACKET_IN:
                watched = data[at + _COOKIE_AT : at + _COOKIE_AT + 2] == _WATCH_COOKIE
                if self._watched.take(now) if watched else packets.take(self._in_port(data, at, length)):
                    pieces.append(Piece(kind, xid, at, end))
            elif kind == check.ECHO_REQUEST:
                if self._echoes.take(now):
                    self._answer(_HEADER.pack(check.VERSION, check.ECHO_REPLY, length, xid) + data[at + 8 : end])
            elif kind == check.ECHO_REPLY:
                self.echoed += 1
            else:
                pieces.append(Piece(kind, xid, at, end))
            at = end
        return Cut(pieces, at)

    def _in_port(self, data: bytes, at: int, length: int) -> int:
        """Return the port of a packet-in for its budget: ports that are not the switch's share one."""
        if length >= _FIRST_FIELD_AT + 8:
            field, port = _FIRST_FIELD.unpack_from(data, at + _FIRST_FIELD_AT)
            if field == _IN_PORT and self._has_port(port):
                return int(port)
        return OTHER
