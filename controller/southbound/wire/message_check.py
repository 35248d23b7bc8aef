"""Check of the lengths in an OpenFlow 1.3 message, before a parser sees the message.

Ryu's parsers trust every length that a message holds: an element of length 0 makes them loop forever, and a wrong
one makes them read past its end. ``check`` walks each message that a switch can send (OpenFlow Switch Specification
1.3.5, section 7) by tables and refuses what does not fit: each element has at least its smallest size, is a
multiple of 8 bytes long where the standard says so, and ends inside the element that holds it.

Pure: nothing but bytes and numbers of the standard. The time is linear in the length of the message.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from controller.southbound.wire.length_check import (
    ANY_EXPERIMENTER,
    Check,
    MalformedError,
    after,
    always,
    anything,
    at_least,
    by_type,
    elements,
    exactly,
    padded_size,
    room,
)
from controller.southbound.wire.multipart_check import multipart
from controller.southbound.wire.rule_check import ONF, match

VERSION = 4
HEADER_SIZE = 8
MOST_HELLO_BYTES = 1024
"""A HELLO is 8 or 16 bytes long; elements that are not known yet may make it longer."""

# ofp_type: the messages that a switch sends (section 7.1).
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, EXPERIMENTER = 0, 1, 2, 3, 4
FEATURES_REPLY, GET_CONFIG_REPLY, PACKET_IN, FLOW_REMOVED, PORT_STATUS = 6, 8, 10, 11, 12
MULTIPART_REPLY, BARRIER_REPLY, QUEUE_GET_CONFIG_REPLY, ROLE_REPLY, GET_ASYNC_REPLY = 19, 21, 23, 25, 27

NAMES = {
    HELLO: "HELLO",
    ERROR: "ERROR",
    ECHO_REQUEST: "ECHO_REQUEST",
    ECHO_REPLY: "ECHO_REPLY",
    EXPERIMENTER: "EXPERIMENTER",
    FEATURES_REPLY: "FEATURES_REPLY",
    GET_CONFIG_REPLY: "GET_CONFIG_REPLY",
    PACKET_IN: "PACKET_IN",
    FLOW_REMOVED: "FLOW_REMOVED",
    PORT_STATUS: "PORT_STATUS",
    MULTIPART_REPLY: "MULTIPART_REPLY",
    BARRIER_REPLY: "BARRIER_REPLY",
    QUEUE_GET_CONFIG_REPLY: "QUEUE_GET_CONFIG_REPLY",
    ROLE_REPLY: "ROLE_REPLY",
    GET_ASYNC_REPLY: "GET_ASYNC_REPLY",
}

_HEADER = struct.Struct("!BBHI")
_TWO = struct.Struct("!HH")
_ONE = struct.Struct("!H")
_WORD = struct.Struct("!I")

_ONF_BUNDLE_CONTROL = 2300


class Header(NamedTuple):
    """The first eight bytes of every message (section 7.1.1)."""

    version: int
    type: int
    length: int
    xid: int


def header(message: bytes, at: int = 0) -> Header:
    """Return the header at an offset, at which eight bytes there are."""
    return Header._make(_HEADER.unpack_from(message, at))


def name(kind: int) -> str:
    """Return the standard's name of a message type that a switch sends, else ``message type N``."""
    return NAMES.get(kind, f"message type {kind}")


def check(message: bytes) -> None:
    """Check one whole message of OpenFlow 1.3, or a HELLO of any version. Types that switches do not send are refused.

    Raises:
        MalformedError: a length, or the type, is wrong.
    """
    if len(message) < HEADER_SIZE:
        raise MalformedError(f"{len(message)} bytes are less than a header")
    version, kind, length, _ = _HEADER.unpack_from(message)
    if length != len(message):
        raise MalformedError(f"its header says {length} bytes, it has {len(message)}")
    if version != VERSION and kind != HELLO:
        raise MalformedError(f"version {version} instead of {VERSION}, which was agreed on")
    body = MESSAGES.get(kind)
    if body is None:
        raise MalformedError("switches do not send this type")
    body(message, HEADER_SIZE, length)


def offered_versions(message: bytes) -> frozenset[int]:
    """Return the versions of OpenFlow that a checked HELLO offers (section 7.5.1).

    These are the versions of its bitmap, else its own and all before it.
    """
    at, end = HEADER_SIZE, len(message)
    while at < end:
        kind, length = _TWO.unpack_from(message, at)
        if kind == _VERSION_BITMAP:
            words = range(at + 4, at + length - 3, 4)
            bitmaps = [_WORD.unpack_from(message, word)[0] for word in words]
            return frozenset(32 * n + bit for n, word in enumerate(bitmaps) for bit in range(32) if word >> bit & 1)
        at += padded_size(length)
    return frozenset(range(1, message[0] + 1))


_RATE = exactly("the queue property", 16)
QUEUE_PROPERTIES = elements(
    "the queue property",
    8,
    of=by_type({1: _RATE, 2: _RATE, ANY_EXPERIMENTER: at_least("the queue property", 16)}),
    aligned=True,
)
QUEUES = elements(
    "the queue", 16, of=always(after("a queue", 16, QUEUE_PROPERTIES)), typed=False, length_at=8, aligned=True
)

BUNDLE_PROPERTIES = elements("the bundle property", 4, of=always(anything), padded=True)

_VERSION_BITMAP = 1
_HELLO_ELEMENTS = elements("the HELLO element", 4, of=always(anything), padded=True)


def _hello(data: bytes, at: int, end: int) -> None:
    if end > MOST_HELLO_BYTES:
        raise MalformedError(f"a HELLO of {end} bytes; at most {MOST_HELLO_BYTES} are read")
    if data[0] == 0:
        raise MalformedError("version 0 does not exist")
    _HELLO_ELEMENTS(data, at, end)


def _error(data: bytes, at: int, end: int) -> None:
    room("an error", 4, at, end)
    if _ONE.unpack_from(data, at)[0] == ANY_EXPERIMENTER:
        room("an experimenter's error", 8, at, end)


def _experimenter(data: bytes, at: int, end: int) -> None:
    room("an experimenter's message", 8, at, end)
    if struct.unpack_from("!II", data, at) == (ONF, _ONF_BUNDLE_CONTROL):
        room("a bundle control message", 16, at, end)
        BUNDLE_PROPERTIES(data, at + 16, end)


def _port_status(data: bytes, at: int, end: int) -> None:
    _PORT_STATUS_SIZE(data, at, end)
    if data[at] > 2:
        raise MalformedError(f"a port status has the unknown reason {data[at]}")


_PORT_STATUS_SIZE = exactly("the port status", 72)

MESSAGES: dict[int, Check] = {
    HELLO: _hello,
    ERROR: _error,
    ECHO_REQUEST: anything,
    ECHO_REPLY: anything,
    EXPERIMENTER: _experimenter,
    FEATURES_REPLY: exactly("the body", 24),
    GET_CONFIG_REPLY: exactly("the body", 4),
    PACKET_IN: after("a packet-in", 16, match("a packet-in", at_least("the packet with its padding", 2))),
    FLOW_REMOVED: after("a removed flow", 40, match("a removed flow", exactly("what follows the match", 0))),
    PORT_STATUS: _port_status,
    MULTIPART_REPLY: multipart,
    BARRIER_REPLY: exactly("the body", 0),
    QUEUE_GET_CONFIG_REPLY: after("the body", 8, QUEUES),
    ROLE_REPLY: exactly("the body", 16),
    GET_ASYNC_REPLY: exactly("the body", 24),
}
"""By type: what follows the header."""
