"""Rules as values: differences and groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.rule import (
    GROUP_BASE,
    GROUP_MASK,
    Bundle,
    Output,
    PopMpls,
    PushMpls,
    Rule,
    ToController,
    ToGroup,
    match,
    port_bucket,
)
from controller.southbound.rules.rule_set import EMPTY, RuleBuilder, SwitchRules, difference
from tests.unit.strategies import fabrics


def applied(have: SwitchRules, want: SwitchRules) -> SwitchRules:
    """What a switch holds after the changes, checking at each step that no rule leads to a group that is not there."""
    changes = difference(have, want)
    rules, groups = dict(have.rules), dict(have.groups)
    for group in changes.new_groups:
        assert all(b.watch_group is None or b.watch_group in groups for b in group.buckets)
        groups[group.id] = group
    for rule in changes.put_rules:
        assert all(not isinstance(a, ToGroup) or a.group in groups for a in rule.actions)
        rules[rule.key] = rule
    for rule in changes.removed_rules:
        del rules[rule.key]
    for group in changes.removed_groups:
        used = {a.group for rule in rules.values() for a in rule.actions if isinstance(a, ToGroup)}
        used |= {b.watch_group for g in groups.values() if g != group for b in g.buckets if b.watch_group is not None}
        assert group.id not in used
        del groups[group.id]
    return SwitchRules(rules, groups)


@given(before=fabrics(), after=fabrics())
def test_the_difference_leads_from_any_rules_to_any_others(before: Fabric, after: Fabric) -> None:
    have, want = compile_base(before, ecmp_action="select"), compile_base(after, ecmp_action="select")
    for dpid in {*have, *want}:
        assert applied(have[dpid], want[dpid]) == want[dpid]
        assert not difference(want[dpid], want[dpid])
        assert applied(have[dpid], EMPTY) == EMPTY


@given(fabric=fabrics(), data=st.data())
def test_one_rule_that_differs_is_found_among_equal_ones(fabric: Fabric, data: st.DataObject) -> None:
    rules = compile_base(fabric)
    want = rules[data.draw(st.sampled_from(sorted(rules)))]
    rule = want.rules[data.draw(st.sampled_from(sorted(want.rules, key=repr)))]
    other = rule._replace(priority=0xFFFF, actions=())
    # The same rules as other objects, as they are read from a switch.
    equal = {key: Rule(*each) for key, each in want.rules.items()}
    assert not difference(SwitchRules(equal, want.groups), want)
    changed = SwitchRules(equal | {rule.key: rule._replace(actions=(*rule.actions, Output(1)))}, want.groups)
    assert difference(changed, want) == ((), (rule,), (), ())
    exchanged = {key: each for key, each in equal.items() if key != rule.key} | {other.key: other}
    assert difference(SwitchRules(exchanged, want.groups), want) == ((), (rule,), (other,), ())


@given(fabric=fabrics())
def test_groups_have_ids_in_our_range_and_equal_content_gives_equal_ids(fabric: Fabric) -> None:
    first, second = (compile_base(fabric, ecmp_action="select") for _ in range(2))
    for dpid in first:
        assert first[dpid].groups == second[dpid].groups
        assert all(id_ & GROUP_MASK == GROUP_BASE for id_ in first[dpid].groups)


def test_two_different_rules_for_the_same_packets_are_an_error() -> None:
    builder = RuleBuilder()
    builder.add(Rule(0, 1, match(in_port=1), (Output(2),)))
    builder.add(Rule(0, 1, match(in_port=1), (Output(2),)))
    with pytest.raises(ValueError, match="two rules"):
        builder.add(Rule(0, 1, match(in_port=1), (Output(3),)))


def test_a_clash_of_two_groups_names_gives_the_second_another_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlib.crc32", lambda data: 0xFFFFFFFF)
    builder = RuleBuilder()
    ids = [builder.group("select", [port_bucket(port)]) for port in (1, 2, 1)]
    assert ids[0] != ids[1]
    assert ids[0] == ids[2]
    assert all(id_ & GROUP_MASK == GROUP_BASE for id_ in ids)


def test_actions_of_different_kinds_are_never_equal() -> None:
    # A switch whose rule was changed so must be found out.
    actions = {Output(17), ToGroup(17), ToController(17), PushMpls(17), PopMpls(17), Bundle((17,))}
    assert len(actions) == 6
    want = SwitchRules({rule.key: rule for rule in [Rule(0, 1, (), (Output(17),))]})
    held = SwitchRules({key: rule._replace(actions=(PushMpls(17),)) for key, rule in want.rules.items()})
    assert difference(held, want).put_rules == tuple(want.rules.values())
