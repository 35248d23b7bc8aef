"""Messages of routers that could not forward a packet of this host (ICMPv6, RFC 4443).

Any host that may send to segment ids could forge such a message in the name of a router: within a packet that this host
takes out of its carrier. Filters at the border of the fabric do not see it. Routers send theirs without a carrier; so
only those are heard whose outermost header, behind that of Ethernet, is that of the message itself.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import NamedTuple

UNREACHABLE, TIME_EXCEEDED = 1, 3
_ICMPV6_FILTER = 1
_QUOTED, _SOURCE, _DESTINATION = 8, 8, 24
_IPV6_HEADER = 40
_RECEIVE_BYTES = 2048

_SO_ATTACH_FILTER = 26
_ETHERNET_BYTES, _NEXT_HEADER = 14, 6
_FROM_LINK_LAYER = -0x200000
"""Offsets of a socket filter from here count from the link layer's header (SKF_LL_OFF of linux/filter.h), which stays
where it is when the kernel takes a packet out of another one."""
_LOAD_BYTE, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x15, 0x06
_ALL_BYTES = 0xFFFFFFFF


class UnreachableMessage(NamedTuple):
    """A packet that a router could not forward: its destination address there, its source, and the router."""

    quoted: IPv6Address
    source: IPv6Address
    at: str


class UnreachableSocket:
    """Hears the messages."""

    def __init__(self) -> None:
        """Open a raw socket."""
        self.socket = socket.socket(socket.AF_INET6, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMPV6)
        # A bit that is set keeps a type out (RFC 3542, 3.2).
        blocked = [0xFFFFFFFF] * 8
        for kind in (UNREACHABLE, TIME_EXCEEDED):
            blocked[kind >> 5] &= ~(1 << (kind & 31))
        self.socket.setsockopt(socket.IPPROTO_ICMPV6, _ICMPV6_FILTER, struct.pack("=8I", *blocked))
        _hear_outermost_only(self.socket)

    def read(self) -> Iterator[UnreachableMessage]:
        """Yield the messages that have arrived."""
        while True:
            try:
                data, sender = self.socket.recvfrom(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            if (message := quoted(data, sender[0].split("%")[0])) is not None:
                yield message

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def _hear_outermost_only(of: socket.socket) -> None:
    """Attach a filter that drops messages within other packets."""
    steps = (
        (_LOAD_BYTE, 0, 0, (_FROM_LINK_LAYER + _ETHERNET_BYTES + _NEXT_HEADER) & _ALL_BYTES),
        (_JUMP_IF_EQUAL, 0, 1, socket.IPPROTO_ICMPV6),
        (_RETURN, 0, 0, _ALL_BYTES),
        (_RETURN, 0, 0, 0),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    of.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(steps), ctypes.addressof(code)))


def quoted(data: bytes, sender: str) -> UnreachableMessage | None:
    """Return what a message says; ``None``: it quotes no IPv6 packet."""
    packet = data[_QUOTED:]
    if data[:1] not in (bytes([UNREACHABLE]), bytes([TIME_EXCEEDED])) or len(packet) < _IPV6_HEADER:
        return None
    if packet[0] >> 4 != 6:
        return None
    return UnreachableMessage(
        IPv6Address(packet[_DESTINATION : _DESTINATION + 16]), IPv6Address(packet[_SOURCE : _SOURCE + 16]), sender
    )
