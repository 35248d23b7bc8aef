"""Packets are taken from the bytes of their message as Ryu's parser reads them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.openflow.connections import packet_in
from tests.fake_switch.decode import PROTOCOL


def message(fields: dict[str, int], data: bytes, cookie: int = 7, table: int = 1) -> bytes:
    match = bytearray()
    parser.OFPMatch(**fields).serialize(match, 0)
    head = struct.pack("!IHBBQ", ofp.OFP_NO_BUFFER, len(data), ofp.OFPR_ACTION, table, cookie)
    body = head + match + b"\0\0" + data
    return struct.pack("!BBHI", ofp.OFP_VERSION, ofp.OFPT_PACKET_IN, 8 + len(body), 1) + body


@given(st.integers(1, ofp.OFPP_MAX), st.integers(0, 2**64 - 1), st.binary(max_size=200), st.booleans())
def test_a_packet_is_decoded_as_by_ryu(in_port: int, metadata: int, data: bytes, more: bool) -> None:
    fields = {"in_port": in_port} | ({"metadata": metadata, "tunnel_id": 5} if more else {})
    raw = message(fields, data)
    theirs = parser.OFPPacketIn.parser(PROTOCOL, ofp.OFP_VERSION, ofp.OFPT_PACKET_IN, len(raw), 1, raw)
    ours = packet_in.decode(raw)
    assert ours == packet_in.PacketIn(theirs.match["in_port"], theirs.table_id, theirs.cookie, theirs.data)


@given(st.integers(0, 80))
def test_a_message_that_is_cut_short_names_no_packet_or_less_of_it(length: int) -> None:
    whole = message({"in_port": 3}, bytes(range(40)))
    found = packet_in.decode(whole[:length])
    assert found is None or (found.in_port == 3 and whole[:length].endswith(found.data))


def test_a_message_without_a_port_is_dropped() -> None:
    assert packet_in.decode(message({"metadata": 1}, b"frame")) is None


@given(st.binary(max_size=120))
def test_any_bytes_are_decoded_or_dropped(raw: bytes) -> None:
    packet_in.decode(raw)
