"""Rules are recognised by hashes of their bytes: with the same result as if each of them was decoded."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.rules.rule import Output, Rule, RuleKey, match
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire import entry_hashes
from controller.southbound.wire.entry_hashes import EntryHashes, of_part
from controller.southbound.wire.rule_bytes import field_bytes, instruction_bytes
from controller.southbound.wire.rule_reading import FLOW_STATS, RuleReader
from tests import openflow_writer as writer
from tests.unit.southbound.wire.drawn_rules import RULES

HOLDINGS = st.lists(RULES, max_size=12, unique_by=lambda rule: rule.key)


def entry(rule: Rule, *, backwards: bool = False, counted: int = 0) -> bytes:
    """Return a rule as switches report it; ``backwards``: with its match fields in another order."""
    fields = sorted((field_bytes(*each) for each in rule.match), reverse=backwards)
    body = b"".join(fields)
    size = 4 + len(body)
    rest = struct.pack("!HH", 1, size) + body + bytes(-size % 8) + instruction_bytes(rule)
    head = struct.pack(
        "!HBxIIHHHH4xQQQ", 48 + len(rest), rule.table, counted, 0, rule.priority, 0, 0, 0, counted, counted, counted
    )
    return head + rest


def reply(entries: list[bytes]) -> list[bytes]:
    return list(writer.multipart(FLOW_STATS, 1, entries, part_bytes=2000))


def by_key(rules: list[Rule]) -> dict[RuleKey, Rule]:
    return {rule.key: rule for rule in rules}


@given(HOLDINGS, st.booleans(), st.integers(0, 2**32 - 1))
def test_rules_that_are_all_expected_are_those_expected(held: list[Rule], backwards: bool, counted: int) -> None:
    likely = SwitchRules(by_key(held))
    parts = reply([entry(rule, backwards=backwards, counted=counted) for rule in reversed(held)])
    assert RuleReader().rules_like(parts, likely) is likely.rules


@given(HOLDINGS, HOLDINGS, HOLDINGS)
def test_what_is_read_does_not_depend_on_what_is_expected(
    both: list[Rule], held: list[Rule], expected: list[Rule]
) -> None:
    parts = reply([entry(rule) for rule in by_key([*both, *held]).values()])
    likely = SwitchRules(by_key([*expected, *both]))
    reader = RuleReader()
    assert dict(reader.rules_like(parts, likely)) == RuleReader().rules(parts)
    assert dict(reader.rules_like(parts, SwitchRules())) == RuleReader().rules(parts)


def read(parts: list[bytes], likely: SwitchRules | None) -> Mapping[RuleKey, Rule] | str:
    try:
        return dict(RuleReader().rules(parts) if likely is None else RuleReader().rules_like(parts, likely))
    except ValueError:
        return "refused"


@given(st.lists(RULES, min_size=1, max_size=4, unique_by=lambda rule: rule.key), st.data())
def test_any_changed_byte_is_seen_as_if_each_rule_was_decoded(held: list[Rule], data: st.DataObject) -> None:
    (whole,) = writer.multipart(FLOW_STATS, 1, [entry(rule) for rule in held], part_bytes=60_000)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    parts = [bytes(damaged[: data.draw(st.integers(len(whole) - 3, len(whole)))])]
    assert read(parts, SwitchRules(by_key(held))) == read(parts, None)


def test_a_rule_that_is_told_twice_is_not_taken_for_two() -> None:
    one, two = (Rule(0, 5, match(udp_src=port), (Output(1),)) for port in (1, 2))
    found = RuleReader().rules_like(reply([entry(one), entry(one)]), SwitchRules(by_key([one, two])))
    assert dict(found) == by_key([one])


def test_every_bit_of_table_priority_match_and_instructions_counts() -> None:
    rule = Rule(3, 500, match(in_port=7, eth_type=0x800, ipv4_dst="10.0.1.1"), (Output(9),), goto=5, metadata=77)
    whole = entry(rule)
    # The lengths of entry and match count by what they enclose; padding does not count.
    counted = {0, 1, 2, 12, 13, *range(50, 74), *range(80, len(whole))}
    known = int(of_part(whole, 0)[0][0])
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            try:
                same = int(of_part(bytes(changed), 0)[0][0]) == known
            except ValueError:
                continue
            assert same is (at not in counted), (at, bit)


def test_hashes_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_hashes, "KEPT", 10)
    hashes = EntryHashes()
    rules = [Rule(0, number, ()) for number in range(50)]
    first = hashes.of_rules(rules)
    assert len(np.unique(first)) == 50
    assert len(hashes._known) <= 10
    assert np.array_equal(hashes.of_rules(rules), first)
