"""TCP in the first bytes of a frame: how far a connection has come in what it sends.

A frame is Ethernet, up to two VLAN tags, MPLS labels, IPv4 and TCP (RFC 9293), as in ``roce_packet``. Sequence numbers
count bytes, so those of two segments tell how much was sent between them, whatever was lost in between. Segments
without data (acknowledgements) tell nothing of their direction.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.model.packets.flow_ports import TCP
from controller.model.packets.ip_frames import ipv4_at

_IP, _TCP = 20, 20
_SYN = 0x02


class TcpPacket(NamedTuple):
    """A segment that carries data.

    Attributes:
        connection: source and destination address and port, as they are in the packet: 12 bytes.
        end: the sequence number after its last byte, modulo 2^32.
    """

    connection: bytes
    end: int


def tcp_packet(frame: bytes) -> TcpPacket | None:
    """Return the TCP segment in the first bytes of a frame; ``None`` if there is none that carries data."""
    at = ipv4_at(frame, _IP + _TCP)
    if at is None or frame[at + 9] != TCP:
        return None
    tcp = at + _IP
    payload = ((frame[at + 2] << 8) | frame[at + 3]) - _IP - (frame[tcp + 12] >> 4) * 4
    if payload <= 0 or frame[tcp + 13] & _SYN:
        return None
    sequence = int.from_bytes(frame[tcp + 4 : tcp + 8], "big")
    return TcpPacket(frame[at + 12 : at + 24], (sequence + payload) % (1 << 32))


def tcp_ends(frame: bytes) -> tuple[int, int] | None:
    """Return source and destination address of a TCP packet, with or without data; ``None``: it is something else."""
    at = ipv4_at(frame, _IP + _TCP)
    if at is None or frame[at + 9] != TCP:
        return None
    return int.from_bytes(frame[at + 12 : at + 16], "big"), int.from_bytes(frame[at + 16 : at + 20], "big")
