"""Comparison of a switch's OpenFlow 1.3 replies, as bytes, with the rules that it should hold. Pure.

What has not changed since the last reading is not decoded: its ``digest`` is the same. Bytes that are no such reply, or
are cut, raise ``ValueError``: a switch may send anything.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from controller.southbound.rollout.drift import CookieRule, Drift, ForeignRules, drift, foreign_rules, ours
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.rule_reading import FLOW_STATS, GROUP_DESC, RuleReader, check_number, entries

AGGREGATE, TABLE = 2, 3
"""``ofp_multipart_type`` (OpenFlow 1.3.5, section 7.3.5)."""

AT_ONCE = 500
"""Rules between two rests: about a millisecond."""

_HEADER_SIZE = 16
_COOKIE = 24
_FLOW_HEAD, _GROUP_HEAD = 48, 8
_TABLE = struct.Struct("!B3xIQQ")
_FLOW_COUNT = struct.Struct("!I")
_FLOW_COUNT_AT, _AGGREGATE_SIZE = 32, 40


@dataclass(frozen=True)
class ComparedReading:
    """A reading, compared.

    Attributes:
        entries: how many rules and groups it has.
        is_new: whether it was decoded, because it was not the same as the last good one.
        held: what the switch holds of ours, where that is not what it should be.
    """

    digest: bytes
    entries: int
    is_new: bool = False
    held: SwitchRules | None = None
    drift: Drift = field(default_factory=Drift)
    foreign: ForeignRules | None = None


def compare_reading(
    rules: Sequence[bytes],
    groups: Sequence[bytes],
    good: bytes | None,
    expected: SwitchRules,
    instance: int,
    reader: RuleReader,
    rest: Callable[[], None] = lambda: None,
) -> ComparedReading:
    """Compare a reading of all rules and groups with what was confirmed. May take long.

    Args:
        rules: parts of the reply with all rules.
        groups: parts of the reply with all groups.
        good: digest of the last reading that was as expected.
        expected: the confirmed rules.
        instance: ours.
        reader: decodes the rules.
        rest: lets others have the interpreter; called now and then.

    Raises:
        ValueError: a reply is none.
    """
    digest_now, many = digest(rules, groups, rest)
    if digest_now == good:
        return ComparedReading(digest_now, many)
    read = cooked(rules, reader, rest)
    held = ours(read, reader.groups(groups))
    drifted = drift(expected, held, {rule.key: cookie for cookie, rule in read}, instance)
    return ComparedReading(digest_now, many, True, held if drifted else None, drifted, foreign_rules(read, expected))


def cooked(parts: Iterable[bytes], reader: RuleReader, rest: Callable[[], None] = lambda: None) -> list[CookieRule]:
    """Return the rules of a reply with flow statistics, with their cookies, of any origin."""
    rules: list[CookieRule] = []
    for part in parts:
        for at, end in entries(part, FLOW_STATS, _FLOW_HEAD + 8):
            if len(rules) % AT_ONCE == 0:
                rest()
            cookie = int.from_bytes(part[at + _COOKIE : at + _COOKIE + 8], "big")
            rules.append(CookieRule(cookie, reader.rule(part, at, end)))
        check_number(len(rules))
    return rules


def digest(
    rules: Iterable[bytes], groups: Iterable[bytes], rest: Callable[[], None] = lambda: None
) -> tuple[bytes, int]:
    """Return a digest that is equal for two readings of the same rules and groups, and the number of entries."""
    state, number = hashlib.blake2b(digest_size=16), 0
    for part in rules:
        for at, end in entries(part, FLOW_STATS, _FLOW_HEAD + 8):
            if number % (4 * AT_ONCE) == 0:
                rest()
            number += 1
            # All but durations and counters.
            state.update(part[at : at + 4])
            state.update(part[at + 12 : at + 32])
            state.update(part[at + _FLOW_HEAD : end])
    for part in groups:
        for at, end in entries(part, GROUP_DESC, _GROUP_HEAD):
            number += 1
            state.update(part[at:end])
    return state.digest(), number


def counted(parts: Sequence[bytes]) -> int:
    """Return the number of rules in an aggregate reply."""
    if len(parts) != 1 or len(parts[0]) != _AGGREGATE_SIZE:
        raise ValueError("an aggregate reply is truncated")
    _check_kind(parts[0], AGGREGATE)
    number: int = _FLOW_COUNT.unpack_from(parts[0], _FLOW_COUNT_AT)[0]
    return number


def active(parts: Iterable[bytes]) -> dict[int, int]:
    """Return the entries by table, of any origin, of a reply with table statistics."""
    active_counts = {}
    for part in parts:
        _check_kind(part, TABLE)
        if (len(part) - _HEADER_SIZE) % _TABLE.size:
            raise ValueError("table statistics are truncated")
        for table, number, _, _ in _TABLE.iter_unpack(part[_HEADER_SIZE:]):
            active_counts[table] = number
    return active_counts


def _check_kind(part: bytes, kind: int) -> None:
    if len(part) < _HEADER_SIZE or int.from_bytes(part[8:10], "big") != kind:
        raise ValueError(f"no statistics of kind {kind}, which was requested")
