"""Classes of an interface that send at given rates, by netlink: the queueing discipline HTB (tc-htb(8))."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent.linux.netlink import CREATE, EXCL, NETLINK_ROUTE, NetlinkSocket, attribute, attributes, nested

HANDLE = 0xFA00
"""Major number of our discipline, by which it is known again after a restart."""

GAP_BYTES = 8 + 4 + 12
"""Bytes of a link's time that the kernel does not count: preamble, check sequence, gap (IEEE 802.3)."""

BURST_BYTES, BURST_SECONDS = 4 * 9216, 50e-6
"""How much a class that was late may send at once, the larger of the two: timers are late by tens of microseconds."""

QUANTUM_BYTES = 60_000
"""Bytes by which classes take turns. Its size does not matter, since no class borrows; without one, HTB complains."""

_NEW_QDISC, _DEL_QDISC, _GET_QDISC = 36, 37, 38
_NEW_CLASS, _DEL_CLASS, _GET_CLASS = 40, 41, 42
_MESSAGE = struct.Struct("=B3xiIII")
_ROOT = 0xFFFFFFFF
_KIND, _OPTIONS, _STATS2 = 1, 2, 7
_PARMS, _INIT, _RATE64, _CEIL64 = 1, 2, 6, 7
_STATS_QUEUE = 3
_RATE = struct.Struct("=BBHhHI")
_PARAMETERS = struct.Struct("=IIIII")
_GLOBAL = struct.Struct("=IIIII")
_VERSION, _RATE_TO_QUANTUM, _ETHERNET = 3, 10, 1
_TICK_NANOSECONDS = 64
_LARGEST = 0xFFFFFFFF
_KIND_NAME = b"htb\0"


class RootDiscipline(NamedTuple):
    """The discipline of an interface; ``major`` is 0 for one that the kernel has chosen."""

    kind: str
    major: int

    @property
    def ours(self) -> bool:
        """Return whether it has our classes."""
        return self.kind == "htb" and self.major == HANDLE


class TrafficClass(NamedTuple):
    """A class: bit/s on the link, packets that wait, and packets that found no room."""

    rate: int
    waiting: int
    dropped: int


def class_id(number: int) -> int:
    """Return the id of a class, which a packet has as its priority."""
    return HANDLE << 16 | number


class TrafficClasses:
    """The classes of one interface."""

    def __init__(self, index: int) -> None:
        """Connect to the kernel; ``index`` of the interface."""
        self._index, self._netlink = index, NetlinkSocket(NETLINK_ROUTE)

    def close(self) -> None:
        """Close the connection."""
        self._netlink.close()

    def root(self) -> RootDiscipline | None:
        """Return the discipline of the interface; ``None``: the kernel shows none.

        Raises:
            OSError: the kernel has refused it.
        """
        for body, parts in self._dump(_GET_QDISC):
            if body[3] == _ROOT:
                return RootDiscipline(parts[_KIND].rstrip(b"\0").decode(), body[2] >> 16)
        return None

    def add_root(self) -> None:
        """Put our discipline in place of one that the kernel has chosen. Packets without a class are not limited.

        Raises:
            OSError: the kernel does not have it (``ENOENT``), or has refused it.
        """
        settings = _GLOBAL.pack(_VERSION, _RATE_TO_QUANTUM, 0, 0, 0)
        body = self._head(HANDLE << 16, _ROOT) + attribute(_KIND, _KIND_NAME)
        self._change(_NEW_QDISC, CREATE | EXCL, [body + nested(_OPTIONS, attribute(_INIT, settings))])

    def remove_root(self) -> None:
        """Remove our discipline with all of its classes: the kernel puts its own there.

        Raises:
            OSError: the kernel has refused it.
        """
        self._change(_DEL_QDISC, 0, [self._head(HANDLE << 16, _ROOT)], ignored=(errno.ENOENT, errno.EINVAL))

    def read(self) -> dict[int, TrafficClass]:
        """Return the classes by number.

        Raises:
            OSError: the kernel has refused it.
        """
        classes = {}
        for (_, _, handle, _, _), parts in self._dump(_GET_CLASS):
            if handle >> 16 == HANDLE and parts.get(_KIND) == _KIND_NAME and _OPTIONS in parts:
                classes[handle & 0xFFFF] = _class(parts)
        return classes

    def set(self, rates: Iterable[tuple[int, int]]) -> None:
        """Add classes (number, bit/s), or change their rates; what waits in a class goes on to wait.

        Raises:
            OSError: the kernel has refused one.
        """
        self._change(_NEW_CLASS, CREATE, [self._body(number, rate) for number, rate in rates])

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove classes; packets that wait in them are lost.

        Raises:
            OSError: the kernel has refused it.
        """
        bodies = [self._head(class_id(number), 0) for number in numbers]
        self._change(_DEL_CLASS, 0, bodies, ignored=(errno.ENOENT, errno.EINVAL))

    def _body(self, number: int, rate: int) -> bytes:
        octets = max(1, rate // 8)
        burst_bytes = max(BURST_BYTES, octets * BURST_SECONDS)
        ticks = min(_LARGEST, max(1, round(burst_bytes / octets * 10**9 / _TICK_NANOSECONDS)))
        limit = _RATE.pack(0, _ETHERNET, GAP_BYTES, 0, 0, min(octets, _LARGEST))
        parameters = limit + limit + _PARAMETERS.pack(ticks, ticks, QUANTUM_BYTES, 0, 0)
        exact = struct.pack("=Q", octets)
        options = nested(_OPTIONS, attribute(_PARMS, parameters), attribute(_RATE64, exact), attribute(_CEIL64, exact))
        return self._head(class_id(number), HANDLE << 16) + attribute(_KIND, _KIND_NAME) + options

    def _head(self, handle: int, parent: int) -> bytes:
        return _MESSAGE.pack(0, self._index, handle, parent, 0)

    def _dump(self, kind: int) -> Iterator[tuple[tuple[int, int, int, int, int], dict[int, bytes]]]:
        for _, answer in self._netlink.dump(kind, self._head(0, 0)):
            family, index, handle, parent, info = _MESSAGE.unpack_from(answer)
            if index == self._index:
                yield (family, index, handle, parent, info), attributes(answer[_MESSAGE.size :])

    def _change(self, kind: int, flags: int, bodies: Iterable[bytes], *, ignored: tuple[int, ...] = ()) -> None:
        errors = self._netlink.change([(kind, flags, body) for body in bodies], ignored=ignored)
        if errors:
            raise OSError(errors[0].errno, os.strerror(errors[0].errno or 0))


def _class(parts: dict[int, bytes]) -> TrafficClass:
    options = attributes(parts[_OPTIONS])
    octets = _RATE.unpack_from(options[_PARMS])[-1]
    if _RATE64 in options:
        (octets,) = struct.unpack_from("=Q", options[_RATE64])
    queue = attributes(parts.get(_STATS2, b"")).get(_STATS_QUEUE, b"")
    waiting, _, dropped = struct.unpack_from("=III", queue) if len(queue) >= 12 else (0, 0, 0)
    return TrafficClass(8 * octets, waiting, dropped)
