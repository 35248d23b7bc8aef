"""What a fake switch holds, as bytes of messages (``tests.openflow_writer``); Ryu writes matches and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ryu.lib import addrconv
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.rules.rule import Match
from tests import openflow_writer as writer
from tests.fake_switch.flow_table import Entry
from tests.fake_switch.group_table import GroupEntry
from tests.fake_switch.ports import Port
from tests.fake_switch.refusal import Refused


def error(refused: Refused, xid: int, request: bytes) -> bytes:
    return writer.error(refused.kind, refused.code, xid, request)


def features(xid: int, dpid: int, n_tables: int) -> bytes:
    can = ofp.OFPC_FLOW_STATS | ofp.OFPC_TABLE_STATS | ofp.OFPC_PORT_STATS
    return writer.message(ofp.OFPT_FEATURES_REPLY, xid, writer.features(dpid, n_tables, capabilities=can))


def port(each: Port) -> bytes:
    mac = addrconv.mac.text_to_bin(each.mac)
    return writer.port(each.number, mac, each.name.encode(), config=each.config, state=each.state, kbps=each.kbps)


def port_status(reason: int, each: Port) -> bytes:
    return writer.port_status(reason, port(each))


def port_stats(each: Port, seconds: float) -> bytes:
    return writer.port_stats(each.number, (each.rx_packets, each.tx_packets, each.rx_bytes, each.tx_bytes), seconds)


def aggregate(entries: Sequence[Entry]) -> bytes:
    packets, octets = (sum(getattr(entry, name) for entry in entries) for name in ("packets", "bytes"))
    return writer.aggregate(packets, octets, len(entries))


def flow_stats(entry: Entry, now: float) -> bytes:
    return writer.flow_stats(
        _match(entry.key[2]) + _serialized(entry.instructions),
        table=entry.table,
        priority=entry.priority,
        cookie=entry.cookie,
        flags=entry.flags,
        packets=entry.packets,
        octets=entry.bytes,
        seconds=now - entry.since,
    )


def flow_removed(entry: Entry, reason: int, now: float) -> bytes:
    head = writer.FLOW_REMOVED_HEAD.pack(
        entry.cookie,
        entry.priority,
        reason,
        entry.table,
        *writer.duration(now - entry.since),
        0,
        0,
        entry.packets,
        entry.bytes,
    )
    return writer.message(ofp.OFPT_FLOW_REMOVED, 0, head + _match(entry.key[2]))


def group_stats(group: GroupEntry) -> bytes:
    """Nothing is counted by bucket here."""
    return writer.group_stats(group.group_id, len(group.buckets))


def group_description(group: GroupEntry) -> bytes:
    return writer.group_description(group.group_id, group.type, _serialized(group.buckets))


def meter_features(most: int) -> bytes:
    """Of a switch that has so many meters; they count packets or bits, with a burst."""
    can = ofp.OFPMF_KBPS | ofp.OFPMF_PKTPS | ofp.OFPMF_BURST | ofp.OFPMF_STATS if most else 0
    return writer.meter_features(most, 1 << ofp.OFPMBT_DROP if most else 0, can, int(bool(most)))


def meter_config(mod: Any) -> bytes:
    """Return the configuration of a meter from the OFPMeterMod that created it."""
    return writer.meter_config(mod.meter_id, mod.flags, _serialized(mod.bands))


def packet_in(data: bytes, in_port: int, entry: Entry) -> bytes:
    """Return the PACKET_IN of a packet that an entry sends to the controller, with the whole packet."""
    return writer.packet_in(data, writer.in_port_match(in_port), cookie=entry.cookie, table=entry.table)


def _match(fields: Match) -> bytes:
    return _serialized([parser.OFPMatch(**dict(fields))])


def _serialized(structures: Iterable[Any]) -> bytes:
    """Return the bytes of Ryu's structures one after the other."""
    buffer = bytearray()
    for each in structures:
        each.serialize(buffer, len(buffer))
    return bytes(buffer)
