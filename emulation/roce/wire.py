"""RoCEv2 framing: the transport headers of RDMA writes and acknowledgements, and the invariant CRC.

A datagram to UDP port 4791 is BTH (12 bytes), then RETH (16, first packet of a write), immediate data (4, last packet
of a write with immediate) or AETH (4, acknowledgement), payload padded to four bytes, ICRC (4). InfiniBand Architecture
volume 1, chapter 9 (transport headers, opcodes) and annex A17 (RoCEv2).

The ICRC is the CRC-32 of Ethernet over eight bytes of ones, the IPv4 and UDP headers, the transport headers and the
payload, where everything that a switch may change counts as ones: TOS, TTL, both checksums, the BTH's fifth byte
(FECN, BECN, reserved). The identification, the flags and the length of the IPv4 header do count. Linux gives
identification 0 to datagrams that carry DF and leave an *unconnected* socket (``ip_select_ident_segs``), and a counter
to those of a connected one; a sender that does not see its IP header can therefore know it, if its sockets
stay unconnected with ``IP_MTU_DISCOVER`` set (udp.py does that). That is what ``ip_udp_crc`` assumes.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

WRITE_FIRST = 0x06
WRITE_MIDDLE = 0x07
WRITE_LAST = 0x08
WRITE_LAST_IMMEDIATE = 0x09
WRITE_ONLY = 0x0A
WRITE_ONLY_IMMEDIATE = 0x0B
ACKNOWLEDGE = 0x11

FIRST_PACKETS = (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMMEDIATE)
LAST_PACKETS = (WRITE_LAST, WRITE_LAST_IMMEDIATE, WRITE_ONLY, WRITE_ONLY_IMMEDIATE)
WITH_IMMEDIATE = (WRITE_LAST_IMMEDIATE, WRITE_ONLY_IMMEDIATE)

PATH_MTUS = (256, 512, 1024, 2048, 4096)
"""Payload bytes a packet, as InfiniBand numbers them; every packet of a message but the last is full."""

MAX_MESSAGE = 1 << 31
"""Longest message of a queue pair, in bytes."""

ETHERNET_IP_UDP_BYTES = 14 + 20 + 8
"""Around a UDP payload, as the kernel's shapers count a frame: without its check sequence."""

FRAME_OVERHEAD = ETHERNET_IP_UDP_BYTES + 12 + 4
"""The same around the payload of a packet that carries no RETH."""

_IP_UDP = struct.Struct("!BBHHHBBH4s4sHHHH")
_BTH = struct.Struct("!BBHBBHI")
_RETH = struct.Struct("!QII")
_IMMEDIATE = struct.Struct("!I")
_AETH = struct.Struct("!I")
_ICRC = struct.Struct("<I")

_ONES = b"\xff" * 8
_BTH_BYTES = _BTH.size
_DEFAULT_PARTITION = 0xFFFF
_DONT_FRAGMENT = 0x4000
_UDP = 17


class Reth(NamedTuple):
    """RDMA extended transport header: where the message goes in the responder's memory, and its whole length."""

    va: int
    rkey: int
    length: int


class Write(NamedTuple):
    """One packet of an RDMA write. ``qp`` is the responder's queue pair.

    ``reth`` is there on First and Only, ``immediate`` on Last and Only with immediate.
    """

    opcode: int
    qp: int
    psn: int
    ack_request: bool
    reth: Reth | None
    payload: memoryview
    immediate: int | None = None


class Ack(NamedTuple):
    """An acknowledgement. ``qp`` is the requester's queue pair; ``msn`` counts the messages completed, modulo 2^24."""

    qp: int
    psn: int
    syndrome: int
    msn: int


SYNDROME_ACK = 0x1F
"""Positive, and no end-to-end credits (all ones is the code for that)."""

NAK_SEQUENCE = 0x60
NAK_INVALID_REQUEST = 0x61
NAK_REMOTE_ACCESS = 0x62

SYNDROME_NAMES = {
    SYNDROME_ACK: "ack",
    NAK_SEQUENCE: "PSN sequence error",
    NAK_INVALID_REQUEST: "invalid request",
    NAK_REMOTE_ACCESS: "remote access error",
}


class FrameError(ValueError):
    """A datagram that is no RoCEv2 packet of a kind spoken here, or whose ICRC is wrong."""


def ip_udp_crc(src: bytes, dst: bytes, src_port: int, dst_port: int, udp_payload: int) -> int:
    """CRC of the masked IPv4 and UDP headers: the state from which ``icrc`` goes on. Addresses are 4 bytes each."""
    udp_length = udp_payload + 8
    header = _IP_UDP.pack(
        0x45,
        0xFF,
        udp_length + 20,
        0,
        _DONT_FRAGMENT,
        0xFF,
        _UDP,
        0xFFFF,
        src,
        dst,
        src_port,
        dst_port,
        udp_length,
        0xFFFF,
    )
    return crc32(header, crc32(_ONES))


def _transport_crc(state: int, header: bytes | memoryview) -> int:
    """Continue the CRC over the BTH and the following bytes, with the BTH's fifth byte as ones."""
    return crc32(header[5:], crc32(b"\xff", crc32(header[:4], state)))


def write_frame_bytes(packet: Write) -> int:
    """UDP payload bytes of a packet."""
    size = len(packet.payload)
    further = (_RETH.size if packet.reth is not None else 0) + (_IMMEDIATE.size if packet.immediate is not None else 0)
    return _BTH_BYTES + further + size + (-size & 3) + _ICRC.size


def encode_write(packet: Write, state: int) -> tuple[bytes, memoryview, bytes]:
    """Header, payload, trailer (padding and ICRC), to be sent one after the other; the payload is not copied.

    ``state`` comes from ``ip_udp_crc`` for a payload of ``write_frame_bytes(packet)``.
    """
    pad = -len(packet.payload) & 3
    header = _BTH.pack(
        packet.opcode,
        pad << 4,
        _DEFAULT_PARTITION,
        0,
        packet.qp >> 16,
        packet.qp & 0xFFFF,
        (0x80000000 if packet.ack_request else 0) | packet.psn,
    )
    if packet.reth is not None:
        header += _RETH.pack(*packet.reth)
    if packet.immediate is not None:
        header += _IMMEDIATE.pack(packet.immediate)
    padding = bytes(pad)
    crc = crc32(padding, crc32(packet.payload, _transport_crc(state, header)))
    return header, packet.payload, padding + _ICRC.pack(crc)


ACK_FRAME_BYTES = _BTH_BYTES + _AETH.size + _ICRC.size


def encode_ack(ack: Ack, state: int) -> bytes:
    """Return the UDP payload of an acknowledgement; ``state`` is from ``ip_udp_crc`` for ``ACK_FRAME_BYTES``."""
    header = _BTH.pack(ACKNOWLEDGE, 0, _DEFAULT_PARTITION, 0, ack.qp >> 16, ack.qp & 0xFFFF, ack.psn)
    header += _AETH.pack(ack.syndrome << 24 | ack.msn)
    return header + _ICRC.pack(_transport_crc(state, header))


def decode(datagram: memoryview, state: int) -> Write | Ack:
    """Parse a UDP payload; a write's payload is a view into it. ``state`` from ``ip_udp_crc`` for its length.

    Raises:
        FrameError: too short, an opcode not spoken here, a header version other than 0, a wrong ICRC.
    """
    end = len(datagram) - _ICRC.size
    if end < _BTH_BYTES:
        raise FrameError(f"{len(datagram)} bytes are too few for a transport header and its CRC")
    if _ICRC.unpack_from(datagram, end)[0] != _transport_crc(state, datagram[:end]):
        raise FrameError("wrong ICRC")
    opcode, flags, _, _, qp_high, qp_low, tail = _BTH.unpack_from(datagram)
    if flags & 0x0F:
        raise FrameError(f"transport header version {flags & 0x0F} instead of 0")
    qp = qp_high << 16 | qp_low
    psn = tail & 0xFFFFFF
    if opcode == ACKNOWLEDGE:
        if end < _BTH_BYTES + _AETH.size:
            raise FrameError("an acknowledgement without AETH")
        aeth = _AETH.unpack_from(datagram, _BTH_BYTES)[0]
        return Ack(qp, psn, aeth >> 24, aeth & 0xFFFFFF)
    if opcode not in (*FIRST_PACKETS, WRITE_MIDDLE, *LAST_PACKETS):
        raise FrameError(f"opcode {opcode:#04x} is not supported")
    at, reth, immediate = _BTH_BYTES, None, None
    if opcode in FIRST_PACKETS:
        if end < at + _RETH.size:
            raise FrameError("the first packet of a write without RETH")
        reth = Reth(*_RETH.unpack_from(datagram, at))
        at += _RETH.size
    if opcode in WITH_IMMEDIATE:
        if end < at + _IMMEDIATE.size:
            raise FrameError("a write with immediate without its data")
        immediate = _IMMEDIATE.unpack_from(datagram, at)[0]
        at += _IMMEDIATE.size
    end -= (flags >> 4) & 3
    if end < at:
        raise FrameError("more padding than payload")
    return Write(opcode, qp, psn, bool(tail & 0x80000000), reth, datagram[at:end], immediate)
