"""Walks with labels and segment ids: what a switch sees of a packet, and what it may take off."""

from __future__ import annotations

import pytest

from controller.model.files.clos import clos
from controller.southbound.rules.interpreter import MAX_RESUBMITS, Packet, RuleInterpreter
from controller.southbound.rules.rule import (
    ETH_MPLS,
    Action,
    Output,
    PopMpls,
    PushMpls,
    Resubmit,
    Rule,
    SetDscp,
    SetEthDst,
    SetTrafficClass,
    ShiftIds,
    ToGroup,
    match,
    number_of,
    port_bucket,
)
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet, SwitchRules

CARRIED: Packet = {"eth_type": 0x86DD, "ipv6_dst": "fcbb:bb00:1:2:3::"}
PING: Packet = {"eth_type": 0x800, "ip_proto": 1, "ipv4_dst": "10.0.2.1"}


def forwarded(held: SwitchRules) -> int | str:
    """What a leaf with hosts' port 1 and uplinks 2 and 3 does with a ping from its host."""
    return RuleInterpreter(clos(2, 2, 1)).forward(held, "leaf1", 1, PING, min)


def in_tables(first: tuple[Action, ...], *later: Rule) -> SwitchRules:
    builder = RuleBuilder()
    builder.add(Rule(0, 1, match(eth_type=0x800), first, goto=1))
    for rule in later:
        builder.add(rule)
    return builder.build()


def labelled(label: int, bottom: int) -> dict[str, int]:
    return {"eth_type": ETH_MPLS, "mpls_label": label, "mpls_bos": bottom}


def test_behind_labels_a_switch_sees_only_the_outermost() -> None:
    seen = [Rule(1, 1, match(**labelled(18, 0)), (Output(3),)), Rule(1, 2, match(ipv4_dst="10.0.2.1"), (Output(2),))]
    assert forwarded(in_tables((PushMpls(17), PushMpls(18)), *seen)) == 3


def test_the_first_label_that_is_pushed_is_the_bottom_of_the_stack() -> None:
    below = [Rule(1, 1, match(**labelled(17, 1)), (Output(3),))]
    assert forwarded(in_tables((PushMpls(17),), *below)) == 3
    assert forwarded(in_tables((PushMpls(17), PushMpls(18), PopMpls(ETH_MPLS)), *below)) == 3


def test_behind_the_last_label_the_packet_is_what_it_was() -> None:
    rule = Rule(1, 1, match(eth_type=0x800, ipv4_dst="10.0.2.1"), (Output(2),))
    assert forwarded(in_tables((PushMpls(17), PopMpls(0x800)), rule)) == 2


def test_what_is_written_is_seen_by_later_rules_and_labels_copy_their_traffic_class() -> None:
    marked = Rule(1, 1, match(eth_type=0x800, ip_dscp=24), (Output(2),))
    assert forwarded(in_tables((SetDscp(16), SetDscp(24)), marked)) == 2
    assert forwarded(in_tables((SetDscp(24), PushMpls(17), PopMpls(0x800)), marked)) == 2
    assert forwarded(in_tables((SetDscp(16),), marked)) == "dropped"
    copied = Rule(1, 1, match(**labelled(18, 0), mpls_tc=2), (Output(3),))
    assert forwarded(in_tables((PushMpls(17), SetTrafficClass(2), PushMpls(18)), copied)) == 3
    assert forwarded(in_tables((PushMpls(17), PushMpls(18), SetTrafficClass(2)), copied)) == 3
    assert forwarded(in_tables((PushMpls(17), PushMpls(18)), copied)) == "dropped"


def test_what_a_packet_does_not_have_is_not_written() -> None:
    assert "DSCP" in str(forwarded(in_tables((PushMpls(17), SetDscp(16), Output(2)))))
    assert "traffic class" in str(forwarded(in_tables((SetTrafficClass(2), Output(2)))))


@pytest.mark.parametrize(
    "actions",
    [
        (PopMpls(0x800),),
        (PushMpls(17), PopMpls(ETH_MPLS)),
        (PushMpls(17), PushMpls(18), PopMpls(0x800)),
        (PushMpls(17), PopMpls(0x806)),
    ],
)
def test_what_is_popped_must_be_there_and_leave_what_it_says(actions: tuple[Action, ...]) -> None:
    assert "popped" in str(forwarded(in_tables((*actions, Output(2)))))


@pytest.mark.parametrize("kind", ["failover", "select"])
def test_a_bucket_s_label_is_on_the_packet_that_leaves_by_it_only(kind: str) -> None:
    fabric = clos(2, 2, 1)
    builder = RuleBuilder()
    group = builder.group(kind, [port_bucket(2, (PushMpls(17),)), port_bucket(3, (PushMpls(18),))])
    builder.add(Rule(0, 1, (), (ToGroup(group),)))
    leaf = builder.build()
    for port, label in ((2, 17), (3, 18)):
        network = RuleInterpreter(fabric, down={("leaf1", 5 - port)})
        spine = RuleBuilder()
        spine.add(Rule(0, 1, match(**labelled(label, 1)), (PopMpls(0x800), Output(2))))
        other = RuleBuilder()
        other.add(Rule(0, 1, match(in_port=port), (Output(1),)))
        dpid = {switch.name: switch.dpid for switch in fabric.switches}
        rules = RuleSet({dpid["leaf1"]: leaf, dpid["leaf2"]: other.build(), dpid[f"spine{port - 1}"]: spine.build()})
        assert network.walk(rules, PING, source="h1").host == "h2"


def shifted(first: tuple[Action, ...], *later: Rule, packet: Packet = CARRIED, in_port: int = 1) -> int | str:
    builder = RuleBuilder()
    builder.add(Rule(0, 1, match(eth_type=packet["eth_type"]), first))
    for rule in later:
        builder.add(rule)
    return RuleInterpreter(clos(2, 2, 1)).forward(builder.build(), "leaf1", in_port, packet, min)


@pytest.mark.parametrize(("bits", "left"), [(16, "fcbb:1:2:3::"), (32, "fcbb:bb00:2:3::"), (48, "fcbb:bb00:1:3::")])
def test_an_id_is_removed_behind_the_block_and_the_packet_looked_up_again(bits: int, left: str) -> None:
    after = Rule(3, 1, match(eth_type=0x86DD, ipv6_dst=left), (Output(2),))
    assert shifted((ShiftIds(bits), Resubmit(3)), after) == 2
    assert shifted((Resubmit(3),), after) == "dropped"


def test_only_a_packet_whose_id_was_removed_may_leave_by_the_port_that_it_came_in_by() -> None:
    assert shifted((ShiftIds(32), Output(2)), in_port=2) == 2
    assert shifted((Output(2),), in_port=2) == "sent back out of its in-port"


def test_lookups_without_an_end_and_ids_of_other_packets_end_the_walk() -> None:
    assert shifted((Resubmit(0),)) == "looked up too often"
    assert MAX_RESUBMITS >= 6
    assert "not of IPv6" in str(shifted((ShiftIds(32), Output(2)), packet=PING))
    written = Rule(3, 1, match(eth_dst="02:00:00:00:00:07"), (Output(3),))
    assert shifted((SetEthDst("02:00:00:00:00:07"), Resubmit(3)), written) == 3


def test_addresses_of_all_kinds_are_numbers() -> None:
    assert number_of("10.0.0.1") == 0x0A000001
    assert number_of("02:fa:15:00:00:01") == 0x02FA15000001
    # As long as a MAC address, and with as many colons.
    assert number_of("abcd:ef01:2:3::45") == 0xABCDEF0100020003_0000000000000045
    assert number_of(7) == 7
