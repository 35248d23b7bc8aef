"""Rules and groups as bytes: what Ryu writes and reads, without Ryu's objects."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.enforcing.edit_messages import encoded
from controller.southbound.rollout.update import RuleEdit
from controller.southbound.rules.rule import (
    Bucket,
    Group,
    Output,
    PushMpls,
    Rule,
    ToGroup,
    match,
)
from controller.southbound.wire import rule_bytes
from controller.southbound.wire.rule_bytes import Encoder
from controller.southbound.wire.rule_reading import RuleReader
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.held import groups_of, rules_of
from tests.fake_switch.raw.switch import RawSwitch
from tests.openflow_writer import FLOW, GROUP_DESC, multipart
from tests.unit.southbound.plans import cases, patient
from tests.unit.southbound.wire.drawn_rules import RULES

XID = 0x01020304


def by_ryu(message: Any) -> bytes:
    message.xid = XID
    message.serialize()
    return bytes(message.buf)


def held(rules: list[Rule], groups: list[Group]) -> tuple[list[bytes], list[bytes]]:
    """The replies of a switch that was sent these."""
    switch = RawSwitch("leaf1", 1, [1], lambda port, frame: None)
    edits = [RuleEdit(True, group) for group in groups] + [RuleEdit(True, rule) for rule in rules]
    for template in encoded(edits, 7):
        data = template.message(XID)
        switch.receive(data[1], XID, data)
    flows = list(multipart(FLOW, XID, (entry.stats for entry in switch.flows.values())))
    return flows, list(multipart(GROUP_DESC, XID, switch._descriptions()))


def check(rules: list[Rule], groups: list[Group]) -> None:
    for rule in rules:
        assert rule_bytes.put_rule(rule, 9).message(XID) == by_ryu(messages.put_rule(PROTOCOL, rule, 9))
        assert rule_bytes.remove_rule(rule).message(XID) == by_ryu(messages.remove_rule(PROTOCOL, rule))
    for group in groups:
        for replaces in (False, True):
            sent = messages.put_group(PROTOCOL, group, replaces=replaces)
            assert rule_bytes.put_group(group, replaces=replaces).message(XID) == by_ryu(sent)
        assert rule_bytes.remove_group(group).message(XID) == by_ryu(messages.remove_group(PROTOCOL, group))
    flows, descriptions = held(rules, groups)
    read = RuleReader()
    for _ in range(2):  # as new, and as remembered
        assert read.rules(flows) == rules_of(messages.flow_entries(flows))
        assert read.groups(descriptions) == groups_of(messages.group_entries(descriptions))
    assert read.rules(flows) == {rule.key: rule for rule in rules}
    assert read.groups(descriptions) == {group.id: group for group in groups}


@pytest.mark.parametrize("enforcement", rule_enforcements())
@settings(patient, max_examples=10)
@given(data=st.data())
def test_compiled_rules_are_written_and_read_as_by_ryu(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    dpid = data.draw(st.sampled_from(sorted(case.rules)))
    compiled = case.rules[dpid]
    check(list(compiled.rules.values()), list(compiled.groups.values()))


@given(rule=RULES)
def test_any_rule_is_written_and_read_as_by_ryu(rule: Rule) -> None:
    check([rule], [])


def test_a_group_is_written_and_read_as_by_ryu() -> None:
    select = Group(0xFA000001, "select", (Bucket((Output(1),), 1), Bucket((PushMpls(16), Output(2)), 2)))
    failover = Group(
        0xFA000002, "failover", (Bucket((Output(3),), 3), Bucket((ToGroup(0xFA000001),), None, 0xFA000001))
    )
    check([], [select, failover])


def test_foreign_rules_equal_none_of_our_rules() -> None:
    instructions = [
        parser.OFPInstructionActions(ofp.OFPIT_WRITE_ACTIONS, [parser.OFPActionOutput(2)]),
        parser.OFPInstructionMeter(3),
    ]
    fields = parser.OFPMatch(eth_type=0x86DD, ipv6_src="2001:db8::1", vlan_vid=(0x1000, 0x1000))
    mod = parser.OFPFlowMod(
        PROTOCOL,
        cookie=messages.OUR_COOKIE,
        priority=5,
        match=fields,
        instructions=instructions,
        buffer_id=ofp.OFP_NO_BUFFER,
    )
    switch = RawSwitch("leaf1", 1, [1], lambda port, frame: None)
    data = by_ryu(mod)
    switch.receive(data[1], XID, data)
    (rule,) = RuleReader().rules(multipart(FLOW, XID, (entry.stats for entry in switch.flows.values()))).values()
    assert all(isinstance(action, str) for action in rule.actions)
    assert rule.actions
    assert sum(name.startswith("field ") for name, _ in rule.match) == 2


def test_a_rule_that_only_ryu_can_write_is_removed_by_ryu_s_bytes() -> None:
    strange = Rule(0, 5, match(eth_type=0x86DD, ipv6_src="2001:db8::1"))
    (template,) = encoded([RuleEdit(False, strange)], 7)
    assert template.message(XID) == by_ryu(messages.remove_rule(PROTOCOL, strange))


def test_an_encoder_distinguishes_equal_objects_of_different_epochs() -> None:
    encoder, rule = Encoder(), Rule(0, 5, match(eth_type=0x800), (Output(2),))
    for epoch in (1, 2, 1):
        assert encoder.put(rule, epoch) == rule_bytes.put_rule(rule, epoch)


@given(data=st.data(), rules=st.lists(RULES, min_size=1, max_size=3))
def test_a_reply_that_is_cut_or_changed_is_read_or_refused_and_changes_no_other_reading(
    data: st.DataObject, rules: list[Rule]
) -> None:
    flows, _ = held(rules, [])
    reader, alone = RuleReader(), RuleReader().rules(flows)
    part = bytearray(flows[0])
    for _ in range(data.draw(st.integers(1, 4))):
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(part[: data.draw(st.integers(0, len(part)))])
    for reply in (bytes(part), whole, whole[:2] + struct.pack("!H", len(whole)) + whole[4:]):
        try:
            found = reader.rules([reply])
        except ValueError:
            pass
        else:
            # What it remembers from other replies makes no difference.
            assert found == RuleReader().rules([reply])
        assert reader.rules(flows) == alone
