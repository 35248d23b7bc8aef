"""Probes: packets to this host itself, over a path and back; switches forward them as they forward data."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import NamedTuple

from agent.errors import HostAgentError

IPV6_INSIDE, HOP_LIMIT = 41, 64
_SO_TIMESTAMPNS = 35
_BODY = struct.Struct("!8sQ")
_TIME = struct.Struct("=qq")
_CHECKSUM_AT = 6
LONGEST_SECONDS = 10.0
"""A measured time above this is that of a clock which was set."""


class Answer(NamedTuple):
    """A probe that has come back, and when (``time.monotonic``)."""

    probe: IPv6Address
    number: int
    at: float


class ProbeSocket:
    """Sends probes and receives those that come back."""

    def __init__(self, source: IPv6Address) -> None:
        """Open the sockets.

        Raises:
            HostAgentError: the host does not have this address.
        """
        self.source = source
        self._nonce, self._number = os.urandom(8), 0
        self._waiting: dict[int, tuple[IPv6Address, float, float]] = {}
        self.socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        try:
            self.socket.bind((str(source), 0))
        except OSError as error:
            self.socket.close()
            raise HostAgentError(f"the plan's source address {source} cannot be used: {error.strerror}") from None
        self._port = self.socket.getsockname()[1]
        # Of this protocol, a socket only sends, and the caller writes the header.
        self._sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_RAW)

    def close(self) -> None:
        """Close the sockets."""
        self.socket.close()
        self._sender.close()

    def send(self, probe: IPv6Address, to: IPv6Address) -> tuple[int, float] | None:
        """Send a probe; return its number and when it was sent. ``None``: the host itself could not send it.

        Args:
            probe: which one.
            to: its address, with a tag.
        """
        self._number += 1
        packet = probe_packet(self.source, to, self._port, _BODY.pack(self._nonce, self._number))
        now, clock = time.monotonic(), time.time()
        try:
            self._sender.sendto(packet, (str(to), 0))
        except OSError:
            return None
        self._waiting[self._number] = probe, now, clock
        for number in [number for number, (_, sent, _) in self._waiting.items() if now - sent > LONGEST_SECONDS]:
            del self._waiting[number]
        return self._number, now

    def read(self) -> Iterator[Answer]:
        """Yield the probes that have come back. The kernel has noted when: the agent may be late itself."""
        while True:
            try:
                data, control, _, _ = self.socket.recvmsg(64, 64)
            except BlockingIOError:
                return
            if len(data) != _BODY.size:
                continue
            nonce, number = _BODY.unpack(data)
            if nonce != self._nonce or number not in self._waiting:
                continue
            probe, sent, clock = self._waiting.pop(number)
            took = _arrived(control) - clock
            yield Answer(probe, number, sent + took if 0 <= took <= LONGEST_SECONDS else time.monotonic())


def _arrived(control: list[tuple[int, int, bytes]]) -> float:
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIME.size:
            seconds, nanoseconds = _TIME.unpack_from(data)
            return float(seconds + nanoseconds / 1e9)
    return time.time()


def probe_packet(source: IPv6Address, probe: IPv6Address, port: int, body: bytes) -> bytes:
    """Return a packet to a probe's address, and in it a UDP datagram from the host to itself."""
    own = source.packed
    size = 8 + len(body)
    head = struct.pack("!HHHH", port, port, size, 0)
    total = checksum(own + own + struct.pack("!II", size, socket.IPPROTO_UDP) + head + body) or 0xFFFF
    datagram = head[:_CHECKSUM_AT] + struct.pack("!H", total) + body
    inner = struct.pack("!IHBB", 6 << 28, size, socket.IPPROTO_UDP, HOP_LIMIT) + own + own + datagram
    return struct.pack("!IHBB", 6 << 28, len(inner), IPV6_INSIDE, HOP_LIMIT) + own + probe.packed + inner


def checksum(data: bytes) -> int:
    """Return the checksum of the internet protocols (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
