"""Hop-limited probes with the ports of a TCP connection: segments that belong to none, and the ICMP errors on them.

A router quotes eight bytes of a dropped segment at least (RFC 792): its ports and its sequence number, which is random.
With the random identification of the IP header it shows that the router has seen the probe.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

from agent.linux.probing import checksum
from agent.plans.flow_keys import Address
from agent.ports.hop_probes import IP_HEADER, icmp_error

_TCP_HEADER = struct.Struct("!HHIIBBHHH")
_QUOTED = struct.Struct("!HHI")
_OFFSET, _ACK = 5 << 4, 0x10
_SIZE = IP_HEADER.size + _TCP_HEADER.size


class PortPair(NamedTuple):
    """The ports of a connection: that of the sender of packets, and that of their receiver."""

    src_port: int
    dst_port: int


class TcpProbe(NamedTuple):
    """A probe: its destination, its ports, and its hop limit."""

    dst: Address
    ports: PortPair
    hop: int


class TcpAnswer(NamedTuple):
    """A router's message about a probe; ``unreachable``: it could not forward it, whatever the hop limit."""

    probe: TcpProbe
    router: Address
    unreachable: bool


class _Quote(NamedTuple):
    src: bytes
    dst: bytes
    ports: PortPair
    sequence: int
    identification: int


class TcpProbePackets:
    """Makes the packets of probes, and knows them again."""

    def __init__(self, source: Address) -> None:
        """Store where connections come from."""
        self._source = source
        self._waiting: dict[_Quote, TcpProbe] = {}

    def packet(self, probe: TcpProbe) -> bytes:
        """Return the packet of a probe, whose answers are known from now on: a segment with nothing but ACK."""
        src, dst = self._source.packed, probe.dst.packed
        sequence, acknowledged = (int.from_bytes(os.urandom(4)) for _ in range(2))
        identification = 1 + int.from_bytes(os.urandom(2)) % 0xFFFF
        fields = *probe.ports, sequence, acknowledged, _OFFSET, _ACK, 0
        pseudo = src + dst + struct.pack("!BBH", 0, socket.IPPROTO_TCP, _TCP_HEADER.size)
        segment = _TCP_HEADER.pack(*fields, checksum(pseudo + _TCP_HEADER.pack(*fields, 0, 0)), 0)
        self._waiting[_Quote(src, dst, probe.ports, sequence, identification)] = probe
        # The kernel writes the checksum of the IP header.
        return IP_HEADER.pack(0x45, 0, _SIZE, identification, 0, probe.hop, socket.IPPROTO_TCP, 0, src, dst) + segment

    def answer(self, data: bytes) -> TcpAnswer | None:
        """Return what a received ICMP packet with its IP header says of a probe; ``None``: of none that is awaited."""
        error = icmp_error(data)
        quote = None if error is None else _quoted(error.packet)
        awaited = None if quote is None else self._waiting.pop(quote, None)
        if error is None or awaited is None:
            return None
        return TcpAnswer(awaited, error.router, error.unreachable)

    def forget(self) -> None:
        """Await no answers any more."""
        self._waiting.clear()


def _quoted(packet: bytes) -> _Quote | None:
    """Return the fields of a quoted packet; ``None``: it is no IPv4 packet with TCP's first bytes, or too short."""
    if len(packet) < IP_HEADER.size or packet[0] >> 4 != 4:
        return None
    start = (packet[0] & 15) * 4
    if packet[9] != socket.IPPROTO_TCP or len(packet) < start + _QUOTED.size:
        return None
    src_port, dst_port, sequence = _QUOTED.unpack_from(packet, start)
    (identification,) = struct.unpack_from("!H", packet, 4)
    return _Quote(packet[12:16], packet[16:20], PortPair(src_port, dst_port), sequence, identification)
