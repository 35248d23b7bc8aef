"""Rules as OpenFlow messages and back, without differences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rules.rule import ETH_MPLS, Output, PushMpls, Rule, match
from controller.southbound.rules.rule_set import EMPTY, difference
from tests.fake_switch.decode import PROTOCOL, decode
from tests.fake_switch.held import groups_of, rules_of
from tests.unit.laws import examples
from tests.unit.southbound.plans import cases, patient


@pytest.mark.parametrize("enforcement", rule_enforcements())
@settings(patient, max_examples=examples(15, 90))  # each is some hundred messages
@given(data=st.data())
def test_compiled_rules_and_groups_come_back_as_they_were(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    dpid = data.draw(st.sampled_from(sorted(case.rules)))
    changes = difference(EMPTY, case.rules[dpid])
    sent = [
        *(messages.put_group(PROTOCOL, group) for group in changes.new_groups),
        *(messages.put_rule(PROTOCOL, rule, 7) for rule in changes.put_rules),
    ]
    heard = []
    for message in sent:
        message.xid = 1
        message.serialize()
        heard.append(decode(bytes(message.buf)))
    assert rules_of(m for m in heard if isinstance(m, parser.OFPFlowMod)) == case.rules[dpid].rules
    assert groups_of(m for m in heard if isinstance(m, parser.OFPGroupMod)) == case.rules[dpid].groups


PUSH = parser.OFPActionPushMpls(ETH_MPLS)
OUT = parser.OFPActionOutput(2)


def label(number: int) -> parser.OFPActionSetField:
    return parser.OFPActionSetField(mpls_label=number)


@pytest.mark.parametrize(
    "actions",
    [
        [PUSH, OUT],
        [label(17), OUT],
        [PUSH, label(17), label(18), OUT],
        [parser.OFPActionPushMpls(0x8848), label(17), OUT],
        [PUSH, parser.OFPActionSetField(mpls_tc=1), label(17), OUT],
        [PUSH, OUT, label(17)],
        [parser.OFPActionPushVlan(), OUT],
    ],
)
def test_actions_that_are_none_of_ours_equal_none_of_ours(actions: list[object]) -> None:
    instructions = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)]
    mod = parser.OFPFlowMod(PROTOCOL, priority=5, match=parser.OFPMatch(eth_type=0x800), instructions=instructions)
    read = messages.rule_from(mod)
    assert any(isinstance(action, str) for action in read.actions)
    assert read != Rule(0, 5, match(eth_type=0x800), (PushMpls(17), Output(2)))
