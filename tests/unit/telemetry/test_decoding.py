"""Statistics replies as bytes: counters are decoded for any earlier reply, and malformed ones are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.forwarding.leaf_guards import unmetered
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.southbound.rules.rule import RuleKey
from controller.southbound.rules.rule_set import EMPTY, SwitchRules, difference
from controller.telemetry.counters import PortCounters, RuleCounters
from controller.telemetry.decoding import FlowCounts, group_counts, port_counts
from tests import openflow_writer as writer
from tests.fake_switch import encode
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.ports import Port
from tests.fake_switch.switch import FakeSwitch
from tests.unit.laws import examples
from tests.unit.southbound.plans import KEEPING, cases, patient

COUNTERS = st.integers(0, 2**63)


def ask(switch: FakeSwitch, message: Any) -> list[bytes]:
    message.xid = 5
    message.serialize()
    return list(switch.receive(bytes(message.buf)))


def holding(rules: SwitchRules, **options: Any) -> FakeSwitch:
    switch = FakeSwitch(7, "seven", (), **options)
    changes = difference(EMPTY, rules)
    sent = [messages.put_group(PROTOCOL, group) for group in changes.new_groups]
    sent += [messages.put_rule(PROTOCOL, rule, 7) for rule in changes.put_rules]
    assert [ask(switch, message) for message in sent] == [[]] * len(sent)
    return switch


def planned(rules: SwitchRules) -> list[RuleKey]:
    return [key for key in rules.rules if FLOW <= key[1] < DISCOVERY]


@settings(patient, max_examples=examples(20, 120))
@given(data=st.data())
def test_each_planned_rule_has_its_own_counters_and_no_other_rule_any(data: st.DataObject) -> None:
    enforcement = data.draw(st.sampled_from(KEEPING))
    case = data.draw(cases(enforcement))
    dpid = data.draw(st.sampled_from(sorted(case.rules)))
    held = unmetered(case.rules[dpid])
    switch = holding(held, part_bytes=data.draw(st.sampled_from([200, 500, 60_000])))
    decoder = FlowCounts()
    for _ in range(3):
        # Some rules go, and come back, between the readings; their counters go on or begin anew.
        gone = data.draw(st.sets(st.sampled_from(planned(held)), max_size=3)) if planned(held) else set()
        for key in gone:
            ask(switch, messages.remove_rule(PROTOCOL, held.rules[key]))
        expected = {}
        for key in set(planned(held)) - gone:
            entry = switch.count(key, 0)
            entry.packets, entry.bytes = data.draw(COUNTERS), data.draw(COUNTERS)
            expected[key] = RuleCounters(entry.packets, entry.bytes)
        assert dict(decoder.read(ask(switch, messages.count_flows(PROTOCOL)))) == expected
        for key in gone:
            ask(switch, messages.put_rule(PROTOCOL, held.rules[key], 8))
    groups = group_counts(ask(switch, messages.count_groups(PROTOCOL)))
    assert {number: len(buckets) for number, buckets in groups.items()} == {
        number: len(group.buckets) for number, group in held.groups.items()
    }


@given(st.dictionaries(st.integers(1, 0xFEFF), st.tuples(*[COUNTERS] * 4), max_size=9))
def test_ports_have_their_counters_and_special_ports_none(counted: dict[int, tuple[int, ...]]) -> None:
    ports = [Port(n, f"p{n}", "02:00:00:00:00:01", 10.0, True, True, *values) for n, values in counted.items()]
    ports.append(Port(ofp.OFPP_LOCAL, "local", "02:00:00:00:00:02", 10.0))
    found = port_counts(ask(FakeSwitch(7, "seven", ports, part_bytes=300), messages.count_ports(PROTOCOL)))
    assert found == {n: PortCounters(*(*values, 0, 0, 0, 0)) for n, values in counted.items()}


def test_bucket_counters_belong_to_their_group_and_groups_of_others_are_left_out() -> None:
    def entry(number: int, *buckets: tuple[int, int]) -> bytes:
        body = b"".join(parser.struct.pack("!QQ", *each) for each in buckets)
        return parser.struct.pack(ofp.OFP_GROUP_STATS_PACK_STR, 40 + len(body), number, 0, 0, 0, 0, 0) + body

    entries = [entry(0xFA000001, (1, 2), (3, 4)), entry(5, (9, 9)), entry(0xFA000002)]
    parts = list(writer.multipart(ofp.OFPMP_GROUP, 1, entries, part_bytes=80))
    assert len(parts) > 1
    assert group_counts(parts) == {0xFA000001: (RuleCounters(1, 2), RuleCounters(3, 4)), 0xFA000002: ()}


def flow_parts() -> list[bytes]:
    """Entries of different lengths, so that nothing can be read at one stride."""
    fields = {"eth_type": 0x800, "ip_proto": 17, "ipv4_src": "10.0.0.1", "ipv4_dst": "10.0.0.2", "udp_dst": ROCE_PORT}
    entries = []
    masked = {"udp_src": (50000, 0xFFFC)}
    for priority, more in ((FLOW, {}), (FLOW + 16, {"udp_src": 50000}), (FLOW + 14, masked)):
        match = bytearray()
        parser.OFPMatch(**fields, **more).serialize(match, 0)
        head = (48 + len(match), 0, 1, 2, priority, 0, 0, 0, messages.OUR_COOKIE, 3, 4)
        entries.append(parser.struct.pack(ofp.OFP_FLOW_STATS_0_PACK_STR, *head) + match)
    return list(writer.multipart(ofp.OFPMP_FLOW, 1, entries, part_bytes=10_000))


READERS = [
    pytest.param(lambda parts: FlowCounts().read(parts), flow_parts(), id="flows"),
    pytest.param(
        port_counts,
        ask(FakeSwitch(7, "s", [Port(1, "p", "02:00:00:00:00:01", 1.0)]), messages.count_ports(PROTOCOL)),
        id="ports",
    ),
    pytest.param(
        group_counts,
        list(writer.multipart(ofp.OFPMP_GROUP, 1, [encode.group_stats(_group)], part_bytes=999))
        if (_group := type("Group", (), {"group_id": 0xFA000001, "buckets": [1, 2]})())
        else [],
        id="groups",
    ),
]


@pytest.mark.parametrize(("read", "parts"), READERS)
@given(data=st.data())
def test_bytes_of_a_broken_switch_are_read_or_refused_without_other_exceptions(
    read: Any, parts: Sequence[bytes], data: st.DataObject
) -> None:
    (whole,) = parts
    assert len(read(parts)) > 0
    broken = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(whole)))])
    for part in (bytes(broken), cut):
        try:
            read([part])
        except ValueError as error:
            assert str(error)


@pytest.mark.parametrize(("read", "parts"), READERS)
def test_an_answer_to_another_question_is_refused(read: Any, parts: Sequence[bytes]) -> None:
    other = list(writer.multipart(ofp.OFPMP_DESC, 1, [writer.description("fake switch", "s")], part_bytes=9999))
    with pytest.raises(ValueError, match="instead of"):
        read(other)
    with pytest.raises(ValueError, match=r"instead of|truncated"):
        read([parts[0][:-1]])
