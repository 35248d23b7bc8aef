"""Fall-backs: what is left without planned rules, what is known of full switches, and switches that remove first."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.rollout.desired_rules import (
    DesiredRules,
    Fallback,
    RuleCapacity,
    entries,
    is_enforcement,
    is_planned,
    without,
)
from controller.southbound.rollout.rollout import Rollout
from controller.southbound.rollout.update import HeldRules, RemoveFirst, Stage, work
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.rule import ToGroup
from controller.southbound.rules.rule_set import RuleSet, difference
from tests.unit.laws import examples
from tests.unit.southbound.plans import cases, packets
from tests.unit.southbound.rollout.changes import ALL_PORTS, changes


@pytest.mark.parametrize("enforcement", rule_enforcements())
@settings(max_examples=examples(10, 60))
@given(data=st.data())
def test_without_planned_rules_every_switch_holds_base_forwarding_and_every_packet_arrives(
    enforcement: str, data: Any
) -> None:
    case = data.draw(cases(enforcement))
    base = compile_base(case.fabric, usable=case.usable, ecmp_action=case.ecmp_action)
    target = DesiredRules(case.rules, 7, {})
    nothing_planned = Fallback(all_bare=True).rules(target)
    assert {dpid: nothing_planned[dpid] for dpid in nothing_planned} == {dpid: base[dpid] for dpid in base}
    bare = data.draw(st.frozensets(st.sampled_from(sorted(case.rules))))
    mixed = Fallback(bare=bare).rules(target)
    for dpid in mixed:
        assert any(map(is_planned, mixed[dpid].rules.values())) <= (dpid not in bare)
        used = {
            action.group for rule in mixed[dpid].rules.values() for action in rule.actions if type(action) is ToGroup
        }
        assert used <= mixed[dpid].groups.keys()
    src, dst, packet = data.draw(packets(case))
    walk = RuleInterpreter(case.fabric).walk(mixed, packet, source=case.fabric.hosts[src].name)
    a, b = int(case.fabric.host_leaf[src]), int(case.fabric.host_leaf[dst])
    reachable = a == b or bool(NextHops(case.fabric).ports(a, b))
    assert walk.host == (case.fabric.hosts[dst].name if reachable else None)


@pytest.mark.parametrize("enforcement", rule_enforcements())
@settings(max_examples=10)
@given(data=st.data())
def test_fall_backs_get_lower_until_there_are_base_rules_alone(enforcement: str, data: Any) -> None:
    case = data.draw(cases(enforcement))
    target = DesiredRules(case.rules, 7, {})
    fall_back: Fallback | None = Fallback()
    order = data.draw(st.randoms(use_true_random=False))
    for _ in range(len(list(case.rules)) + 2):
        assert fall_back is not None
        rules = fall_back.rules(target)
        refusing = [dpid for dpid in rules if any(map(is_enforcement, rules[dpid].rules.values()))]
        if not refusing:
            break
        dpid = order.choice(refusing)
        lower = fall_back.lower(dpid, rules[dpid])
        assert lower is not None
        assert entries(lower.rules(target)[dpid], 0) <= entries(rules[dpid], 0)
        fall_back = lower
    assert not any(is_enforcement(rule) for dpid in rules for rule in rules[dpid].rules.values())
    assert fall_back is not None
    assert all(fall_back.lower(dpid, rules[dpid]) is None for dpid in rules)


@given(data=st.data())
def test_a_full_table_is_short_of_what_it_lacks_until_there_may_be_room(data: Any) -> None:
    case = data.draw(cases("per_flow"))
    dpid = data.draw(st.sampled_from(sorted(case.rules)))
    table = data.draw(st.sampled_from([0, 1, None]))
    needed = entries(case.rules[dpid], table)
    room, known = data.draw(st.integers(0, needed + 2)), RuleCapacity()
    assert known.short(case.rules) is None
    known.record(dpid, table, room)
    assert known.short(case.rules) == (None if needed <= room else (dpid, table, needed - room))
    known.forget(dpid + 1)
    assert (known.short(case.rules) is None) == (needed <= room)
    known.forget(dpid)
    assert known.short(case.rules) is None


def peak(held: Any, steps: Any) -> tuple[int, int]:
    """Most rules in table 0, and most groups, that a switch holds after any step."""
    holding = HeldRules(held)
    most = (holding.table_size(0), len(holding.groups))
    for step in steps:
        for edit in step:
            holding.carry_out([edit])
            most = max(most[0], holding.table_size(0)), max(most[1], len(holding.groups))
    return most


@settings(max_examples=examples(15, 90))
@given(data=st.data(), first=st.sampled_from([RemoveFirst.UNWANTED, RemoveFirst.CHANGED]))
def test_a_switch_that_removes_first_loses_no_packet_and_needs_room_for_one_of_both(
    data: Any, first: RemoveFirst
) -> None:
    before, after = data.draw(st.tuples(*[st.sampled_from(rule_enforcements())] * 2))
    old, new = data.draw(changes(before, after))
    network, hops = RuleInterpreter(old.fabric), NextHops(old.fabric)
    sent = data.draw(packets(new))
    leaves = [switch.dpid for switch in old.fabric.leaves]
    full = data.draw(st.sampled_from(leaves))
    now = {dpid: HeldRules(old.rules[dpid]) for dpid in {*old.rules, *new.rules}}
    todo = {
        dpid: work(old.rules[dpid], new.rules[dpid], ALL_PORTS, first if dpid == full else RemoveFirst.NONE)
        for dpid in now
    }
    for stage in Stage:
        for dpid in now:
            for step in todo[dpid].stages[stage]:
                now[dpid].carry_out(step)
                held = RuleSet({each: holding.as_rules() for each, holding in now.items()})
                src, dst, packet = sent
                walk = network.walk(held, packet, source=old.fabric.hosts[src].name)
                a, b = int(old.fabric.host_leaf[src]), int(old.fabric.host_leaf[dst])
                reachable = a == b or bool(hops.ports(a, b))
                assert walk.host == (old.fabric.hosts[dst].name if reachable else None)
    assert all(now[dpid].as_rules() == new.rules[dpid] for dpid in now)
    base_then, base_now = (without(case.rules[full], is_enforcement) for case in (old, new))
    steps = [step for stage in Stage for step in todo[full].stages[stage]]
    rules, groups = peak(old.rules[full], steps)
    gone = len(difference(base_then, base_now).removed_rules)
    assert rules <= max(entries(old.rules[full], 0), entries(new.rules[full], 0) + gone)
    if first is RemoveFirst.CHANGED and old.ecmp_action == "bundle":
        assert groups <= max(len(old.rules[full].groups), len(new.rules[full].groups))


@given(st.sets(st.integers(1, 5), min_size=2), st.randoms(use_true_random=False))
def test_others_wait_for_a_switch_that_goes_first_before_they_switch(members: set[int], order: Random) -> None:
    first = order.choice(sorted(members))
    rollout = Rollout(RuleSet(), 1, {}, members, first=[first])
    for dpid in members:
        rollout.owes(dpid, frozenset({Stage.PREPARE, Stage.SWITCH}))
    assert not any(rollout.may_begin(dpid, Stage.SWITCH) for dpid in members)
    for dpid in members:
        rollout.confirmed(dpid, Stage.PREPARE)
    assert {dpid for dpid in members if rollout.may_begin(dpid, Stage.SWITCH)} == {first}
    before = rollout.progress
    if order.random() < 0.5:
        rollout.confirmed(first, Stage.SWITCH)
    else:
        rollout.leave(first)
    assert rollout.progress != before
    assert all(rollout.may_begin(dpid, Stage.SWITCH) for dpid in members - {first})
