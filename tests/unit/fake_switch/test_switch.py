"""Messages of a fake switch: replies in parts, errors, removed flows; and its state as the controller reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.leaf_guards import METERS, Meter
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleSet, SwitchRules, difference
from controller.southbound.wire import meter_bytes
from tests.fake_switch import refusal as errors
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.held import groups_of, rules_of
from tests.fake_switch.mods import sequences
from tests.fake_switch.switch import FakeSwitch
from tests.unit.fake_switch.talk import refusal, say, switch
from tests.unit.strategies import fabrics


def install(on: FakeSwitch, rules: SwitchRules, epoch: int = 1) -> None:
    """Send a difference as the controller would, but without barriers."""
    for meter in METERS.values():
        if meter.id not in on.meters:
            assert list(on.receive(meter_bytes.put_meter(meter, replaces=False).message(1))) == []
    changes = difference(on.ours(), rules)
    sent: list[Any] = [messages.put_group(PROTOCOL, group) for group in changes.new_groups]
    sent += [messages.put_rule(PROTOCOL, rule, epoch) for rule in changes.put_rules]
    sent += [messages.remove_rule(PROTOCOL, rule) for rule in changes.removed_rules]
    sent += [messages.remove_group(PROTOCOL, group) for group in changes.removed_groups]
    for message in sent:
        assert refusal(say(on, message)) is None


@given(fabric=fabrics(), other=fabrics(), action=st.sampled_from(["bundle", "select"]))
def test_rules_that_were_installed_are_held_and_differences_turn_one_set_into_another(
    fabric: Fabric, other: Fabric, action: str
) -> None:
    tested = switch()
    for rules in (compile_base(fabric, ecmp_action=action), compile_base(other, ecmp_action=action), RuleSet()):
        install(tested, rules[1])
        assert tested.ours() == rules[1]


@given(part_bytes=st.sampled_from([1, 100, 1000, 10_000]))
def test_a_reply_in_parts_is_whole_and_only_the_last_part_says_that_it_is_the_last(part_bytes: int) -> None:
    rules = compile_base(clos(4, 4, 4), ecmp_action="select")[1]
    tested = switch(part_bytes=part_bytes)
    install(tested, rules)
    whole: tuple[tuple[Any, Any, Any], ...] = (
        (messages.read_rules(PROTOCOL), rules_of, rules.rules),
        (messages.read_groups(PROTOCOL), groups_of, rules.groups),
    )
    for request, read, wanted in whole:
        parts = say(tested, request)
        assert [part.flags for part in parts] == [ofp.OFPMPF_REPLY_MORE] * (len(parts) - 1) + [0]
        assert read(entry for part in parts for entry in part.body) == wanted
    assert (len(say(tested, messages.read_rules(PROTOCOL))) == 1) == (part_bytes == 10_000)


@given(mods=sequences())
def test_no_entry_ever_leads_to_a_group_that_is_not_there_and_aggregates_add_up(mods: list[Any]) -> None:
    tested = switch()
    for message in mods:
        say(tested, message)
    groups = {group.group_id for group in tested.groups}
    entries = [entry for part in say(tested, parser.OFPFlowStatsRequest(PROTOCOL)) for entry in part.body]
    for entry in entries:
        for instruction in entry.instructions:
            for action in getattr(instruction, "actions", ()):
                assert getattr(action, "group_id", None) in {None, *groups}
    (total,) = say(tested, parser.OFPAggregateStatsRequest(PROTOCOL, 0, *anywhere(), 0, 0, parser.OFPMatch()))
    assert total.body.flow_count == len(entries)


def anywhere() -> tuple[int, int, int]:
    return ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY


@given(mods=sequences())
def test_a_refused_message_changes_nothing(mods: list[Any]) -> None:
    tested = switch()
    for message in mods:
        before = tested.everything(), [(group.group_id, str(group.buckets)) for group in tested.groups]
        if refusal(say(tested, message)) is not None:
            assert (tested.everything(), [(g.group_id, str(g.buckets)) for g in tested.groups]) == before


def flow(group: int, **changes: Any) -> Any:
    does = parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [parser.OFPActionGroup(group)])
    return parser.OFPFlowMod(PROTOCOL, instructions=[does], **changes)


def group_mod(command: int, number: int, leads_to: int | None = None) -> Any:
    if leads_to is None:
        bucket = parser.OFPBucket(0, 1, ofp.OFPG_ANY, [parser.OFPActionOutput(1, 0)])
    else:
        bucket = parser.OFPBucket(0, ofp.OFPP_ANY, leads_to, [parser.OFPActionGroup(leads_to)])
    return parser.OFPGroupMod(PROTOCOL, command, ofp.OFPGT_FF, number, [bucket])


def test_deleting_a_group_removes_its_flows_with_notifications() -> None:
    tested = switch()
    say(tested, group_mod(ofp.OFPGC_ADD, 1))
    say(tested, group_mod(ofp.OFPGC_ADD, 2))
    say(tested, flow(1, priority=1, flags=ofp.OFPFF_SEND_FLOW_REM, cookie=9))
    say(tested, flow(1, priority=2))
    say(tested, flow(2, priority=3))
    (told,) = say(tested, parser.OFPGroupMod(PROTOCOL, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, 1))
    assert (told.reason, told.priority, told.cookie) == (ofp.OFPRR_GROUP_DELETE, 1, 9)
    assert [entry.priority for entry in tested.flows] == [3]


def test_groups_that_are_there_unknown_or_in_a_chain_are_refused() -> None:
    tested = switch()
    failed = ofp.OFPET_GROUP_MOD_FAILED
    assert refusal(say(tested, group_mod(ofp.OFPGC_MODIFY, 1))) == (failed, ofp.OFPGMFC_UNKNOWN_GROUP)
    assert refusal(say(tested, group_mod(ofp.OFPGC_ADD, 2, 1))) == (failed, ofp.OFPGMFC_CHAINING_UNSUPPORTED)
    assert refusal(say(tested, group_mod(ofp.OFPGC_ADD, 1))) is None
    assert refusal(say(tested, group_mod(ofp.OFPGC_ADD, 1))) == (failed, ofp.OFPGMFC_GROUP_EXISTS)
    assert refusal(say(tested, group_mod(ofp.OFPGC_ADD, 2, 1))) is None
    assert refusal(say(tested, group_mod(ofp.OFPGC_MODIFY, 1, 2))) == (failed, ofp.OFPGMFC_LOOP)
    assert refusal(say(tested, group_mod(ofp.OFPGC_DELETE, 1))) == (failed, ofp.OFPGMFC_CHAINED_GROUP)
    assert refusal(say(tested, group_mod(ofp.OFPGC_DELETE, 2))) is None
    assert refusal(say(tested, group_mod(ofp.OFPGC_DELETE, 1))) is None


@pytest.mark.parametrize("kind", [parser.OFPFlowMod, parser.OFPGroupMod])
def test_a_test_may_have_the_next_messages_of_a_kind_refused(kind: type[Any]) -> None:
    tested = switch()
    tested.refuse_next(kind, errors.table_full(), times=2)
    sent = [group_mod(ofp.OFPGC_ADD, 1), parser.OFPFlowMod(PROTOCOL), group_mod(ofp.OFPGC_ADD, 2)]
    sent += [parser.OFPFlowMod(PROTOCOL, priority=2), group_mod(ofp.OFPGC_ADD, 3), parser.OFPFlowMod(PROTOCOL)]
    refused = [refusal(say(tested, message)) is not None for message in sent]
    assert refused == [i < 4 and isinstance(message, kind) for i, message in enumerate(sent)]


def test_it_introduces_itself_with_its_ports() -> None:
    tested = switch()
    (features,) = say(tested, parser.OFPFeaturesRequest(PROTOCOL))
    assert features.datapath_id == 7
    tested.ports[2].carrier = False
    (described,) = say(tested, parser.OFPPortDescStatsRequest(PROTOCOL, 0))
    assert [(port.port_no, port.name, bool(port.state & ofp.OFPPS_LINK_DOWN)) for port in described.body] == [
        (1, b"p1", False),
        (2, b"p2", True),
        (3, b"p3", False),
    ]
    (echo,) = say(tested, parser.OFPEchoRequest(PROTOCOL, b"hello"))
    assert echo.data == b"hello"


def test_what_it_does_not_understand_is_refused() -> None:
    tested = switch()
    assert refusal(say(tested, parser.OFPGetAsyncRequest(PROTOCOL))) == (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_TYPE)
    assert refusal(say(tested, parser.OFPGroupFeaturesStatsRequest(PROTOCOL, 0))) == (
        ofp.OFPET_BAD_REQUEST,
        ofp.OFPBRC_BAD_MULTIPART,
    )


def test_meters_are_created_changed_reported_and_removed_with_their_rules() -> None:
    tested = switch(most_meters=2)
    first, second, third = (Meter(number, 10, 20) for number in (1, 2, 3))

    def told(answers: Any) -> list[int]:
        return [int.from_bytes(answer[10:12], "big") for answer in answers]

    assert told(tested.receive(meter_bytes.put_meter(first, replaces=True).message(1))) == [ofp.OFPMMFC_UNKNOWN_METER]
    for meter in (first, second):
        assert told(tested.receive(meter_bytes.put_meter(meter, replaces=False).message(1))) == []
    assert told(tested.receive(meter_bytes.put_meter(first, replaces=False).message(1))) == [ofp.OFPMMFC_METER_EXISTS]
    assert told(tested.receive(meter_bytes.put_meter(third, replaces=False).message(1))) == [ofp.OFPMMFC_OUT_OF_METERS]
    assert told(tested.receive(meter_bytes.put_meter(first._replace(burst=5), replaces=True).message(1))) == []
    (config,) = say(tested, messages.read_meters(PROTOCOL))
    assert [(m.meter_id, [(b.rate, b.burst_size) for b in m.bands]) for m in config.body] == [
        (1, [(10, 5)]),
        (2, [(10, 20)]),
    ]
    for number in (1, 2, 7):
        rule = Rule(0, number, (), meter=number)
        refused = refusal(say(tested, messages.put_rule(PROTOCOL, rule, 1)))
        assert refused == (None if number < 7 else (ofp.OFPET_METER_MOD_FAILED, ofp.OFPMMFC_UNKNOWN_METER))
    assert say(tested, parser.OFPMeterMod(PROTOCOL, ofp.OFPMC_DELETE, meter_id=1)) == []
    assert [(rule.priority, rule.meter) for rule in tested.ours().rules.values()] == [(2, 2)]
