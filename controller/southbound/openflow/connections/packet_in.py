"""Packets that switches send to the controller, taken as raw bytes before Ryu parses the message.

Ryu builds a match object and several Python objects for every packet-in. At the rate of link discovery on a large
fabric, or of a host that floods, this costs more than everything else the controller does. So the handler that
``handle_with`` sets gets the three fields that are needed, and Ryu never sees the message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

_HEAD = struct.Struct("!IHBBQHH")
"""buffer id, total length, reason, table, cookie, match type, match length (OpenFlow 1.3.5, section 7.4.1)."""
_MATCH_AT = 8 + 16
_FIRST_FIELD_AT = 8 + 20
_OXM_IN_PORT = 0x80000004
"""OpenFlow basic class, field OFPXMT_OFB_IN_PORT, four bytes, no mask."""


class PacketIn(NamedTuple):
    """A packet from a switch. ``in_port``: the port it came in by; ``data``: the frame, as far as it was sent."""

    in_port: int
    table: int
    cookie: int
    data: bytes


Handler = Callable[[Any, PacketIn], bool]
"""Called with the connection (Ryu's datapath) and the packet, in the greenlet that reads the connection; ``True``: the
packet is dealt with, ``False``: Ryu's applications get it too."""

_handler: Handler | None = None


def handle_with(handler: Handler | None) -> None:
    """Have every packet given to ``handler`` from now on; ``None``: packets are dropped."""
    global _handler
    _handler = handler


def receive(datapath: Any, message: bytes) -> bool:
    """Give one OFPT_PACKET_IN message to the handler; a malformed one is dropped. Return whether it is dealt with."""
    packet = decode(message)
    return packet is None or _handler is None or _handler(datapath, packet)


def decode(message: bytes) -> PacketIn | None:
    """Return the packet in a whole OFPT_PACKET_IN message, ``None`` if it is malformed or names no port."""
    if len(message) < _FIRST_FIELD_AT:
        return None
    _, _, _, table, cookie, _, match_length = _HEAD.unpack_from(message, 8)
    # Open vSwitch names the port first; the standard allows any order.
    at, end = _FIRST_FIELD_AT, _MATCH_AT + match_length
    data_at = _MATCH_AT + (match_length + 7) // 8 * 8 + 2
    if data_at > len(message):
        return None
    while at + 4 <= end:
        (header,) = struct.unpack_from("!I", message, at)
        if header == _OXM_IN_PORT and at + 8 <= end:
            (in_port,) = struct.unpack_from("!I", message, at + 4)
            return PacketIn(in_port, table, cookie, bytes(message[data_at:]))
        at += 4 + (header & 0xFF)
    return None
