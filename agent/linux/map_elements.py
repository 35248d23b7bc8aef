"""Elements of nftables' maps, by netlink: read, added and removed in one transaction."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agent.linux.netlink import CREATE, NETLINK_NETFILTER, NetlinkSocket, attribute, attributes, each_attribute, nested

_SUBSYSTEM = 10 << 8
_NEW_ELEMENT, _GET_ELEMENT, _DEL_ELEMENT = _SUBSYSTEM | 12, _SUBSYSTEM | 13, _SUBSYSTEM | 14
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_INET = 1
_HEADER = struct.Struct("!BBH")
_TABLE, _SET, _ELEMENTS, _LIST_ELEMENT = 1, 2, 3, 1
_KEY, _DATA, _EXPRESSION, _VALUE = 1, 2, 7, 1
_EXPRESSION_DATA, _COUNTER_BYTES, _COUNTER_PACKETS = 2, 1, 2

IN_A_MESSAGE = 500
"""Elements in one message: a list must be shorter than 64 KiB."""


class Element(NamedTuple):
    """The value of a key in a map, and, if the map counts, the packets and bytes that were looked up by it."""

    key: bytes
    value: bytes
    packets: int
    bytes: int


@dataclass(frozen=True)
class MapEdit:
    """Keys that go from a map, and keys with values that come into it. A key in both gets another value."""

    name: str
    removed: tuple[bytes, ...] = ()
    added: tuple[tuple[bytes, bytes], ...] = ()


class MapElements:
    """The elements of the maps of one table (family ``inet``)."""

    def __init__(self, table: str) -> None:
        """Connect to the kernel."""
        self._table, self._netlink = attribute(_TABLE, table.encode() + b"\0"), NetlinkSocket(NETLINK_NETFILTER)

    def close(self) -> None:
        """Close the connection."""
        self._netlink.close()

    def edit(self, edits: Iterable[MapEdit]) -> None:
        """Make all edits at once: no packet sees a part of them.

        Raises:
            OSError: the kernel has refused them, and has made none.
        """
        header = _HEADER.pack(0, 0, _SUBSYSTEM >> 8)
        self._netlink.batch(self._messages(edits), (_BATCH_BEGIN, header), (_BATCH_END, header))

    def read(self, name: str) -> Iterator[Element]:
        """Yield the elements of a map.

        Raises:
            OSError: there is no such map, or it cannot be read.
        """
        body = _HEADER.pack(_INET, 0, 0) + self._table + _name(name)
        for _, answer in self._netlink.dump(_GET_ELEMENT, body):
            yield from _listed(answer)

    def values(self, name: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the values of some keys of a map; those that are not there are left out.

        Raises:
            OSError: there is no such map, or it cannot be read.
        """
        head, rest = _HEADER.pack(_INET, 0, 0) + self._table + _name(name), list(keys)
        values: dict[bytes, bytes] = {}
        at_once = IN_A_MESSAGE
        while rest:
            part = rest[:at_once]
            elements = [nested(_LIST_ELEMENT, _data(_KEY, key)) for key in part]
            try:
                for answer in self._netlink.ask(_GET_ELEMENT, head + nested(_ELEMENTS, *elements)):
                    values.update((each.key, each.value) for each in _listed(answer))
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise
                if at_once > 1:
                    # One of them is not there, or the map is not: each alone tells.
                    at_once = 1
                    continue
            del rest[:at_once]
        return values

    def _messages(self, edits: Iterable[MapEdit]) -> Iterator[tuple[int, int, bytes]]:
        head = _HEADER.pack(_INET, 0, 0) + self._table
        for edit in edits:
            name = _name(edit.name)
            gone = [nested(_LIST_ELEMENT, _data(_KEY, key)) for key in edit.removed]
            come = [nested(_LIST_ELEMENT, _data(_KEY, key), _data(_DATA, value)) for key, value in edit.added]
            for kind, flags, elements in ((_DEL_ELEMENT, 0, gone), (_NEW_ELEMENT, CREATE, come)):
                for first in range(0, len(elements), IN_A_MESSAGE):
                    part = nested(_ELEMENTS, *elements[first : first + IN_A_MESSAGE])
                    yield kind, flags, head + name + part


def _name(name: str) -> bytes:
    return attribute(_SET, name.encode() + b"\0")


def _data(kind: int, value: bytes) -> bytes:
    return nested(kind, attribute(_VALUE, value))


def _listed(answer: bytes) -> Iterator[Element]:
    for _, each in each_attribute(attributes(answer[_HEADER.size :]).get(_ELEMENTS, b"")):
        yield _element(each)


def _element(data: bytes) -> Element:
    parts = attributes(data)
    counts = attributes(attributes(parts.get(_EXPRESSION, b"")).get(_EXPRESSION_DATA, b""))
    packets, octets = (_number(counts.get(kind, b"")) for kind in (_COUNTER_PACKETS, _COUNTER_BYTES))
    return Element(attributes(parts[_KEY])[_VALUE], attributes(parts.get(_DATA, b"")).get(_VALUE, b""), packets, octets)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def mark_bytes(mark: int) -> bytes:
    """Return a mark as nftables has it in maps: in the order of the machine."""
    return struct.pack("=I", mark)


def mark_of(data: bytes) -> int:
    """Return the mark of these bytes."""
    number: int = struct.unpack("=I", data)[0]
    return number
