"""Discovery packets: only those that were made with the controller's key are believed."""

from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st
from ryu.lib.packet import ethernet, lldp, packet

from controller.southbound.discovery.lldp import (
    ETHERTYPE,
    FRAME_BYTES,
    MAC_BYTES,
    NEAREST_BRIDGE,
    LldpProbe,
    Seal,
    head,
    is_lldp,
    looks_like_ours,
)

dpids = st.integers(0, 2**64 - 1)
ports = st.integers(0, 2**32 - 1)
stamps = st.integers(0, 2**64 - 1)
keys = st.binary(min_size=32, max_size=32)


@given(keys, dpids, ports, stamps)
def test_a_frame_says_what_was_put_into_it(key: bytes, dpid: int, port: int, stamp: int) -> None:
    seal = Seal(key)
    frame = seal.frame(head(dpid, port), stamp)
    assert len(frame) == FRAME_BYTES
    assert seal.read(frame) == LldpProbe(dpid, port, stamp)
    # A switch may send more of what it received than there was.
    assert seal.read(frame + bytes(9)) == LldpProbe(dpid, port, stamp)
    assert is_lldp(frame)
    assert looks_like_ours(frame)


@given(keys, dpids, ports, stamps)
def test_the_code_is_hmac_sha256_cut_in_half(key: bytes, dpid: int, port: int, stamp: int) -> None:
    signed = Seal(key).frame(head(dpid, port), stamp)[: -MAC_BYTES - 2]
    assert Seal(key).frame(head(dpid, port), stamp)[len(signed) : -2] == hmac.digest(key, signed, "sha256")[:MAC_BYTES]


@given(dpids, ports, stamps, st.data())
def test_a_frame_that_was_changed_anywhere_is_refused(dpid: int, port: int, stamp: int, data: st.DataObject) -> None:
    seal = Seal()
    frame = bytearray(seal.frame(head(dpid, port), stamp))
    # All but the end TLV, which carries nothing.
    bit = data.draw(st.integers(0, 8 * (len(frame) - 2) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    assert seal.read(bytes(frame)) is None


@given(dpids, ports, stamps, st.integers(0, FRAME_BYTES - 1))
def test_a_frame_that_is_cut_short_is_refused(dpid: int, port: int, stamp: int, length: int) -> None:
    seal = Seal()
    assert seal.read(seal.frame(head(dpid, port), stamp)[:length]) is None


@given(keys, dpids, ports, stamps)
def test_a_frame_that_was_made_with_another_key_is_refused(key: bytes, dpid: int, port: int, stamp: int) -> None:
    assert Seal().read(Seal(key).frame(head(dpid, port), stamp)) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(frame: bytes) -> None:
    assert Seal().read(frame) is None
    looks_like_ours(frame)


@given(dpids, ports, stamps)
def test_ryus_parser_finds_the_tlvs_that_the_standard_asks_for(dpid: int, port: int, stamp: int) -> None:
    frame = Seal().frame(head(dpid, port), stamp)
    found = packet.Packet(frame)
    outer = found.get_protocol(ethernet.ethernet)
    assert (outer.dst, outer.ethertype) == (NEAREST_BRIDGE, ETHERTYPE)
    chassis, number, ttl, ours, end = found.get_protocol(lldp.lldp).tlvs
    assert chassis.chassis_id == b"dpid:%016x" % dpid
    assert number.port_id == b"%08x" % port
    assert ttl.ttl > 0
    assert isinstance(ours, lldp.OrganizationallySpecific)
    assert isinstance(end, lldp.End)


def test_lldp_of_a_network_card_does_not_look_like_ours() -> None:
    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(NEAREST_BRIDGE, "b8:ce:f6:00:00:01", ETHERTYPE))
    frame.add_protocol(
        lldp.lldp(
            (
                lldp.ChassisID(subtype=4, chassis_id=bytes.fromhex("b8cef6000001")),
                lldp.PortID(subtype=3, port_id=bytes.fromhex("b8cef6000001")),
                lldp.TTL(ttl=120),
                lldp.End(),
            )
        )
    )
    frame.serialize()
    assert is_lldp(bytes(frame.data))
    assert not looks_like_ours(bytes(frame.data))
