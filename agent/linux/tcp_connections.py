"""TCP connections of a host: what each has sent, as the kernel counts it (sock_diag(7), struct tcp_info).

``ss -ti`` shows the same numbers. No privilege is needed: sizes and addresses of connections are no secret on a host.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from agent.linux.netlink import NetlinkSocket, attributes
from agent.plans.flow_keys import Address

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
_INET_DIAG_INFO = 2
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
"""Connections that may still send: ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING."""

_DESTROYED = (1, 3)
"""Groups of notices of ends: SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY (linux/sock_diag.h)."""

_REQUEST = struct.Struct("=BBBxI48x")
_MESSAGE = struct.Struct("=BBBB2s2s16s16sI8sIIIII")
_MOST_RATE_AT = 112
"""In ``struct tcp_info``, since Linux 4.1; ``tcpi_bytes_acked`` and ``tcpi_bytes_received`` follow."""
_COUNTERS = struct.Struct("=QQQ")

UNLIMITED = (1 << 64) - 1
"""The rate of a connection that may send as fast as it can."""


class TcpConnection(NamedTuple):
    """A connection; sockets of IPv6 between IPv4 addresses (``::ffff:10.0.0.1``) have these.

    Attributes:
        cookie: tells it apart from all others of this boot.
        src, dst: address of this host, and of the other one.
        sent: bytes that the other host has acknowledged.
        received: bytes that have arrived in order.
        most_rate: bytes/s at which it may send (SO_MAX_PACING_RATE).
        inode: of its socket; 0: no program has it any more.
    """

    cookie: bytes
    src: Address
    dst: Address
    sent: int
    received: int
    most_rate: int = UNLIMITED
    inode: int = 0


class TcpReading(NamedTuple):
    """The connections that may still send, and those that have ended since the last reading, with their last counts."""

    open: list[TcpConnection]
    ended: list[TcpConnection]


class TcpConnections:
    """The connections of the network namespace in which this was made."""

    def __init__(self) -> None:
        """Open connections to the kernel, and be told of connections that end from now on."""
        self._socket = NetlinkSocket(NETLINK_SOCK_DIAG)
        self._notices = NetlinkSocket(NETLINK_SOCK_DIAG)
        try:
            self._notices.join(_DESTROYED)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close them."""
        self._socket.close()
        self._notices.close()

    def read(self) -> TcpReading:
        """Return a reading of all connections.

        Raises:
            OSError: the kernel does not tell.
        """
        # A connection that ends in between is in both lists, and its last count is that of the notice.
        opened = [each for family in (socket.AF_INET, socket.AF_INET6) for each in self._of_family(family)]
        return TcpReading(opened, [*self._ended()])

    def _ended(self) -> Iterator[TcpConnection]:
        try:
            for kind, body in self._notices.notices():
                connection = connection_of(body) if kind == SOCK_DIAG_BY_FAMILY else None
                if connection is not None:
                    yield connection
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise

    def _of_family(self, family: int) -> Iterator[TcpConnection]:
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _STATES)
        for _, body in self._socket.dump(SOCK_DIAG_BY_FAMILY, request):
            connection = connection_of(body)
            if connection is not None:
                yield connection


def connection_of(body: bytes) -> TcpConnection | None:
    """Return the connection of a message of the kernel; ``None``: it has no counters."""
    family, _, _, _, _, _, source, target, _, cookie, *_, inode = _MESSAGE.unpack_from(body)
    info = attributes(body[_MESSAGE.size :]).get(_INET_DIAG_INFO, b"")
    if len(info) < _MOST_RATE_AT + _COUNTERS.size:
        return None
    src, dst = (_address(each, family) for each in (source, target))
    most_rate, sent, received = _COUNTERS.unpack_from(info, _MOST_RATE_AT)
    return TcpConnection(cookie, src, dst, sent, received, most_rate, inode)


def _address(address: bytes, family: int) -> Address:
    if family == socket.AF_INET:
        return IPv4Address(address[:4])
    ipv6 = IPv6Address(address)
    return ipv6.ipv4_mapped or ipv6
