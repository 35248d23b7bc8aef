"""Decoding of a controller's messages to Ryu's message objects (Ryu itself decodes only switches' messages)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from tests.fake_switch.refusal import bad_request


class Protocol:
    """What Ryu's message classes want of a connection: which OpenFlow it speaks."""

    ofproto = ofp
    ofproto_parser = parser


PROTOCOL = Protocol()


@dataclass(frozen=True)
class Header:
    """The first eight bytes of every message."""

    version: int
    type: int
    length: int
    xid: int


def header(data: bytes) -> Header:
    return Header(*struct.unpack_from("!BBHI", data))


def decode(data: bytes) -> Any:
    """One whole message. Its ``xid`` and ``buf`` are set.

    Raises:
        Refused: a message that a switch does not understand.
    """
    head = header(data)
    if head.version != ofp.OFP_VERSION and head.type != ofp.OFPT_HELLO:
        raise bad_request(ofp.OFPBRC_BAD_VERSION)
    if head.type in _OF_REQUESTS:
        message = _OF_REQUESTS[head.type](data)
        message.set_headers(head.version, head.type, head.length, head.xid)
        message.set_buf(data)
        return message
    if head.type in _BY_RYU:
        return parser.msg_parser(PROTOCOL, head.version, head.type, head.length, head.xid, data)
    raise bad_request(ofp.OFPBRC_BAD_TYPE)


_BY_RYU = (
    ofp.OFPT_HELLO,
    ofp.OFPT_ERROR,
    ofp.OFPT_ECHO_REQUEST,
    ofp.OFPT_ECHO_REPLY,
    ofp.OFPT_FLOW_MOD,
)


def _set_config(data: bytes) -> Any:
    return parser.OFPSetConfig(PROTOCOL, *struct.unpack_from(ofp.OFP_SWITCH_CONFIG_PACK_STR, data, 8))


def _role(data: bytes) -> Any:
    return parser.OFPRoleRequest(PROTOCOL, *struct.unpack_from(ofp.OFP_ROLE_REQUEST_PACK_STR, data, 8))


def _packet_out(data: bytes) -> Any:
    buffer, in_port, length = struct.unpack_from(ofp.OFP_PACKET_OUT_PACK_STR, data, 8)
    end = ofp.OFP_PACKET_OUT_SIZE + length
    actions = _sequence(parser.OFPAction, data, ofp.OFP_PACKET_OUT_SIZE, end)
    return parser.OFPPacketOut(PROTOCOL, buffer, in_port, actions, data[end:])


def _group_mod(data: bytes) -> Any:
    command, kind, number = struct.unpack_from(ofp.OFP_GROUP_MOD_PACK_STR, data, 8)
    buckets = _sequence(parser.OFPBucket, data, ofp.OFP_GROUP_MOD_SIZE, len(data))
    return parser.OFPGroupMod(PROTOCOL, command, kind, number, buckets)


def _meter_mod(data: bytes) -> Any:
    command, flags, number = struct.unpack_from(ofp.OFP_METER_MOD_PACK_STR, data, 8)
    bands = _sequence(parser.OFPMeterBandHeader, data, ofp.OFP_METER_MOD_SIZE, len(data))
    return parser.OFPMeterMod(PROTOCOL, command, flags, number, bands)


def _multipart(data: bytes) -> Any:
    kind, flags = struct.unpack_from(ofp.OFP_MULTIPART_REQUEST_PACK_STR, data, 8)
    at = ofp.OFP_MULTIPART_REQUEST_SIZE
    match kind:
        case ofp.OFPMP_DESC:
            return parser.OFPDescStatsRequest(PROTOCOL, flags)
        case ofp.OFPMP_FLOW | ofp.OFPMP_AGGREGATE:
            kinds = {ofp.OFPMP_FLOW: parser.OFPFlowStatsRequest, ofp.OFPMP_AGGREGATE: parser.OFPAggregateStatsRequest}
            asked = struct.unpack_from(ofp.OFP_FLOW_STATS_REQUEST_0_PACK_STR, data, at)
            wanted = parser.OFPMatch.parser(data, at + ofp.OFP_FLOW_STATS_REQUEST_0_SIZE)
            return kinds[kind](PROTOCOL, flags, *asked, wanted)
        case ofp.OFPMP_TABLE:
            return parser.OFPTableStatsRequest(PROTOCOL, flags)
        case ofp.OFPMP_PORT_STATS:
            (port,) = struct.unpack_from(ofp.OFP_PORT_STATS_REQUEST_PACK_STR, data, at)
            return parser.OFPPortStatsRequest(PROTOCOL, flags, port)
        case ofp.OFPMP_GROUP:
            (group,) = struct.unpack_from(ofp.OFP_GROUP_STATS_REQUEST_PACK_STR, data, at)
            return parser.OFPGroupStatsRequest(PROTOCOL, flags, group)
        case ofp.OFPMP_GROUP_DESC:
            return parser.OFPGroupDescStatsRequest(PROTOCOL, flags)
        case ofp.OFPMP_METER_FEATURES:
            return parser.OFPMeterFeaturesStatsRequest(PROTOCOL, flags)
        case ofp.OFPMP_METER_CONFIG:
            (meter,) = struct.unpack_from(ofp.OFP_METER_MULTIPART_REQUEST_PACK_STR, data, at)
            return parser.OFPMeterConfigStatsRequest(PROTOCOL, flags, meter)
        case ofp.OFPMP_PORT_DESC:
            return parser.OFPPortDescStatsRequest(PROTOCOL, flags=flags)
    raise bad_request(ofp.OFPBRC_BAD_MULTIPART)


def _sequence(kind: Any, data: bytes, start: int, end: int) -> list[Any]:
    found = []
    while start < end:
        found.append(kind.parser(data, start))
        start += found[-1].len
    return found


_OF_REQUESTS: dict[int, Any] = {
    ofp.OFPT_FEATURES_REQUEST: lambda _: parser.OFPFeaturesRequest(PROTOCOL),
    ofp.OFPT_GET_CONFIG_REQUEST: lambda _: parser.OFPGetConfigRequest(PROTOCOL),
    ofp.OFPT_BARRIER_REQUEST: lambda _: parser.OFPBarrierRequest(PROTOCOL),
    ofp.OFPT_SET_CONFIG: _set_config,
    ofp.OFPT_ROLE_REQUEST: _role,
    ofp.OFPT_PACKET_OUT: _packet_out,
    ofp.OFPT_GROUP_MOD: _group_mod,
    ofp.OFPT_METER_MOD: _meter_mod,
    ofp.OFPT_MULTIPART_REQUEST: _multipart,
}
