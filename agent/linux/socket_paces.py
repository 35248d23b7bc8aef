"""Paces of TCP connections of programs, which the kernel keeps by their sockets (SO_MAX_PACING_RATE, socket(7)).

The agent borrows a socket from its program (pidfd_getfd(2), Linux 5.6) for as long as it takes to set the rate, so
connections that run follow new paces, whatever the program is. That takes CAP_SYS_PTRACE, and a process that /proc
shows here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from agent.linux.tcp_connections import UNLIMITED, TcpConnection
from agent.plans.flow_keys import Address

_SO_MAX_PACING_RATE, _PIDFD_GETFD, _IP_MTU = 47, 438, 14
_RATE = struct.Struct("=Q")
_NAME = "socket:["

IP_AND_TCP = 20 + 20 + 12
"""Bytes of a packet that are no payload: both headers, and the option of timestamps (RFC 7323)."""
ETHERNET = 8 + 14 + 4 + 12
"""Bytes of a link's time beside an IP packet: preamble, header, check sequence, gap (IEEE 802.3)."""


class KeptPaces(NamedTuple):
    """Counts of the connections that have a planned pace, and of those that keep it; ``reason``: why others do not."""

    planned: int = 0
    paced: int = 0
    reason: str = ""


class Lender(Protocol):
    """Sets the rates of sockets of other processes."""

    def __call__(self, rates: Mapping[int, int]) -> str:
        """Set rates in bytes/s by inodes of sockets; return why that was not possible for one; empty: it was."""


def payload_rate(wire: float, mtu: int) -> int:
    """Return the bytes of payload a second of full packets that take ``wire`` bit/s of a link.

    TCP paces payload: its segments have no headers yet when they are counted (tcp_update_skb_after_send).
    """
    return max(1, round(wire / 8 * (mtu - IP_AND_TCP) / (mtu + ETHERNET)))


def mtu_to(source: Address, peer: Address) -> int:
    """Return the largest IP packet to another host, as the kernel knows it.

    Raises:
        OSError: there is no route.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((str(source), 0))
        # No packet is sent.
        one.connect((str(peer), 9))
        return one.getsockopt(socket.IPPROTO_IP, _IP_MTU)


class SocketPaces:
    """Keeps the paces of the connections of one host."""

    def __init__(self, read: Callable[[], Iterable[TcpConnection]], lend: Lender) -> None:
        """Store what reads connections, and what sets their rates."""
        self._read, self._lend = read, lend
        self._held: set[bytes] = set()

    @property
    def holds(self) -> bool:
        """Whether a connection still has a rate that this object has set."""
        return bool(self._held)

    def keep(self, source: Address, paces: Mapping[Address, int | None]) -> KeptPaces:
        """Make connections keep their paces, and lift those that were kept and have none any more.

        Args:
            source: the address from which they send.
            paces: bytes/s of payload, by the other host of those that are planned; ``None``: any rate.

        Raises:
            OSError: the kernel does not tell of connections.
        """
        wanted: dict[TcpConnection, int] = {}
        for each in self._read():
            rate = paces.get(each.dst) if each.src == source else None
            if rate is not None:
                wanted[each] = rate
            elif each.cookie in self._held or (each.src == source and each.dst in paces):
                wanted[each] = UNLIMITED
        reason = self._lend(
            {each.inode: rate for each, rate in wanted.items() if each.most_rate != rate and each.inode}
        )
        kept = {each.cookie: each.most_rate for each in self._read()} if wanted else {}
        limited = {each.cookie: rate for each, rate in wanted.items() if rate != UNLIMITED}
        # What could not be lifted is tried again.
        self._held = {each.cookie for each in wanted if kept.get(each.cookie, UNLIMITED) != UNLIMITED}
        paced = sum(kept.get(cookie) == rate for cookie, rate in limited.items())
        return KeptPaces(len(limited), paced, reason)


def lend(rates: Mapping[int, int]) -> str:
    """Set the rates of sockets, which programs of this machine have (``Lender``)."""
    left, reason = dict(rates), ""
    for pid, file, inode in _sockets() if left else ():
        if inode not in left:
            continue
        try:
            if _set(pid, file, inode, left[inode]):
                del left[inode]
        except OSError as error:
            # A program that ends meanwhile has closed it.
            if error.errno not in (errno.ESRCH, errno.EBADF):
                reason = f"sockets of programs cannot be reached: {error.strerror}"
        if not left:
            return ""
    return reason or ("programs of other containers have some of the sockets" if left else "")


def _sockets() -> Iterator[tuple[int, int, int]]:
    """Yield the sockets of all processes: process, number of the file, and inode."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        # Processes end, and close files.
        with suppress(OSError):
            for file in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    name = os.readlink(f"/proc/{pid}/fd/{file}")
                    if name.startswith(_NAME):
                        yield pid, int(file), int(name[len(_NAME) : -1])


def _set(pid: int, file: int, inode: int, rate: int) -> bool:
    """Set the rate of a socket; return whether it is still the one with this inode."""
    process = os.pidfd_open(pid)
    try:
        own = _LIBRARY.syscall(_PIDFD_GETFD, process, file, 0)
        if own < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(process)
    with socket.socket(fileno=own) as borrowed:
        if os.fstat(own).st_ino != inode:
            return False
        borrowed.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, _RATE.pack(rate))
    return True


_LIBRARY = ctypes.CDLL(None, use_errno=True)
