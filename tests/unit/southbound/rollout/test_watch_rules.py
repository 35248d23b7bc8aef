"""Rules of watch windows forward as base rules do, and what they count is what flows have sent."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.packets.flow_ports import ALL_TCP, TCP, UDP
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rollout.drift import CookieRule, foreign_rules
from controller.southbound.rollout.update import work
from controller.southbound.rollout.watch_rules import (
    COUNTING,
    COUNTING_COOKIE,
    HEADER_BYTES,
    TCP_HEADER_BYTES,
    WATCH,
    WINDOW_COOKIE,
    CountedRule,
    FlowBytes,
    PrefixRules,
    WatchedFlow,
    changes_base,
    counted_rule,
)
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.priorities import PREFIX
from controller.southbound.rules.rule import Rule, ToController, match
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from tests.unit.southbound.plans import Case, cases, packets


def without_copies_to_controller(rule: Rule) -> Rule:
    """Return a watch rule with its forwarding alone, as the interpreter knows it."""
    *actions, last = rule.actions
    assert isinstance(last, ToController)
    return rule._replace(actions=tuple(actions))


def watched(case: Case, rules: RuleSet, flow: WatchedFlow) -> RuleSet:
    """Return the rules of all switches with windows on all leaves, and a counting rule of a flow."""
    switches = dict(rules.switches)
    for leaf in case.fabric.leaves:
        held = rules[leaf.dpid]
        prefixes = PrefixRules(held)
        counting = prefixes.counting_rule(flow)
        more = [*map(without_copies_to_controller, prefixes.watch_rules()), *([counting] if counting else [])]
        switches[leaf.dpid] = SwitchRules({**held.rules, **{rule.key: rule for rule in more}}, held.groups)
    return RuleSet(switches)


@given(st.data(), st.sampled_from(rule_enforcements()))
def test_windows_and_counting_rules_change_no_path_of_any_packet(data: st.DataObject, enforcement: str) -> None:
    case: Case = data.draw(cases(enforcement))  # type: ignore[arg-type]
    src, dst, packet = data.draw(packets(case))
    rules = case.rules
    sender, receiver = (int(IPv4Address(case.fabric.hosts[host].ip)) for host in (src, dst))
    flow = WatchedFlow(sender, receiver, ALL_TCP if packet.get("ip_proto") == TCP else int(packet.get("udp_src", 1)))
    net, source = RuleInterpreter(case.fabric), case.fabric.hosts[src].name
    with_windows = watched(case, rules, flow)
    assert set(net.every_walk(with_windows, packet, source=source)) == set(net.every_walk(rules, packet, source=source))


def test_flows_of_other_leaves_meet_the_window_until_they_are_counted_and_others_never_do() -> None:
    fabric = clos(leaves=3, spines=2, hosts_per_leaf=2)
    held = compile_base(fabric)[fabric.leaves[0].dpid]
    prefixes = PrefixRules(held)
    rules = prefixes.watch_rules()
    protocols = [dict(rule.match)["ip_proto"] for rule in rules]
    assert protocols == [UDP, UDP, TCP, TCP]
    assert all(rule.priority == WATCH and isinstance(rule.actions[-1], ToController) for rule in rules)
    own, other = int(IPv4Address(fabric.hosts[1].ip)), int(IPv4Address(fabric.hosts[4].ip))
    assert prefixes.counting_rule(WatchedFlow(own, own, 50000)) is None
    counting = prefixes.counting_rule(WatchedFlow(own, other, 50000))
    assert counting is not None
    assert counting.priority == COUNTING
    (prefix,) = fabric.leaf_prefixes[2]
    assert IPv4Address(fabric.hosts[4].ip) in IPv4Network(prefix)
    base = next(
        rule
        for rule in held.rules.values()
        if rule.priority == PREFIX
        and dict(rule.match).get("ipv4_dst") == (str(prefix.network_address), str(prefix.netmask))
    )
    assert counting.actions == base.actions
    assert dict(counting.match)["udp_dst"] == ROCE_PORT
    of_tcp = prefixes.counting_rule(WatchedFlow(own, other, ALL_TCP))
    assert of_tcp is not None
    assert (of_tcp.priority, of_tcp.actions) == (COUNTING, base.actions)
    assert dict(of_tcp.match).keys() == {"eth_type", "ip_proto", "ipv4_src", "ipv4_dst"}


def test_a_change_of_base_rules_is_known_from_one_of_planned_flows() -> None:
    fabric = clos(leaves=3, spines=2, hosts_per_leaf=2)
    leaf = fabric.leaves[0]
    before, after = compile_base(fabric)[leaf.dpid], compile_base(fabric.without_links({"leaf2-spine1"}))[leaf.dpid]
    ports = frozenset(range(1, 10))
    assert changes_base(work(before, after, ports))
    planned = Rule(0, 2016, (("eth_type", 0x800),), ())
    assert not changes_base(work(before, SwitchRules({**before.rules, planned.key: planned}, before.groups), ports))


def test_rules_of_windows_are_no_rules_of_strangers() -> None:
    held = compile_base(clos(leaves=3, spines=2, hosts_per_leaf=2))[1]
    rules = PrefixRules(held).watch_rules()
    assert rules
    assert foreign_rules([CookieRule(WINDOW_COOKIE, rule) for rule in rules], held) is None
    assert foreign_rules([CookieRule(0, rule) for rule in rules], held) is not None


FLOWS = [WatchedFlow(1, 2, 100), WatchedFlow(1, 2, 101), WatchedFlow(3, 2, 100)]
EXACT = [
    Rule(0, COUNTING, (("ipv4_dst", f"0.0.0.{dst}"), ("ipv4_src", f"0.0.0.{src}"), ("udp_src", port)), ())
    for src, dst, port in FLOWS
]
BLOCK = Rule(0, 2015, (("ipv4_dst", "0.0.0.2"), ("ipv4_src", "0.0.0.1"), ("udp_src", (100, 0xFFFE))), ())


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 4096), st.booleans()), min_size=1, max_size=12
    )
)
def test_a_flow_has_sent_what_its_rule_has_counted_in_all_also_if_the_rule_is_put_anew(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    sent, packets, octets, meter = [0, 0, 0], [0, 0, 0], [0, 0, 0], FlowBytes()
    for flow, more, payload, anew in steps:
        if anew:
            # The next reading shows less than the last one, or as much.
            packets[flow] = octets[flow] = 0
            meter.add(_reading(packets, octets), FLOWS)
        packets[flow] += more
        octets[flow] += more * (HEADER_BYTES + payload)
        sent[flow] += more * payload
        found = meter.add(_reading(packets, octets), FLOWS)
        assert [found[each] for each in FLOWS] == sent


def _reading(packets: list[int], octets: list[int]) -> list[CountedRule]:
    rows = zip(EXACT, packets, octets, strict=True)
    return [each for rule, p, o in rows if (each := counted_rule(COUNTING_COOKIE, rule, p, o)) is not None]


@given(st.data())
def test_what_rules_count_is_that_of_exactly_the_known_flows_that_they_match(data: st.DataObject) -> None:
    flows = st.builds(WatchedFlow, st.integers(1, 2), st.integers(1, 2), st.integers(0, 15))
    known = data.draw(st.lists(flows, unique=True, max_size=12))
    masks = data.draw(st.lists(st.sampled_from((0xFFFF, 0xFFFE, 0xFFFC, 0)), min_size=1, max_size=8))
    counted, expected = [], dict[WatchedFlow, int]()
    for i, mask in enumerate(masks):
        src, dst, port = data.draw(flows)
        rule = Rule(0, COUNTING, match(udp_src=(port & mask, mask)), ())
        counted.append(CountedRule((i, rule), src, dst, port & mask, mask, 0, 60))
        met = [each for each in known if each[:2] == (src, dst) and each.udp_src & mask == port & mask]
        for each in met:
            expected[each] = expected.get(each, 0) + 60 // len(met)
    assert FlowBytes().add(counted, known) == expected


def test_rules_for_tcp_count_for_the_connections_of_their_hosts_and_never_for_rocev2() -> None:
    meter, known = FlowBytes(), [*FLOWS, WatchedFlow(1, 2, ALL_TCP)]
    ends = {"ipv4_src": "0.0.0.1", "ipv4_dst": "0.0.0.2"}
    every_port = Rule(0, 2016, match(udp_dst=ROCE_PORT, ip_proto=UDP, **ends), ())
    tcp = Rule(0, COUNTING, match(ip_proto=TCP, **ends), ())
    one_port = Rule(0, 2016, match(ip_proto=TCP, tcp_dst=5001, **ends), ())
    rows = ((every_port, 2, 2 * (HEADER_BYTES + 500)), (tcp, 7, 7 * TCP_HEADER_BYTES + 90), (one_port, 1, 5000))
    counted = [each for row in rows if (each := counted_rule(COUNTING_COOKIE, *row)) is not None]
    assert meter.add(counted, known) == {FLOWS[0]: 500, FLOWS[1]: 500, known[-1]: 90}


def test_a_rule_for_several_ports_counts_for_the_known_flows_that_it_covers() -> None:
    meter = FlowBytes()
    counted = counted_rule(0xFA15 << 48, BLOCK, 10, 10 * (HEADER_BYTES + 1000))
    assert counted is not None
    assert meter.add([counted], FLOWS) == {FLOWS[0]: 5000, FLOWS[1]: 5000}
    assert counted_rule(0, Rule(0, PREFIX, (("ipv4_dst", "0.0.0.2"),), ()), 1, 100) is None
