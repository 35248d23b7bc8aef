"""Hop-limited probes as packets: UDP datagrams with the 5-tuple of a flow, and the ICMP messages that quote them.

A router that drops a packet because its time to live has ended quotes its IP header and eight bytes behind it (RFC
792), which are the UDP header. The identification of the probe and the checksum of its random payload are there, so a
message counts only if its sender has seen the probe. Messages of IPv6 (RFC 4443) quote as much as fits; a random flow
label is in place of the identification. Where routers hash it, too, no port leads anywhere for long, which is seen.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from agent.linux.probing import checksum
from agent.plans.flow_keys import Address
from agent.ports.port_search import HopProbe
from agent.ports.probe_sockets import TIME_EXCEEDED, TIME_EXCEEDED_6, UNREACHABLE, UNREACHABLE_6, ProbeSockets

PAYLOAD_BYTES = 8
LONGEST_SECONDS = 10.0
"""For which an answer is known again."""

IP_HEADER = struct.Struct("!BBHHHBBH4s4s")
_UDP_HEADER = struct.Struct("!HHHH")
IPV6_HEADER = struct.Struct("!IHBB16s16s")
_VERSION_6, _FLOW_LABEL = 6 << 28, 0xFFFFF
_NEXT_HEADER, _IPV6_SRC, _IPV6_DST = 6, 8, 24
_QUOTED_AT = 8
_LIMIT_REACHED = 0
"""The code of TIME_EXCEEDED: in transit (1: while fragments were put together)."""


class HopAnswer(NamedTuple):
    """A router's message about a probe; ``unreachable``: it could not forward it, whatever the hop limit."""

    probe: HopProbe
    router: Address
    unreachable: bool


class Quote(NamedTuple):
    """The part of a packet that a router's ICMP error repeats: addresses, ports, identification and checksum of UDP.

    ``identification``: of IPv6 packets, the flow label.
    """

    src: bytes
    dst: bytes
    src_port: int
    dst_port: int
    identification: int
    checksum: int


class ProbePackets:
    """Makes the packets of probes, and knows them again."""

    def __init__(self, source: Address, dst_port: int) -> None:
        """Store where flows come from and go to."""
        self._source, self._dst_port = source, dst_port
        self._waiting: dict[Quote, HopProbe] = {}
        self._by_age: deque[tuple[float, Quote]] = deque()

    def packet(self, probe: HopProbe, now: float) -> bytes:
        """Return the packet of a probe, whose answers are known from now on."""
        payload = os.urandom(PAYLOAD_BYTES)
        is_ipv6 = self._source.version == 6
        identification = 1 + int.from_bytes(os.urandom(4)) % (_FLOW_LABEL if is_ipv6 else 0xFFFF)
        src, dst, size = self._source.packed, probe.dst.packed, _UDP_HEADER.size + PAYLOAD_BYTES
        # That of IPv6 has the same sum.
        pseudo = src + dst + struct.pack("!BBH", 0, socket.IPPROTO_UDP, size)
        udp = _UDP_HEADER.pack(probe.port, self._dst_port, size, 0)
        total = checksum(pseudo + udp + payload) or 0xFFFF
        while self._by_age and now - self._by_age[0][0] > LONGEST_SECONDS:
            self._waiting.pop(self._by_age.popleft()[1], None)
        quote = Quote(src, dst, probe.port, self._dst_port, identification, total)
        self._waiting[quote] = probe
        self._by_age.append((now, quote))
        if is_ipv6:
            first = _VERSION_6 | identification
            head = IPV6_HEADER.pack(first, size, socket.IPPROTO_UDP, probe.hop, src, dst)
        else:
            # The kernel writes the checksum of the IP header.
            whole = IP_HEADER.size + size
            head = IP_HEADER.pack(0x45, 0, whole, identification, 0, probe.hop, socket.IPPROTO_UDP, 0, src, dst)
        return head + _UDP_HEADER.pack(probe.port, self._dst_port, size, total) + payload

    def answer(self, data: bytes) -> HopAnswer | None:
        """Return what a received ICMP packet with its IP header says of a probe; ``None``: of none that is awaited."""
        error = icmp_error(data)
        quote = None if error is None else quoted(error.packet)
        awaited = None if quote is None else self._waiting.pop(quote, None)
        if error is None or awaited is None:
            return None
        return HopAnswer(awaited, error.router, error.unreachable)


class IcmpError(NamedTuple):
    """A router's message that it has dropped a packet: at the hop limit, or since it could not forward."""

    router: Address
    unreachable: bool
    packet: bytes


def icmp_error(data: bytes) -> IcmpError | None:
    """Return what a received ICMP packet with its IP header says of another one; ``None``: it is no such message."""
    is_ipv6 = bool(data) and data[0] >> 4 == 6
    start = IPV6_HEADER.size if is_ipv6 else (data[0] & 15) * 4 if data else 0
    message = data[start:]
    if len(data) < IP_HEADER.size or len(message) < _QUOTED_AT:
        return None
    unreachable, time_exceeded = (UNREACHABLE_6, TIME_EXCEEDED_6) if is_ipv6 else (UNREACHABLE, TIME_EXCEEDED)
    kind, code = message[:2]
    if kind != unreachable and (kind, code) != (time_exceeded, _LIMIT_REACHED):
        return None
    router: Address = IPv6Address(data[_IPV6_SRC:_IPV6_DST]) if is_ipv6 else IPv4Address(data[12:16])
    return IcmpError(router, kind == unreachable, message[_QUOTED_AT:])


def quoted(packet: bytes) -> Quote | None:
    """Return the fields of a quoted packet; ``None``: it is no IP packet with a UDP header, or too short."""
    if len(packet) >= IPV6_HEADER.size + _UDP_HEADER.size and packet[0] >> 4 == 6:
        if packet[_NEXT_HEADER] != socket.IPPROTO_UDP:
            return None
        src_port, dst_port, _, total = _UDP_HEADER.unpack_from(packet, IPV6_HEADER.size)
        label = int.from_bytes(packet[:4]) & _FLOW_LABEL
        src, dst = packet[_IPV6_SRC:_IPV6_DST], packet[_IPV6_DST : IPV6_HEADER.size]
        return Quote(src, dst, src_port, dst_port, label, total)
    if len(packet) < IP_HEADER.size or packet[0] >> 4 != 4:
        return None
    start = (packet[0] & 15) * 4
    if packet[9] != socket.IPPROTO_UDP or len(packet) < start + _UDP_HEADER.size:
        return None
    src_port, dst_port, _, total = _UDP_HEADER.unpack_from(packet, start)
    (identification,) = struct.unpack_from("!H", packet, 4)
    return Quote(packet[12:16], packet[16:20], src_port, dst_port, identification, total)


class HopProbeSocket(ProbeSockets):
    """Sends probes, and hears the routers' messages."""

    def __init__(self, source: Address, dst_port: int, interface: str | None) -> None:
        """Open raw sockets, as ``ProbeSockets`` does; flows go to ``dst_port``."""
        super().__init__(source, interface)
        self._packets = ProbePackets(source, dst_port)

    def send(self, probe: HopProbe) -> None:
        """Send a probe; one that the host itself could not send counts as lost.

        Raises:
            HostAgentError: no route leads there.
        """
        self.send_packet(self._packets.packet(probe, time.monotonic()), probe.dst)

    def read(self) -> Iterator[HopAnswer]:
        """Yield the answers that have arrived."""
        for data in self.received():
            if (answer := self._packets.answer(data)) is not None:
                yield answer
