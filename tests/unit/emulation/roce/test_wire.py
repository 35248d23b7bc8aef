"""The framing against scapy's, which was written by others."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from emulation.roce.wire import (
    ACK_FRAME_BYTES,
    ACKNOWLEDGE,
    FIRST_PACKETS,
    LAST_PACKETS,
    NAK_SEQUENCE,
    SYNDROME_ACK,
    WITH_IMMEDIATE,
    WRITE_FIRST,
    WRITE_MIDDLE,
    Ack,
    FrameError,
    Reth,
    Write,
    decode,
    encode_ack,
    encode_write,
    ip_udp_crc,
    write_frame_bytes,
)

SRC, DST = "10.0.1.1", "10.0.2.7"
NUMBER_24 = st.integers(0, 2**24 - 1)
PORTS = st.integers(1, MAX_PORT)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    opcode = draw(st.sampled_from((WRITE_FIRST, WRITE_MIDDLE, *LAST_PACKETS)))
    reth = None
    if opcode in FIRST_PACKETS:
        reth = Reth(draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 2**31)))
    payload = memoryview(draw(st.binary(max_size=300)))
    immediate = draw(st.integers(0, 2**32 - 1)) if opcode in WITH_IMMEDIATE else None
    return Write(opcode, draw(NUMBER_24), draw(NUMBER_24), draw(st.booleans()), reth, payload, immediate)


def state(size: int, port: int) -> int:
    return ip_udp_crc(socket.inet_aton(SRC), socket.inet_aton(DST), port, ROCE_PORT, size)


def frame(packet: Write, port: int) -> bytes:
    header, payload, trailer = encode_write(packet, state(write_frame_bytes(packet), port))
    return header + bytes(payload) + trailer


def on_the_wire(udp_payload: bytes, port: int, *, ttl: int = 61, tos: int = 3) -> IP:
    """The packet as scapy reads it behind a few routers: every field that a switch may change is changed."""
    packet = IP(src=SRC, dst=DST, id=0, flags="DF", ttl=ttl, tos=tos) / UDP(sport=port, dport=ROCE_PORT)
    return IP(bytes(packet / Raw(udp_payload)))


def scapy_icrc(packet: IP) -> int:
    """The ICRC as scapy computes it from the dissected packet."""
    return int.from_bytes(packet[BTH].compute_icrc(bytes(packet[BTH])), "big")


@given(writes(), PORTS)
def test_scapy_reads_every_field_of_a_write_as_it_was_meant(packet: Write, port: int) -> None:
    bth = on_the_wire(frame(packet, port), port)[BTH]
    assert (bth.opcode, bth.dqpn, bth.psn, bool(bth.ackreq)) == (
        packet.opcode,
        packet.qp,
        packet.psn,
        packet.ack_request,
    )
    assert (bth.version, bth.pkey, bth.padcount) == (0, 0xFFFF, -len(packet.payload) % 4)
    body = bytes(bth.payload)
    if packet.reth is not None:
        assert body[:8] == packet.reth.va.to_bytes(8, "big")
        assert body[8:12] == packet.reth.rkey.to_bytes(4, "big")
        assert body[12:16] == packet.reth.length.to_bytes(4, "big")
        body = body[16:]
    if packet.immediate is not None:
        assert body[:4] == packet.immediate.to_bytes(4, "big")
        body = body[4:]
    assert body == bytes(packet.payload) + bytes(bth.padcount)


@given(writes(), PORTS, st.integers(1, 255), st.integers(0, 255))
def test_scapy_computes_the_icrc_of_a_write_that_we_computed(packet: Write, port: int, ttl: int, tos: int) -> None:
    seen = on_the_wire(frame(packet, port), port, ttl=ttl, tos=tos)
    assert seen[BTH].icrc == scapy_icrc(seen)


@given(NUMBER_24, NUMBER_24, st.sampled_from((SYNDROME_ACK, NAK_SEQUENCE)), NUMBER_24)
def test_scapy_reads_an_acknowledgement_and_computes_its_icrc(qp: int, psn: int, syndrome: int, msn: int) -> None:
    seen = on_the_wire(encode_ack(Ack(qp, psn, syndrome, msn), state(ACK_FRAME_BYTES, ROCE_PORT)), ROCE_PORT)
    bth, aeth = seen[BTH], seen[AETH]
    assert (bth.opcode, bth.dqpn, bth.psn, aeth.syndrome, aeth.msn) == (ACKNOWLEDGE, qp, psn, syndrome, msn)
    assert bth.icrc == scapy_icrc(seen)


@given(writes(), PORTS)
def test_decoding_what_was_encoded_gives_it_back(packet: Write, port: int) -> None:
    data = frame(packet, port)
    assert len(data) == write_frame_bytes(packet)
    assert decode(memoryview(data), state(len(data), port)) == packet


@given(writes(), st.data())
def test_one_changed_bit_is_noticed(packet: Write, data: st.DataObject) -> None:
    good = frame(packet, 50000)
    masked = range(4 * 8, 5 * 8)  # congestion bits and reserved ones: switches may set them
    bit = data.draw(st.integers(0, len(good) * 8 - 1).filter(lambda bit: bit not in masked))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError, match="ICRC"):
        decode(memoryview(bad), state(len(bad), 50000))


@given(writes())
def test_a_packet_from_another_source_port_is_noticed(packet: Write) -> None:
    data = frame(packet, 50000)
    with pytest.raises(FrameError, match="ICRC"):
        decode(memoryview(data), state(len(data), 50001))


@given(st.binary(max_size=100))
def test_arbitrary_datagrams_are_refused_without_a_crash(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(memoryview(data), state(len(data), 50000))


@given(st.binary(min_size=12, max_size=60))
def test_arbitrary_transport_headers_with_a_right_icrc_do_not_crash(header: bytes) -> None:
    size = len(header) + 4
    crc = int.from_bytes(_icrc(header), "big")
    try:
        packet = decode(memoryview(header + crc.to_bytes(4, "big")), state(size, 50000))
    except FrameError as error:
        assert "ICRC" not in str(error)
    else:
        assert packet.qp == int.from_bytes(header[5:8], "big")


def _icrc(header: bytes) -> bytes:
    packet = on_the_wire(header + bytes(4), 50000)
    result: bytes = packet[BTH].compute_icrc(bytes(packet[BTH]))
    return result
