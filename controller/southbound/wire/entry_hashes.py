"""Hashes of rules as switches report them, so that rules which are expected are recognised without decoding them.

The hash of a rule has 64 bits and covers table, priority, match fields and instructions; counters, durations and cookie
are left out. Match fields count in any order, since Open vSwitch reports them in an order of its own. Numbers drawn at
the start of the process go into it: equal hashes of two different rules are no more likely than 2**-64 for each pair.
Section numbers are those of OpenFlow 1.3.5.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from controller.compilation import prepare
from controller.southbound.rules.rule import Rule
from controller.southbound.wire.rule_bytes import UnknownFormError, instruction_bytes, match_bytes

prepare()

KEPT = 200_000
"""Rules whose hashes are kept; beyond, all are forgotten and computed again."""

UNKNOWN = 0
"""The hash of a rule in a form that is not written by this program."""

_SEEDS = np.frombuffer(secrets.token_bytes(24), dtype=np.uint64)
_HEADER, _LEAST = 16, 56
"""Bytes of a multipart reply before its entries, and of the shortest entry (7.3.5.2)."""

_ENTRY = struct.Struct("!HBxIIHHHH4xQQQ")


@nb.njit(cache=True, nogil=True)
def _mixed(value: Any, more: Any) -> Any:  # pragma: no cover
    # The finalizer of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
    value = (value ^ more) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@nb.njit(cache=True, nogil=True)
def _of_bytes(data: NDArray[np.uint8], at: Any, end: Any, seed: Any) -> Any:  # pragma: no cover
    mixed = _mixed(seed, np.uint64(end - at))
    word, filled = np.uint64(0), 0
    for place in range(at, end):
        word = (word << np.uint64(8)) | np.uint64(data[place])
        filled += 1
        if filled == 8:
            mixed = _mixed(mixed, word)
            word, filled = np.uint64(0), 0
    return _mixed(mixed, word) if filled else mixed


@nb.njit(cache=True, nogil=True)
def _hash_entries(
    data: NDArray[np.uint8],
    start: Any,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    seeds: NDArray[np.uint64],
) -> int:  # pragma: no cover
    """Fill in where each entry begins and ends, and its hash; return their number, -1 where something is cut."""
    at: Any = start
    whole, count = len(data), 0
    while at < whole:
        if at + 56 > whole:
            return -1
        end = at + (np.int64(data[at]) << 8 | np.int64(data[at + 1]))
        size = np.int64(data[at + 50]) << 8 | np.int64(data[at + 51])
        after = at + 48 + (size + 7) // 8 * 8
        if end < at + 56 or end > whole or data[at + 48] != 0 or data[at + 49] != 1 or size < 4 or after > end:
            return -1
        # Table and priority; a sum, so that fields count in any order; instructions in theirs.
        head = np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 12]) << np.uint64(8)
        mixed = _mixed(seeds[0], head | np.uint64(data[at + 13]))
        fields, place = np.uint64(0), at + 52
        while place < at + 48 + size:
            if place + 4 > at + 48 + size or place + 4 + np.int64(data[place + 3]) > at + 48 + size:
                return -1
            following = place + 4 + np.int64(data[place + 3])
            fields += _of_bytes(data, place, following, seeds[1])
            place = following
        mixed = _mixed(mixed, fields)
        hashes[count] = _mixed(mixed, _of_bytes(data, after, end, seeds[2]))
        begins[count], ends[count] = at, end
        count += 1
        at = end
    return count


class EntryHashes:
    """Computes hashes; remembers those of rules, of which many switches hold the same object."""

    def __init__(self) -> None:
        """Begin without known rules."""
        self._known: dict[int, tuple[Rule, int]] = {}

    def of_rules(self, rules: Iterable[Rule]) -> NDArray[np.uint64]:
        """Return the hash of each rule in the form in which it is written; ``UNKNOWN`` where that is not known."""
        known = self._known
        # Nearly all are known, so that nothing else is looked up for them.
        return np.array(
            [kept[1] if (kept := known.get(id(rule))) is not None else self._remember(rule) for rule in rules],
            dtype=np.uint64,
        )

    def _remember(self, rule: Rule) -> int:
        if len(self._known) >= KEPT:
            self._known.clear()
        try:
            rest = match_bytes(rule.match) + instruction_bytes(rule)
        except UnknownFormError:
            return UNKNOWN
        entry = _ENTRY.pack(_ENTRY.size + len(rest), rule.table, 0, 0, rule.priority, 0, 0, 0, 0, 0, 0) + rest
        hashed = int(of_part(entry, 0)[0][0])
        # With the rule itself, so that no other object gets its id.
        self._known[id(rule)] = rule, hashed
        return hashed


def warm_up() -> None:
    """Compile what computes hashes, or load it from the disk."""
    EntryHashes().of_rules([Rule(0, 0, ())])


def of_part(part: bytes, start: int = _HEADER) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the hash, the begin and the end of each entry of one part of a reply with flow statistics.

    Args:
        part: a whole message.
        start: where its entries begin.

    Raises:
        ValueError: something in it is cut, or is no OpenFlow match.
    """
    most = (len(part) - start) // _LEAST + 1
    hashes = np.empty(most, dtype=np.uint64)
    begins, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    count = _hash_entries(np.frombuffer(part, dtype=np.uint8), start, begins, ends, hashes, _SEEDS)
    if count < 0:
        raise ValueError("an entry of a statistics reply is truncated")
    return hashes[:count], begins[:count], ends[:count]


def are_equal(one: Sequence[NDArray[np.uint64]], other: NDArray[np.uint64]) -> bool:
    """Return whether the parts of a reply have the same hashes, as often, as some rules, all of them known."""
    if sum(map(len, one)) != len(other) or UNKNOWN in other:
        return False
    return bool(np.array_equal(np.sort(np.concatenate(one)) if one else np.empty(0), np.sort(other)))
