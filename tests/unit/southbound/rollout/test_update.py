"""Updates: what one switch has to do and in which order, when it may go on, and ports that are not there."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rollout.absent_ports import without_ports
from controller.southbound.rollout.rollout import Rollout
from controller.southbound.rollout.update import STEP, HeldRules, Stage, has_hosts, is_labelled, work
from controller.southbound.rules.rule import Bundle, Group, Output, Rule, ToGroup, match
from controller.southbound.rules.rule_set import EMPTY, RuleSet, SwitchRules
from tests.unit.southbound.rollout.drawn_rules import switch_rules
from tests.unit.strategies import fabrics

PORTS = frozenset(range(1, 7))


def led_to(holding: HeldRules) -> set[int]:
    """Groups that something leads to."""
    used = {a.group for rule in holding.rules.values() for a in rule.actions if isinstance(a, ToGroup)}
    return used | {b.watch_group for g in holding.groups.values() for b in g.buckets if b.watch_group is not None}


@given(have=switch_rules(), want=switch_rules(), order=st.randoms(use_true_random=False))
def test_the_steps_lead_from_any_rules_to_any_others_and_never_to_a_group_that_is_not_there(
    have: SwitchRules, want: SwitchRules, order: Random
) -> None:
    holding, todo = HeldRules(have), work(have, want, PORTS)
    for stage in Stage:
        for step in todo.stages[stage]:
            # A switch may carry out what no barrier parts in any order.
            edits = list(step)
            order.shuffle(edits)
            for edit in edits:
                assert edit.replaces == (edit.put and isinstance(edit.what, Group) and edit.what.id in have.groups)
                holding.carry_out([edit])
                assert led_to(holding) <= holding.groups.keys()
            assert len(step) <= STEP
    assert holding.as_rules() == want
    assert not work(want, want, PORTS)


@given(have=switch_rules(), want=switch_rules())
def test_until_all_is_switched_nothing_is_taken_away_and_labels_have_their_rules_before_anybody_pushes_them(
    have: SwitchRules, want: SwitchRules
) -> None:
    holding, todo = HeldRules(have), work(have, want, PORTS)
    for stage in (Stage.PREPARE, Stage.SWITCH):
        for step in todo.stages[stage]:
            holding.carry_out(step)
            assert have.rules.keys() <= holding.rules.keys()
            assert have.groups.keys() <= holding.groups.keys()
        if stage is Stage.PREPARE:
            for key, rule in holding.rules.items():
                early = is_labelled(rule) or not (has_hosts(have) or has_hosts(want))
                assert rule == (want.rules.get(key, have.rules.get(key)) if early else have.rules.get(key))
    assert all(holding.rules[key] == rule for key, rule in want.rules.items())
    assert todo.labels_go == any(is_labelled(have.rules[key]) for key in have.rules.keys() - want.rules.keys())


@given(have=switch_rules(), want=switch_rules())
def test_a_table_gets_its_rules_before_those_that_lead_there_and_exceptions_before_what_they_except_from(
    have: SwitchRules, want: SwitchRules
) -> None:
    todo = work(have, want, PORTS)
    for stage, sign in ((Stage.PREPARE, -1), (Stage.SWITCH, -1), (Stage.WITHDRAW, 1), (Stage.REMOVE, 1)):
        ranks = [
            {(sign * e.what.table, sign * e.what.priority) for e in step if isinstance(e.what, Rule)}
            for step in todo.stages[stage]
        ]
        assert all(len(found) <= 1 for found in ranks)
        flat = [rank for found in ranks for rank in found]
        assert flat == sorted(flat)


@given(before=fabrics(), after=fabrics())
def test_real_rules_need_no_port_that_their_fabric_does_not_have(before: Fabric, after: Fabric) -> None:
    have, want = compile_base(before), compile_base(after)
    for switch in after.switches:
        ports = {c.lower_port for c in after.cables if c.lower == switch.name}
        ports |= {c.upper_port for c in after.cables if c.upper == switch.name}
        ports |= {h.port for h in after.hosts if h.leaf == switch.name}
        todo = work(have[switch.dpid], want[switch.dpid], frozenset(p for p in ports if p is not None))
        assert todo.missing == ()
        assert todo.want == want[switch.dpid]


@given(want=switch_rules(most_port=9), ports=st.sets(st.integers(1, 9)).map(frozenset))
def test_no_port_that_is_not_there_is_named_and_all_others_are_as_before(
    want: SwitchRules, ports: frozenset[int]
) -> None:
    found, missing = without_ports(want, ports)
    assert found.rules.keys() == want.rules.keys()
    assert found.groups.keys() == want.groups.keys()
    assert named(found) == named(want) - set(missing)
    assert set(missing) == named(want) - ports
    again, none = without_ports(found, ports)
    assert (again, none) == (found, ())
    if not missing:
        assert found is want


def named(rules: SwitchRules) -> set[int]:
    """Ports that something is sent out of."""
    actions = [action for rule in rules.rules.values() for action in rule.actions]
    actions += [a for group in rules.groups.values() for bucket in group.buckets for a in bucket.actions]
    outs = {action.port for action in actions if isinstance(action, Output)}
    return outs.union(*(action.ports for action in actions if isinstance(action, Bundle)))


def test_reserved_ports_need_not_be_there() -> None:
    rule = Rule(0, 1, match(in_port=1), (Output(0xFFFFFFF8),))
    assert without_ports(SwitchRules({rule.key: rule}, {}), frozenset()) == (SwitchRules({rule.key: rule}, {}), ())


@given(st.data())
def test_no_switch_begins_a_stage_before_all_that_matter_have_confirmed_the_one_before_or_left(
    data: st.DataObject,
) -> None:
    members = data.draw(st.sets(st.integers(1, 5)))
    rollout = Rollout(RuleSet(), 7, {}, members)
    waited = (Stage.PREPARE, Stage.SWITCH, Stage.WITHDRAW)
    needs = {m: data.draw(st.frozensets(st.sampled_from(waited))) for m in sorted(members)}
    owed: dict[int, set[Stage]] = {m: set(waited) for m in members}
    for member in data.draw(st.lists(st.sampled_from(sorted(members)), max_size=20)) if members else ():
        what = data.draw(st.sampled_from(["tell", "leave", *Stage]))
        if what == "leave":
            rollout.leave(member)
            owed[member].clear()
        elif what == "tell":
            rollout.owes(member, needs[member])
            owed[member] &= needs[member]
        else:
            rollout.confirmed(member, what)
            owed[member].discard(what)
        assert rollout.waits_for == {m for m in members if owed[m]}
        assert rollout.reached == min((s for stages in owed.values() for s in stages), default=Stage.REMOVE)
        # Whoever comes later is not waited for.
        rollout.owes(9, frozenset(waited))
    for member in members:
        rollout.leave(member)
    assert rollout.reached is Stage.REMOVE


@pytest.mark.parametrize("room", [0, 3, 9])
def test_the_shortage_of_a_full_table_is_reported_in_rules(room: int) -> None:
    rules = {rule.key: rule for rule in (Rule(0, 1, match(in_port=n), ()) for n in range(9))}
    other = Rule(1, 1, match(in_port=1), ())
    want = SwitchRules({**rules, other.key: other}, {})
    holding = HeldRules(EMPTY)
    (step,) = work(EMPTY, SwitchRules(rules, {}), PORTS).stages[Stage.PREPARE]
    holding.carry_out(step[:room])
    assert (holding.table_size(0), holding.lacks(want, 0), holding.lacks(want, 1)) == (room, 9 - room, 1)
