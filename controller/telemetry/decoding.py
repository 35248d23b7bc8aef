"""Decoding of OpenFlow 1.3 statistics replies from bytes to counters.

The functions are pure and fast, since 10,000 rules are decoded at every poll. Each function takes the parts of one
reply, which are complete messages as received. A message of another kind, or a truncated one, raises ``ValueError``:
the content that a switch sends is not trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.southbound.rules.priorities import LOWEST_FLOW
from controller.southbound.rules.rule import GROUP_BASE, GROUP_MASK, MatchValue, RuleKey
from controller.telemetry.counters import PortCounters, RuleCounters

Octets = NDArray[np.uint8]
Counters = NDArray[Any]

FLOW_STATS, PORT_STATS, GROUP_STATS = 1, 4, 6
"""``ofp_multipart_type`` (OpenFlow 1.3.5, section 7.3.5)."""

AT_ONCE = 100
"""Number of matches to decode between two calls of ``rest``: about a millisecond of work."""

FIRST_RESERVED_PORT = 0xFFFFFF00

_HEADER = struct.Struct("!BBHIHH4x")
_LENGTH = struct.Struct("!H")
# The used fields of port, group, bucket and flow statistics (OpenFlow 1.3.5, section 7.3.5).
_PORT = struct.Struct("!I4x8Q4Q2I")
_GROUP = struct.Struct("!H2xI")
_BUCKET = struct.Struct("!QQ")
_GROUP_SIZE = 40
_FLOW = struct.Struct("!HB9xH34xHH")
_FLOW_MATCH = 48
_OXM_FIELDS = _FLOW_MATCH + 4
_MULTIPART_REPLY = 19
_OFPMT_OXM = 1
_BASIC = 0x8000


def port_counts(parts: Iterable[bytes]) -> dict[int, PortCounters]:
    """Return the counters by port number, without reserved ports.

    Raises:
        ValueError: the reply is of another kind or truncated.
    """
    counters = {}
    for part in parts:
        at = _begin(part, PORT_STATS)
        if (len(part) - at) % _PORT.size:
            raise ValueError("the port counters are truncated")
        for number, *counted in _PORT.iter_unpack(memoryview(part)[at:]):
            if number < FIRST_RESERVED_PORT:
                counters[number] = PortCounters(*counted[:8])
    return counters


def group_counts(parts: Iterable[bytes]) -> dict[int, tuple[RuleCounters, ...]]:
    """Return the counters of each bucket by group id, for groups that the controller created.

    Raises:
        ValueError: the reply is of another kind or truncated.
    """
    counters = {}
    for part in parts:
        for at, end in _entries(part, GROUP_STATS, _GROUP_SIZE):
            _, number = _GROUP.unpack_from(part, at)
            if number & GROUP_MASK != GROUP_BASE:
                continue
            if (end - at - _GROUP_SIZE) % _BUCKET.size:
                raise ValueError("the counters of a group are truncated")
            buckets = memoryview(part)[at + _GROUP_SIZE : end]
            counters[number] = tuple(RuleCounters(*counted) for counted in _BUCKET.iter_unpack(buckets))
    return counters


class CountedRules(Mapping[RuleKey, RuleCounters]):
    """Counters by rule. Readings of the same rules share one index, because building it is expensive."""

    def __init__(self, index: Mapping[RuleKey, int], packets: Counters, octets: Counters) -> None:
        """Store the arrays and ``index``, the position of each rule in them."""
        self._index, self._packets, self._bytes = index, packets, octets

    def __getitem__(self, key: RuleKey) -> RuleCounters:
        """Return the counters of a rule; raise ``KeyError`` if the reading does not contain it."""
        row = self._index[key]
        return RuleCounters(int(self._packets[row]), int(self._bytes[row]))

    def __iter__(self) -> Iterator[RuleKey]:
        """Iterate over the keys of the rules."""
        return iter(self._index)

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._index)


class FlowCounts:
    """Decoder of one switch's rule counters that caches decoded matches between polls.

    Most replies contain the rules of the previous reply in the same order; then only the counters are read. A match is
    decoded once, when it first appears.
    """

    def __init__(self, rest: Callable[[], None] = lambda: None) -> None:
        """Create a decoder that calls ``rest`` at intervals during long work, so that other threads can run."""
        self._rest = rest
        self._same: list[bytes] = []
        self._index: dict[RuleKey, int] = {}
        self._keys: dict[bytes, RuleKey | None] = {}
        self._fields: dict[bytes, tuple[str, MatchValue] | None] = {}

    def read(self, parts: Sequence[bytes]) -> Mapping[RuleKey, RuleCounters]:
        """Return the counters by rule, for rules of planned flows only.

        Raises:
            ValueError: the reply is of another kind or truncated.
        """
        heads, same = [], []
        for part in parts:
            data = np.frombuffer(part, dtype=np.uint8)
            begins = _begins(part, data)
            head = data[begins[:, None] + np.arange(_FLOW_MATCH)]
            heads.append(head)
            same.append(_without_counters(data, begins))
        all_ = np.concatenate(heads) if heads else np.zeros((0, _FLOW_MATCH), dtype=np.uint8)
        if same != self._same:
            self._index = self._indexed(parts)
            self._same = same
        packets, octets = (np.ascontiguousarray(all_[:, at : at + 8]).view(">u8").ravel() for at in (32, 40))
        return CountedRules(self._index, packets, octets)

    def _indexed(self, parts: Iterable[bytes]) -> dict[RuleKey, int]:
        before, after = self._keys, dict[bytes, RuleKey | None]()
        index = {}
        rows = ((part, at, end) for part in parts for at, end in _entries(part, FLOW_STATS, _OXM_FIELDS))
        for row, (part, at, end) in enumerate(rows):
            if row % AT_ONCE == 0:
                self._rest()
            _, table, priority, kind, length = _FLOW.unpack_from(part, at)
            if priority < LOWEST_FLOW:
                continue
            fields = part[at + _OXM_FIELDS : at + _FLOW_MATCH + length]
            if kind != _OFPMT_OXM or at + _FLOW_MATCH + length > end:
                raise ValueError("the match of a rule is truncated")
            name = b"%c%c%c" % (table, priority >> 8, priority & 255) + fields
            key = before[name] if name in before else self._key(table, priority, fields)
            after[name] = key
            if key is not None:
                index[key] = row
        # Forget the matches of removed rules.
        self._keys = after
        if len(self._fields) > 2 * len(after) + 64:
            self._fields = {}
        return index

    def _key(self, table: int, priority: int, fields: bytes) -> RuleKey | None:
        match = []
        at = 0
        while at < len(fields):
            if at + 4 > len(fields):
                raise ValueError("the match of a rule is truncated")
            end = at + 4 + fields[at + 3]
            written = fields[at:end]
            if written not in self._fields:
                self._fields[written] = _field(written)
            field = self._fields[written]
            if field is None:
                # Planned rules do not match on this field, so the rule is not one of them.
                return None
            match.append(field)
            at = end
        return (table, priority, tuple(sorted(match, key=itemgetter(0))))


def _begins(part: bytes, data: Octets) -> Counters:
    """Return the offset of each entry of a part, without a loop if all entries have the same length."""
    first = _begin(part, FLOW_STATS)
    if first == len(part):
        return np.zeros(0, dtype=np.int64)
    size = _LENGTH.unpack_from(part, first)[0] if first + 2 <= len(part) else 0
    if size >= _OXM_FIELDS and (len(part) - first) % size == 0:
        lengths = data[first:].reshape(-1, size)[:, :2]
        if (lengths == lengths[0]).all():
            return np.arange(first, len(part), size)
    return np.array([at for at, _ in _entries(part, FLOW_STATS, _OXM_FIELDS)], dtype=np.int64)


def _without_counters(data: Octets, begins: Counters) -> bytes:
    """Return the bytes with transaction id, durations, cookies and counters set to 0.

    The result is equal for two readings of the same rules.
    """
    kept = data.copy()
    kept[4:8] = 0
    for first, last in ((4, 12), (24, 48)):
        kept[begins[:, None] + np.arange(first, last)] = 0
    return kept.tobytes()


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _address(data: bytes) -> str:
    return str(IPv4Address(data))


_OXM: dict[int, tuple[str, int, Callable[[bytes], MatchValue]]] = {
    5: ("eth_type", 2, _number),
    10: ("ip_proto", 1, _number),
    11: ("ipv4_src", 4, _address),
    12: ("ipv4_dst", 4, _address),
    13: ("tcp_src", 2, _number),
    14: ("tcp_dst", 2, _number),
    15: ("udp_src", 2, _number),
    16: ("udp_dst", 2, _number),
}
"""Match fields of planned rules by number (OpenFlow 1.3.5, section 7.2.3.7): name, size in bytes, and decoder."""


def _field(written: bytes) -> tuple[str, MatchValue] | None:
    """Decode one match field; return ``None`` for an unknown field, and for a masked one other than the source port."""
    known = _OXM.get(written[2] >> 1)
    masked = written[2] & 1
    if known is None or (masked and known[0] != "udp_src") or _LENGTH.unpack_from(written)[0] != _BASIC:
        return None
    name, size, read = known
    value = written[4:]
    if len(value) != size * (1 + masked):
        raise ValueError(f"{name} of the match of a rule is truncated")
    return (name, (_number(value[:size]), _number(value[size:]))) if masked else (name, read(value))


def _begin(part: bytes, kind: int) -> int:
    """Check the header of a part and return the offset of its first entry."""
    if len(part) < _HEADER.size:
        raise ValueError("a statistics reply is truncated")
    _, message, length, _, multipart, _ = _HEADER.unpack_from(part)
    if message != _MULTIPART_REPLY or multipart != kind or length != len(part):
        raise ValueError(f"statistics of kind {multipart} instead of {kind}")
    return _HEADER.size


def _entries(part: bytes, kind: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end offsets of each entry; an entry begins with its length."""
    at, whole = _begin(part, kind), len(part)
    while at < whole:
        if at + least > whole:
            raise ValueError("the last entry of a statistics reply is truncated")
        end = at + _LENGTH.unpack_from(part, at)[0]
        if end < at + least or end > whole:
            raise ValueError("an entry of a statistics reply has an impossible length")
        yield at, end
        at = end
