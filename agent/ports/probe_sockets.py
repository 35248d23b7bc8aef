"""Raw sockets of probes: packets go out as they are, and the ICMP errors of routers come in."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address

from agent.errors import HostAgentError

UNREACHABLE, TIME_EXCEEDED = 3, 11

_SOL_RAW, _ICMP_FILTER, _SO_RCVBUFFORCE = 255, 1, 33
_RECEIVE_BYTES, _BUFFER_BYTES = 2048, 4 << 20


class ProbeSockets:
    """A socket that sends IP packets, and one that hears ICMP errors (``socket``)."""

    def __init__(self, source: IPv4Address, interface: str | None) -> None:
        """Open raw sockets.

        Args:
            source: address from which flows come.
            interface: by which probes leave; ``None``: by routes.

        Raises:
            HostAgentError: the process may not, or the interface or the address cannot be used.
        """
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

    def send_packet(self, packet: bytes, dst: IPv4Address) -> None:
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
                yield self.socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return


def _raw_sockets() -> tuple[socket.socket, socket.socket]:
    """Return a socket that sends IP packets, and one that hears ICMP messages."""
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
    try:
        sender = socket.socket(socket.AF_INET, kind, socket.IPPROTO_RAW)
        return sender, socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    except PermissionError:
        raise HostAgentError("root, or the right CAP_NET_RAW, is needed to send probes", exit_code=2) from None
