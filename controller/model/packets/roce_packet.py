"""RoCEv2 in the first bytes of a frame: which QP has sent which packet.

A frame is Ethernet, up to two VLAN tags (IEEE 802.1Q), MPLS labels (RFC 3032), IPv4, UDP to port 4791, BTH (InfiniBand
Architecture volume 1, chapter 9.2, and annex A17). Only packets that carry data in the direction in which their packet
sequence number counts tell what a QP has sent: SEND and WRITE of the connected transports. Acknowledgements repeat the
numbers of the other direction; the numbers of READ responses are those of the requests.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.model.packets.flow_ports import UDP
from controller.model.packets.ip_frames import ipv4_at
from controller.model.packets.port_numbers import ROCE_PORT

KEY_BYTES = 13
"""Of a key: source and destination address, UDP source port, destination QP, as they are in the packet."""

PATH_MTUS = (256, 512, 1024, 2048, 4096)

_DESTINATION = ROCE_PORT.to_bytes(2, "big")
_FULL = frozenset((0x00, 0x01, 0x06, 0x07))
"""Opcodes (without the transport's three bits) of packets that are as long as the path MTU: first and middle."""
_FURTHER = {
    0x00: 0,
    0x01: 0,
    0x02: 0,
    0x03: 4,
    0x04: 0,
    0x05: 4,
    0x06: 16,
    0x07: 0,
    0x08: 0,
    0x09: 4,
    0x0A: 16,
    0x0B: 20,
}
"""Bytes of the headers after BTH, by opcode: SEND and WRITE, first to only, with immediate data."""
_TRANSPORTS = (0x00, 0x20)
"""Reliable and unreliable connection."""
_IP_UDP, _BTH, _ICRC = 28, 12, 4


class RocePacket(NamedTuple):
    """A packet that carries data.

    Attributes:
        key: ``KEY_BYTES`` bytes that name the QP.
        psn: its packet sequence number.
        payload: its bytes of data.
        full: whether ``payload`` is the path MTU: other packets may be shorter.
    """

    key: bytes
    psn: int
    payload: int
    full: bool


def roce_packet(frame: bytes) -> RocePacket | None:
    """Return the RoCEv2 packet in the first bytes of a frame; ``None`` if there is none that carries data."""
    at = _ip_header_at(frame)
    if at is None:
        return None
    bth = at + _IP_UDP
    opcode = frame[bth] & 0x1F
    further = _FURTHER.get(opcode)
    if further is None or frame[bth] & 0xE0 not in _TRANSPORTS:
        return None
    pad = (frame[bth + 1] >> 4) & 3
    length = (frame[at + 2] << 8) | frame[at + 3]
    payload = length - _IP_UDP - _BTH - further - pad - _ICRC
    if payload < 0:
        return None
    psn = int.from_bytes(frame[bth + 9 : bth + 12], "big")
    return RocePacket(_key(frame, at), psn, payload, opcode in _FULL)


def roce_key(frame: bytes) -> bytes | None:
    """Return the key of the QP to which a frame is sent, acknowledgements included; ``None``: it is no RoCEv2."""
    at = _ip_header_at(frame)
    return None if at is None else _key(frame, at)


def flow_of(frame: bytes) -> bytes | None:
    """Return source and destination address and UDP source port (10 bytes) of a packet to the port of RoCEv2.

    What it carries does not matter: probes have the ports of flows, and no BTH. ``None``: it is something else.
    """
    at = ipv4_at(frame, _IP_UDP)
    if at is None or frame[at + 9] != UDP or frame[at + 22 : at + 24] != _DESTINATION:
        return None
    return frame[at + 12 : at + 22]


def _ip_header_at(frame: bytes) -> int | None:
    """Return where the IPv4 header of a RoCEv2 packet begins that holds its BTH; ``None``: it is something else."""
    at = ipv4_at(frame, _IP_UDP + _BTH)
    if at is None or frame[at + 9] != UDP or frame[at + 22 : at + 24] != _DESTINATION:
        return None
    return at


def _key(frame: bytes, at: int) -> bytes:
    bth = at + _IP_UDP
    return frame[at + 12 : at + 22] + frame[bth + 5 : bth + 8]


def path_mtu(payload: int) -> int:
    """Return the smallest path MTU that holds a payload."""
    return next((mtu for mtu in PATH_MTUS if mtu >= payload), PATH_MTUS[-1])
