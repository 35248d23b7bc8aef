"""Raw sockets of probes: packets go out as they are, and the ICMP errors of routers come in."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv6Address

from agent.errors import HostAgentError
from agent.plans.flow_keys import Address

UNREACHABLE, TIME_EXCEEDED = 3, 11
UNREACHABLE_6, TIME_EXCEEDED_6 = 1, 3
"""Of ICMPv6 (RFC 4443)."""

_SOL_RAW, _ICMP_FILTER, _ICMPV6_FILTER, _SO_RCVBUFFORCE = 255, 1, 1, 33
_IPV6_HEADER = struct.Struct("!IHBB16s16s")
_RECEIVE_BYTES, _BUFFER_BYTES = 2048, 4 << 20


class ProbeSockets:
    """A socket that sends IP packets, and one that hears ICMP errors (``socket``)."""

    def __init__(self, source: Address, interface: str | None) -> None:
        """Open raw sockets.

        Args:
            source: address from which flows come.
            interface: by which probes leave; ``None``: by routes.

        Raises:
            HostAgentError: the process may not, or the interface or the address cannot be used.
        """
        self._source = source
        self._sender, self.socket = _raw_sockets(source.version)
        # A bit that is set keeps a type out (raw(7); RFC 3542, 3.2).
        if source.version == 6:
            blocked = 0xFFFFFFFF & ~(1 << UNREACHABLE_6) & ~(1 << TIME_EXCEEDED_6)
            every = struct.pack("=8I", blocked, *[0xFFFFFFFF] * 7)
            self.socket.setsockopt(socket.IPPROTO_ICMPV6, _ICMPV6_FILTER, every)
        else:
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

    def send_packet(self, packet: bytes, dst: Address) -> None:
        """Send a packet with its IP header; one that the host itself could not send counts as lost.

        Raises:
            HostAgentError: no route leads there.
        """
        try:
            self._sender.sendto(packet, (str(dst), 0))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise HostAgentError(f"probes to {dst} cannot be sent: {error.strerror}") from None

    def received(self) -> Iterator[bytes]:
        """Yield the ICMP packets that have arrived, with their IP headers."""
        while True:
            try:
                data, sender = self.socket.recvfrom(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            if self._source.version == 4:
                yield data
                continue
            # Sockets of IPv6 do not show it.
            ends = IPv6Address(sender[0].partition("%")[0]).packed, self._source.packed
            yield _IPV6_HEADER.pack(6 << 28, len(data), socket.IPPROTO_ICMPV6, 0, *ends) + data


def _raw_sockets(version: int = 4) -> tuple[socket.socket, socket.socket]:
    """Return a socket that sends IP packets, and one that hears ICMP messages."""
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
    family, icmp = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if version == 6 else (socket.AF_INET, socket.IPPROTO_ICMP)
    try:
        return socket.socket(family, kind, socket.IPPROTO_RAW), socket.socket(family, kind, icmp)
    except PermissionError:
        raise HostAgentError("root, or the right CAP_NET_RAW, is needed to send probes", exit_code=2) from None
