"""Encoding of a switch's messages as bytes (Ryu itself encodes only controllers' messages)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ryu.lib import addrconv
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.rules.rule import Match
from tests.fake_switch.flow_table import Entry
from tests.fake_switch.group_table import GroupEntry
from tests.fake_switch.ports import Port
from tests.fake_switch.refusal import Refused

ERROR_BYTES = 64
"""How much of a refused message its error carries: at least this (OpenFlow 1.3.5, section 7.4.4)."""


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    """Return a message of any type (``OFPT_*``)."""
    return struct.pack("!BBHI", ofp.OFP_VERSION, kind, 8 + len(body), xid) + body


def hello() -> bytes:
    """Offers OpenFlow 1.3 alone, by a version bitmap."""
    return message(ofp.OFPT_HELLO, 0, struct.pack("!HHI", ofp.OFPHET_VERSIONBITMAP, 8, 1 << ofp.OFP_VERSION))


def error(refused: Refused, xid: int, request: bytes) -> bytes:
    return message(ofp.OFPT_ERROR, xid, struct.pack("!HH", refused.kind, refused.code) + request[:ERROR_BYTES])


def features(xid: int, dpid: int, n_tables: int) -> bytes:
    can = ofp.OFPC_FLOW_STATS | ofp.OFPC_TABLE_STATS | ofp.OFPC_PORT_STATS
    return message(ofp.OFPT_FEATURES_REPLY, xid, struct.pack("!QIBB2xII", dpid, 0, n_tables, 0, can, 0))


def config(xid: int, flags: int, miss_send_len: int) -> bytes:
    return message(ofp.OFPT_GET_CONFIG_REPLY, xid, struct.pack("!HH", flags, miss_send_len))


def role(xid: int, kind: int, generation: int) -> bytes:
    return message(ofp.OFPT_ROLE_REPLY, xid, struct.pack(ofp.OFP_ROLE_REQUEST_PACK_STR, kind, generation))


def multipart(kind: int, xid: int, entries: Iterable[bytes], *, part_bytes: int) -> Iterator[bytes]:
    """Return a reply in parts with a limited number of bytes (entries are never split), at least one part."""
    parts: list[bytes] = [b""]
    for entry in entries:
        if parts[-1] and len(parts[-1]) + len(entry) > part_bytes:
            parts.append(b"")
        parts[-1] += entry
    for number, part in enumerate(parts, 1):
        more = ofp.OFPMPF_REPLY_MORE if number < len(parts) else 0
        yield message(ofp.OFPT_MULTIPART_REPLY, xid, struct.pack("!HH4x", kind, more) + part)


def description(name: str) -> bytes:
    texts = ("fairspine tests", "none", "fake switch", "", name)
    return struct.pack(ofp.OFP_DESC_PACK_STR, *(text.encode() for text in texts))


def port(each: Port) -> bytes:
    return struct.pack(
        ofp.OFP_PORT_PACK_STR,
        each.number,
        addrconv.mac.text_to_bin(each.mac),
        each.name.encode(),
        each.config,
        each.state,
        0,
        0,
        0,
        0,
        each.kbps,
        each.kbps,
    )


def port_status(reason: int, each: Port) -> bytes:
    return message(ofp.OFPT_PORT_STATUS, 0, struct.pack("!B7x", reason) + port(each))


def port_stats(each: Port, seconds: float) -> bytes:
    counted = (each.rx_packets, each.tx_packets, each.rx_bytes, each.tx_bytes)
    return struct.pack(ofp.OFP_PORT_STATS_PACK_STR, each.number, *counted, *(0,) * 8, *_duration(seconds))


def table_stats(table: int, entries: int) -> bytes:
    return struct.pack(ofp.OFP_TABLE_STATS_PACK_STR, table, entries, 0, 0)


def aggregate(entries: Sequence[Entry]) -> bytes:
    packets, octets = (sum(getattr(entry, name) for entry in entries) for name in ("packets", "bytes"))
    return struct.pack(ofp.OFP_AGGREGATE_STATS_REPLY_PACK_STR, packets, octets, len(entries))


def flow_stats(entry: Entry, now: float) -> bytes:
    rest = bytearray(_match(entry.key[2]))
    for instruction in entry.instructions:
        instruction.serialize(rest, len(rest))
    return (
        struct.pack(
            ofp.OFP_FLOW_STATS_0_PACK_STR,
            ofp.OFP_FLOW_STATS_0_SIZE + len(rest),
            entry.table,
            *_duration(now - entry.since),
            entry.priority,
            0,
            0,
            entry.flags,
            entry.cookie,
            entry.packets,
            entry.bytes,
        )
        + rest
    )


def flow_removed(entry: Entry, reason: int, now: float) -> bytes:
    return message(
        ofp.OFPT_FLOW_REMOVED,
        0,
        struct.pack(
            ofp.OFP_FLOW_REMOVED_PACK_STR0,
            entry.cookie,
            entry.priority,
            reason,
            entry.table,
            *_duration(now - entry.since),
            0,
            0,
            entry.packets,
            entry.bytes,
        )
        + _match(entry.key[2]),
    )


def group_stats(group: GroupEntry) -> bytes:
    """Nothing is counted by bucket here."""
    buckets = struct.pack(ofp.OFP_BUCKET_COUNTER_PACK_STR, 0, 0) * len(group.buckets)
    size = ofp.OFP_GROUP_STATS_SIZE + len(buckets)
    return struct.pack(ofp.OFP_GROUP_STATS_PACK_STR, size, group.group_id, 0, 0, 0, 0, 0) + buckets


def group_description(group: GroupEntry) -> bytes:
    buckets = bytearray()
    for bucket in group.buckets:
        bucket.serialize(buckets, len(buckets))
    size = ofp.OFP_GROUP_DESC_STATS_SIZE + len(buckets)
    return struct.pack(ofp.OFP_GROUP_DESC_STATS_PACK_STR, size, group.type, group.group_id) + buckets


def meter_features(most: int) -> bytes:
    """Of a switch that has so many meters; they count packets or bits, with a burst."""
    can = ofp.OFPMF_KBPS | ofp.OFPMF_PKTPS | ofp.OFPMF_BURST | ofp.OFPMF_STATS if most else 0
    bands = 1 << ofp.OFPMBT_DROP if most else 0
    return struct.pack(ofp.OFP_METER_FEATURES_PACK_STR, most, bands, can, int(bool(most)), 0)


def meter_config(mod: Any) -> bytes:
    """Return the configuration of a meter from the OFPMeterMod that created it."""
    bands = bytearray()
    for band in mod.bands:
        band.serialize(bands, len(bands))
    size = ofp.OFP_METER_CONFIG_SIZE + len(bands)
    return struct.pack(ofp.OFP_METER_CONFIG_PACK_STR, size, mod.flags, mod.meter_id) + bands


def packet_in(data: bytes, in_port: int, entry: Entry) -> bytes:
    """Return the PACKET_IN of a packet that an entry sends to the controller, with the whole packet."""
    head = struct.pack(
        ofp.OFP_PACKET_IN_PACK_STR, ofp.OFP_NO_BUFFER, len(data), ofp.OFPR_ACTION, entry.table, entry.cookie
    )
    return message(ofp.OFPT_PACKET_IN, 0, head + _match((("in_port", in_port),)) + b"\0\0" + data)


def _match(fields: Match) -> bytes:
    buffer = bytearray()
    written: Any = parser.OFPMatch(**dict(fields))
    written.serialize(buffer, 0)
    return bytes(buffer)


def _duration(seconds: float) -> tuple[int, int]:
    return int(seconds), int(seconds % 1 * 1e9)
