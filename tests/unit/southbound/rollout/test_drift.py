"""Drift of switches: differences, foreign rules, times of repair, and readings as bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.openflow.enforcing import messages
from controller.southbound.rollout.drift import (
    HOLD,
    REPAIRS,
    WINDOW,
    CookieRule,
    Drift,
    Repairs,
    drift,
    foreign_rules,
    overlap,
)
from controller.southbound.rollout.switch_readback import active, compare_reading, cooked, counted, digest
from controller.southbound.rules.rule import COOKIE_PREFIX, Group, Output, Rule, match
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.rule_reading import RuleReader
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.mods import flow_mods
from tests.unit.fake_switch.talk import say, switch
from tests.unit.southbound.rollout.drawn_rules import switch_rules

OURS, THEIRS = 7, 8


def cookie(instance: int) -> int:
    return COOKIE_PREFIX << 48 | instance << 32 | 3


@given(switch_rules(), switch_rules(), st.sampled_from([0, OURS, THEIRS]))
def test_every_difference_is_counted_exactly_once(expected: SwitchRules, held: SwitchRules, by: int) -> None:
    cookies = dict.fromkeys(held.rules, cookie(by))
    found = drift(expected, held, cookies, OURS)
    common = expected.rules.keys() & held.rules.keys()
    changed = sum(expected.rules[key] != held.rules[key] for key in common)
    groups = {
        id_ for id_ in expected.groups.keys() | held.groups.keys() if expected.groups.get(id_) != held.groups.get(id_)
    }
    added = len(held.rules.keys() - common)
    assert found == Drift(
        missing=len(expected.rules.keys() - common),
        changed=changed,
        added=added,
        groups=len(groups),
        by=THEIRS if by == THEIRS and changed + added else None,
    )
    assert bool(found) == (expected != held)


def test_one_rule_is_not_told_as_several() -> None:
    assert Drift(missing=1, changed=2, added=1, groups=1).text == (
        "1 rule missing, 2 rules changed, 1 rule added, 1 group missing, changed or added"
    )


FIELDS = {"in_port": (1, 2), "eth_type": (0x800, 0x806), "ip_proto": (6, 17), "metadata": (0, 1)}
PACKETS = [
    {"in_port": a, "eth_type": b, "ip_proto": c, "metadata": d}
    for a in FIELDS["in_port"]
    for b in FIELDS["eth_type"]
    for c in FIELDS["ip_proto"]
    for d in FIELDS["metadata"]
]
some_match = st.fixed_dictionaries(
    {},
    optional={
        name: st.sampled_from(values) | st.tuples(st.sampled_from(values), st.integers(0, 3))
        for name, values in FIELDS.items()
    },
)


def meets(fields: dict[str, Any], packet: dict[str, int]) -> bool:
    pairs = {name: value if isinstance(value, tuple) else (value, -1) for name, value in fields.items()}
    return all((packet[name] ^ value) & mask == 0 for name, (value, mask) in pairs.items())


@given(some_match, some_match)
def test_two_matches_overlap_if_some_packet_meets_both(one: dict[str, Any], other: dict[str, Any]) -> None:
    if any(meets(one, packet) and meets(other, packet) for packet in PACKETS):
        assert overlap(match(**one), match(**other))
    wild = [{**packet, "metadata": number} for packet in PACKETS for number in range(4)]
    wild += [{**packet, "in_port": number} for packet in wild for number in range(4)]
    exact = not any(isinstance(value, tuple) for fields in (one, other) for value in fields.values())
    if exact:
        assert overlap(match(**one), match(**other)) == any(meets(one, p) and meets(other, p) for p in wild)


@pytest.mark.parametrize(
    ("rule", "cookie_of", "told"),
    [
        (Rule(0, 2001, match(eth_type=0x800), ()), 0x77, True),
        (Rule(0, 1999, match(eth_type=0x800), ()), 0x77, False),
        (Rule(1, 4000, match(eth_type=0x800), ()), 0x77, False),
        (Rule(0, 4000, match(eth_type=0x806), ()), 0x77, False),
        (Rule(0, 4000, match(), ()), 0x77, True),
        (Rule(0, 4000, match(eth_type=0x88CC), ()), 0, False),
        (Rule(0, 4000, match(eth_type=0x800, ipv4_dst=("10.0.0.0", "255.0.0.0")), ()), 0x77, True),
        (Rule(0, 4000, match(eth_type=0x800, ipv4_dst=("11.0.0.0", "255.0.0.0")), ()), 0x77, False),
        (Rule(0, 4000, match(eth_type=0x800), ()), cookie(THEIRS), False),
    ],
)
def test_a_stranger_is_a_rule_without_our_cookie_that_catches_what_ours_forward(
    rule: Rule, cookie_of: int, told: bool
) -> None:
    ours = Rule(0, 2000, match(eth_type=0x800, ipv4_dst="10.0.0.1"), (Output(1),))
    drops = Rule(0, 950, match(in_port=1))
    expected = SwitchRules({each.key: each for each in (ours, drops)})
    found = foreign_rules([CookieRule(cookie_of, rule), CookieRule(0x77, ours._replace(priority=1))], expected)
    assert (found is not None) == told
    if found is not None:
        assert f"priority {rule.priority}" in found.text
        assert f"{cookie_of:#x}" in found.text


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=40))
def test_a_switch_is_never_repaired_more_often_than_three_times_in_a_minute_and_then_once(
    finds: list[tuple[int, bool]],
) -> None:
    repairs, now, done = Repairs(), 0, list[int]()
    for seconds, foreign in finds:
        now += seconds
        left = repairs.wait(now, Drift(missing=1, by=THEIRS if foreign else None))
        assert 0 <= left <= HOLD
        if not left:
            done.append(now)
        else:
            assert done
    for first, fourth in zip(done, done[REPAIRS:], strict=False):
        assert fourth - first >= min(WINDOW, HOLD)
    if not any(foreign for _, foreign in finds):
        assert all(any(at <= now <= at + WINDOW for at in done) for now in done)


def test_after_two_quiet_minutes_a_switch_is_repaired_at_once_again() -> None:
    repairs, drifted = Repairs(), Drift(missing=1)
    assert [repairs.wait(at, drifted) for at in (0.0, 1.0, 2.0)] == [0, 0, 0]
    assert repairs.wait(3.0, drifted) == HOLD - 1
    assert repairs.contested
    assert repairs.wait(62.0, drifted) == 0
    assert not repairs.clean(100.0)
    assert repairs.contested
    assert repairs.clean(62.0 + 2 * HOLD)
    assert not repairs.contested
    assert [repairs.wait(200.0 + at, drifted) for at in (0.0, 1.0, 2.0)] == [0, 0, 0]
    # Another instance needs no three times.
    other = Repairs()
    assert other.wait(0.0, Drift(added=1, by=THEIRS)) == 0
    assert other.wait(5.0, Drift(added=1, by=THEIRS)) == HOLD - 5


def asked(of: Any, request: Any) -> list[bytes]:
    request.set_xid(9)
    request.serialize()
    return list(of.receive(bytes(request.buf)))


@given(st.lists(flow_mods(bad=False), max_size=20), st.integers(0, 3))
def test_a_reading_is_what_the_switch_holds_and_has_one_digest_until_that_changes(
    sent: list[Any], packets: int
) -> None:
    held = switch(part_bytes=200)
    for message in sent:
        say(held, message)
    rules, groups = (asked(held, ask(PROTOCOL)) for ask in (messages.read_every_rule, messages.read_groups))
    read = cooked(rules, RuleReader())
    assert {each.rule.key for each in read} == {entry.key for entry in held.flows}
    assert {each.rule.key: each.cookie for each in read} == {entry.key: entry.cookie for entry in held.flows}
    assert counted(asked(held, messages.count_rules(PROTOCOL))) == len(held.ours().rules)
    tables = active(asked(held, messages.count_tables(PROTOCOL)))
    assert sum(tables.values()) == len(read)
    before = digest(rules, groups)
    assert before[1] == len(read)
    for entry in held.flows:
        held.count(entry.key, packets)
    rules, groups = (asked(held, ask(PROTOCOL)) for ask in (messages.read_every_rule, messages.read_groups))
    assert digest(rules, groups) == before
    # Actions that the controller never writes have another text here than in Ryu's objects.
    ours = {each.rule.key: each.rule for each in read if each.cookie >> 48 == COOKIE_PREFIX}
    assert ours.keys() == held.ours().rules.keys()
    wanted = SwitchRules(ours, held.ours().groups)
    seen = compare_reading(rules, groups, None, wanted, 0, RuleReader())
    assert (seen.held, seen.drift, seen.is_new) == (None, Drift(), True)
    assert not compare_reading(rules, groups, seen.digest, wanted, 0, RuleReader()).is_new
    if read:
        gone = read[0].rule
        held.flows.remove_where(lambda entry: entry.key == gone.key)
        rules = asked(held, messages.read_every_rule(PROTOCOL))
        assert digest(rules, groups)[0] != before[0]


@given(
    st.binary(max_size=200), st.sampled_from([counted, lambda parts: active(parts), lambda parts: digest(parts, [])])
)
def test_bytes_that_are_no_reply_are_refused_and_nothing_worse(data: bytes, read: Any) -> None:
    try:
        read([data])
    except ValueError:
        return
    # Whatever was taken has the head of a reply.
    assert len(data) >= 16


def test_a_foreign_group_is_not_drift() -> None:
    held = switch()
    say(held, messages.put_group(PROTOCOL, Group(5, "select", ())))
    rules, groups = (asked(held, ask(PROTOCOL)) for ask in (messages.read_every_rule, messages.read_groups))
    assert not compare_reading(rules, groups, None, SwitchRules(), 0, RuleReader()).drift
