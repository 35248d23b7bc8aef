"""Hop-limited probes as packets: UDP datagrams with the 5-tuple of a flow, and the ICMP messages that quote them.

A router that drops a packet because its time to live has ended quotes its IP header and eight bytes behind it (RFC
792), which are the UDP header. The identification of the probe and the checksum of its random payload are there, so a
message counts only if its sender has seen the probe.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import NamedTuple

from agent.errors import HostAgentError
from agent.linux.probing import checksum
from agent.ports.port_search import HopProbe

UNREACHABLE, TIME_EXCEEDED = 3, 11
PAYLOAD_BYTES = 8
LONGEST_SECONDS = 10.0
"""For which an answer is known again."""

_SOL_RAW, _ICMP_FILTER, _SO_RCVBUFFORCE = 255, 1, 33
_RECEIVE_BYTES, _BUFFER_BYTES = 2048, 4 << 20
_IP_HEADER, _UDP_HEADER = struct.Struct("!BBHHHBBH4s4s"), struct.Struct("!HHHH")
_QUOTED_AT = 8
_LIMIT_REACHED = 0
"""The code of TIME_EXCEEDED: in transit (1: while fragments were put together)."""


class HopAnswer(NamedTuple):
    """A router's message about a probe; ``unreachable``: it could not forward it, whatever the hop limit."""

    probe: HopProbe
    router: IPv4Address
    unreachable: bool


class Quote(NamedTuple):
    """The part of a packet that a router's ICMP error repeats: addresses, ports, identification and checksum of UDP."""

    src: bytes
    dst: bytes
    src_port: int
    dst_port: int
    identification: int
    checksum: int


class ProbePackets:
    """Makes the packets of probes, and knows them again."""

    def __init__(self, source: IPv4Address, dst_port: int) -> None:
        """Store where flows come from and go to."""
        self._source, self._dst_port = source, dst_port
        self._waiting: dict[Quote, HopProbe] = {}
        self._by_age: deque[tuple[float, Quote]] = deque()

    def packet(self, probe: HopProbe, now: float) -> bytes:
        """Return the packet of a probe, whose answers are known from now on."""
        payload = os.urandom(PAYLOAD_BYTES)
        identification = 1 + int.from_bytes(os.urandom(2)) % 0xFFFF
        src, dst, size = self._source.packed, probe.dst.packed, _UDP_HEADER.size + PAYLOAD_BYTES
        pseudo = src + dst + struct.pack("!BBH", 0, socket.IPPROTO_UDP, size)
        udp = _UDP_HEADER.pack(probe.port, self._dst_port, size, 0)
        total = checksum(pseudo + udp + payload) or 0xFFFF
        while self._by_age and now - self._by_age[0][0] > LONGEST_SECONDS:
            self._waiting.pop(self._by_age.popleft()[1], None)
        quote = Quote(src, dst, probe.port, self._dst_port, identification, total)
        self._waiting[quote] = probe
        self._by_age.append((now, quote))
        # The kernel writes the checksum of the IP header.
        whole = _IP_HEADER.size + size
        head = _IP_HEADER.pack(0x45, 0, whole, identification, 0, probe.hop, socket.IPPROTO_UDP, 0, src, dst)
        return head + _UDP_HEADER.pack(probe.port, self._dst_port, size, total) + payload

    def answer(self, data: bytes) -> HopAnswer | None:
        """Return what a received ICMP packet with its IP header says of a probe; ``None``: of none that is awaited."""
        start = (data[0] & 15) * 4 if data else 0
        message = data[start:]
        if len(data) < _IP_HEADER.size or len(message) < _QUOTED_AT:
            return None
        kind, code = message[:2]
        if kind != UNREACHABLE and (kind, code) != (TIME_EXCEEDED, _LIMIT_REACHED):
            return None
        quote = quoted(message[_QUOTED_AT:])
        awaited = None if quote is None else self._waiting.pop(quote, None)
        return None if awaited is None else HopAnswer(awaited, IPv4Address(data[12:16]), kind == UNREACHABLE)


def quoted(packet: bytes) -> Quote | None:
    """Return the fields of a quoted packet; ``None``: it is no IPv4 packet with a UDP header, or too short."""
    if len(packet) < _IP_HEADER.size or packet[0] >> 4 != 4:
        return None
    start = (packet[0] & 15) * 4
    if packet[9] != socket.IPPROTO_UDP or len(packet) < start + _UDP_HEADER.size:
        return None
    src_port, dst_port, _, total = _UDP_HEADER.unpack_from(packet, start)
    (identification,) = struct.unpack_from("!H", packet, 4)
    return Quote(packet[12:16], packet[16:20], src_port, dst_port, identification, total)


class HopProbeSocket:
    """Sends probes, and hears the routers' messages."""

    def __init__(self, source: IPv4Address, dst_port: int, interface: str | None) -> None:
        """Open raw sockets.

        Args:
            source: address from which flows come.
            dst_port: of the flows.
            interface: by which probes leave; ``None``: by routes.

        Raises:
            HostAgentError: the process may not, or the interface or the address cannot be used.
        """
        self._packets = ProbePackets(source, dst_port)
        self._sender, self.socket = _raw_sockets()
        # A bit that is set keeps a type out (raw(7)).
        blocked = 0xFFFFFFFF & ~(1 << UNREACHABLE) & ~(1 << TIME_EXCEEDED)
        self.socket.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", blocked))
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        try:
            if interface is not None:
                self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            self.socket.bind((str(source), 0))
        except OSError as error:
            self.close()
            raise HostAgentError(f"{interface or source} cannot be used: {error.strerror}", exit_code=2) from None

    @staticmethod
    def check() -> None:
        """See whether the process may send probes.

        Raises:
            HostAgentError: it may not.
        """
        for each in _raw_sockets():
            each.close()

    def close(self) -> None:
        """Close the sockets."""
        self._sender.close()
        self.socket.close()

    def send(self, probe: HopProbe) -> None:
        """Send a probe; one that the host itself could not send counts as lost.

        Raises:
            HostAgentError: no route leads there.
        """
        packet = self._packets.packet(probe, time.monotonic())
        try:
            self._sender.sendto(packet, (str(probe.dst), 0))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise HostAgentError(f"probes to {probe.dst} cannot be sent: {error.strerror}") from None

    def read(self) -> Iterator[HopAnswer]:
        """Yield the answers that have arrived."""
        while True:
            try:
                data = self.socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            if (answer := self._packets.answer(data)) is not None:
                yield answer


def _raw_sockets() -> tuple[socket.socket, socket.socket]:
    """Return a socket that sends IP packets, and one that hears ICMP messages."""
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
    try:
        sender = socket.socket(socket.AF_INET, kind, socket.IPPROTO_RAW)
        return sender, socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    except PermissionError:
        raise HostAgentError("root, or the right CAP_NET_RAW, is needed to send probes", exit_code=2) from None
