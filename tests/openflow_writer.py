"""The writer of OpenFlow 1.3 bytes as a switch sends them (OpenFlow Switch Specification 1.3.5, section 7).

Fake switches, rogue switches of tests and of campaigns write by it. It needs neither Ryu, which encodes only a
controller's messages and takes long to load, nor the tools of tests, without which campaigns run. Where a test is to
find out whether the product reads correctly what a switch may send, these are bytes of a second, independent source.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

VERSION = 4

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, VENDOR, FEATURES_REQUEST, FEATURES_REPLY = range(7)
GET_CONFIG_REQUEST, GET_CONFIG_REPLY, SET_CONFIG, PACKET_IN, FLOW_REMOVED, PORT_STATUS, PACKET_OUT = range(7, 14)
FLOW_MOD, GROUP_MOD, PORT_MOD, TABLE_MOD, MULTIPART_REQUEST, MULTIPART_REPLY = range(14, 20)
BARRIER_REQUEST, BARRIER_REPLY, QUEUE_REQUEST, QUEUE_REPLY, ROLE_REQUEST, ROLE_REPLY = range(20, 26)
ASYNC_REQUEST, ASYNC_REPLY, SET_ASYNC, METER_MOD = range(26, 30)
"""Types of messages (section 7.1)."""

DESC, FLOW, AGGREGATE, TABLE, PORT_STATS, QUEUE, GROUP, GROUP_DESC, GROUP_FEATURES = range(9)
METER, METER_CONFIG, METER_FEATURES, TABLE_FEATURES, PORT_DESC = range(9, 14)
"""Types of multipart messages (section 7.3.5)."""

MORE = 1
"""Flag of a part of a multipart reply that others follow."""

NO_BUFFER, CONTROLLER, ANY = 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF
OPENFLOW_BASIC, EXPERIMENTER = 0x8000, 0xFFFF
BY_ACTION = 1
"""Reason of a PACKET_IN: a rule sends it."""

ERROR_BYTES = 64
"""How much of a refused message its error carries: at least this (section 7.4.4)."""

PART_BYTES = 60_000
"""Most bytes of entries in a part of a multipart reply."""

LONGEST = 0xFFFF
"""Bytes of the longest message."""

HEADER = struct.Struct("!BBHI")
FLOW_STATS = struct.Struct("!HBxIIHHHH4xQQQ")
FLOW_REMOVED_HEAD = struct.Struct("!QHBBIIHHQQ")
IN_PORT = b"\x80\x00\x00\x04"
"""Header of the match field of the ingress port."""

_PORT = struct.Struct("!I4x6s2x16sIIIIIIII")
_PORT_STATS = struct.Struct("!I4x12QII")
ROLE = struct.Struct("!I4xQ")
"""Body of a ROLE_REQUEST and of a ROLE_REPLY: role and generation."""

_PACKET_IN = struct.Struct("!IHBBQ")
_DESC = struct.Struct("!256s256s256s32s256s")
_U32 = struct.Struct("!I")


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    """Return a message of any type."""
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), xid) + body


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete messages at the beginning of a stream, and the rest of it."""
    whole = []
    at = 0
    while len(data) - at >= HEADER.size:
        (length,) = struct.unpack_from("!H", data, at + 2)
        if length < HEADER.size or len(data) - at < length:
            break
        whole.append(data[at : at + length])
        at += length
    return whole, data[at:]


# -- messages --------------------------------------------------------------------------------------------------------


def hello() -> bytes:
    """Offer OpenFlow 1.3 alone, by a version bitmap."""
    return message(HELLO, 0, struct.pack("!HHI", 1, 8, 1 << VERSION))


def error(kind: int, code: int, xid: int, request: bytes) -> bytes:
    """Return the ERROR that refuses a request."""
    return message(ERROR, xid, struct.pack("!HH", kind, code) + request[:ERROR_BYTES])


def features(
    dpid: int, n_tables: int = 254, *, buffers: int = 0, auxiliary: int = 0, capabilities: int = 0x4F
) -> bytes:
    """Return the body of a FEATURES_REPLY."""
    return struct.pack("!QIBB2xII", dpid, buffers, n_tables, auxiliary, capabilities, 0)


def config(flags: int = 0, miss_send_len: int = 128) -> bytes:
    """Return the body of a GET_CONFIG_REPLY."""
    return struct.pack("!HH", flags, miss_send_len)


def in_port_match(port: int) -> bytes:
    """Return a match of the ingress port alone."""
    return struct.pack("!HH", 1, 12) + IN_PORT + _U32.pack(port) + bytes(4)


def packet_in(frame: bytes, match: bytes, *, cookie: int = 0, table: int = 0) -> bytes:
    """Return the PACKET_IN of a frame that a rule sends to the controller as a whole; ``match``: with its padding."""
    head = _PACKET_IN.pack(NO_BUFFER, len(frame) & 0xFFFF, BY_ACTION, table, cookie)
    return message(PACKET_IN, 0, head + match + bytes(2) + frame)


def port_status(reason: int, port_bytes: bytes) -> bytes:
    """Return the PORT_STATUS of a port that was added, removed or changed."""
    return message(PORT_STATUS, 0, struct.pack("!B7x", reason) + port_bytes)


def multipart(kind: int, xid: int, entries: Iterable[bytes], *, part_bytes: int = PART_BYTES) -> Iterator[bytes]:
    """Yield a reply in parts with a limited number of bytes (entries are never split); at least one part."""
    part: list[bytes] = []
    size = 0
    for entry in entries:
        if part and size + len(entry) > part_bytes:
            yield message(MULTIPART_REPLY, xid, multipart_head(kind, MORE) + b"".join(part))
            part, size = [], 0
        part.append(entry)
        size += len(entry)
    yield message(MULTIPART_REPLY, xid, multipart_head(kind) + b"".join(part))


def multipart_head(kind: int, flags: int = 0) -> bytes:
    """Return what stands before the entries of a multipart reply."""
    return struct.pack("!HH4x", kind, flags)


# -- entries of multipart replies ------------------------------------------------------------------------------------


def port(
    number: int, mac: bytes, name: bytes, *, config: int = 0, state: int = 0, features: int = 0, kbps: int
) -> bytes:
    """Return the description of a port; ``features`` are its current, advertised, supported and peer's ones."""
    return _PORT.pack(number, mac, name, config, state, *(features,) * 4, kbps, kbps)


def port_stats(number: int, counters: tuple[int, int, int, int] = (0, 0, 0, 0), seconds: float = 0) -> bytes:
    """Return counters of a port: packets received and sent, bytes received and sent; nothing else is counted."""
    return _PORT_STATS.pack(number, *counters, *(0,) * 8, *duration(seconds))


def flow_stats(
    tail: bytes,
    *,
    table: int,
    priority: int,
    cookie: int,
    flags: int = 0,
    packets: int = 0,
    octets: int = 0,
    seconds: float = 0,
) -> bytes:
    """Return an entry of flow statistics; ``tail``: its match and instructions."""
    size = FLOW_STATS.size + len(tail)
    counted = duration(seconds)
    return FLOW_STATS.pack(size, table, *counted, priority, 0, 0, flags, cookie, packets, octets) + tail


def aggregate(packets: int, octets: int, flows: int) -> bytes:
    """Return the body of an aggregate flow statistics reply."""
    return struct.pack("!QQI4x", packets, octets, flows)


def table_stats(table: int, entries: int) -> bytes:
    """Return counters of a table that counts entries only."""
    return struct.pack("!B3xIQQ", table, entries, 0, 0)


def description(switch: str, name: str) -> bytes:
    """Return the description of a fake switch of this kind and name."""
    return _DESC.pack(*(text.encode() for text in ("fairspine tests", "none", switch, "", name)))


def group_stats(number: int, buckets: int) -> bytes:
    """Return statistics of a group that counts nothing."""
    return struct.pack("!H2xII4xQQII", 40 + 16 * buckets, number, 0, 0, 0, 0, 0) + bytes(16 * buckets)


def group_description(number: int, kind: int, buckets: bytes) -> bytes:
    """Return the description of a group."""
    return struct.pack("!HBxI", 8 + len(buckets), kind, number) + buckets


def group_features(most: int) -> bytes:
    """Return the features of groups of a switch that has all types, so many of each, and every action."""
    return struct.pack("!10I", 0xF, 0, *(most,) * 4, *(0xFFFFFFFF,) * 4)


def meter_features(most: int, bands: int, capabilities: int, bands_a_meter: int) -> bytes:
    """Return the features of meters."""
    return struct.pack("!IIIBB2x", most, bands, capabilities, bands_a_meter, 0)


def meter_config(number: int, flags: int, bands: bytes) -> bytes:
    """Return the configuration of a meter."""
    return struct.pack("!HHI", 8 + len(bands), flags, number) + bands


def duration(seconds: float) -> tuple[int, int]:
    """Return whole seconds and nanoseconds."""
    return int(seconds), int(seconds % 1 * 1e9)
