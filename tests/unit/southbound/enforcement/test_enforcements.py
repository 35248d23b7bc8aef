"""All enforcements, walked packet by packet: planned flows take their planned links, all others reach their host."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.traffic import ANY_PORT, FIRST_PORT, Traffic
from controller.southbound.enforcement.ingress import port_mask, with_exact_ports
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.enforcement.segment_routing import LABELS
from controller.southbound.enforcement.source_port import number_bits
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.rules.interpreter import Choose, RuleInterpreter, Walk
from controller.southbound.rules.priorities import CLASS_EXCEPTION
from controller.southbound.rules.rule import ETH_MPLS, Rule
from controller.southbound.rules.rule_set import RuleSet, SwitchRules, difference
from tests.unit.southbound.plans import KEEPING, Case, assignments, cases, packets, patient, roce, traffic_of, traffics

each_enforcement = pytest.mark.parametrize("enforcement", rule_enforcements())
choices: st.SearchStrategy[Choose] = st.sampled_from([min, max])


def links_of(fabric: Fabric, walk: Walk) -> tuple[int, ...]:
    """Return the cables that a packet took, as link indices."""
    cables = {}
    for c, cable in enumerate(fabric.cables):
        up = fabric.first_cable_link + 2 * c
        cables[cable.lower, cable.lower_port], cables[cable.upper, cable.upper_port] = up, up + 1
    return tuple(cables[hop.switch, hop.out_port] for hop in walk.hops[:-1])


def without_flows(case: Case) -> Case:
    traffic = Traffic.empty()
    return dataclasses.replace(case, traffic=traffic, assignment=Assignment.single(traffic.src))


def fewest_blocks(path_of: Mapping[int, int], first: int, size: int) -> int:
    """How many aligned blocks, in each of which all ports have one path, cover the ports of a range; port 0: any."""
    inside = [port for port in path_of if first <= port < first + size]
    if not inside:
        return 0
    if len(inside) == size and len({path_of[port] for port in inside}) == 1 and ANY_PORT not in inside:
        return 1
    if size == 1:
        return 1
    return sum(fewest_blocks(path_of, begin, size // 2) for begin in (first, first + size // 2))


@patient
@given(data=st.data())
def test_exact_ports_forward_every_packet_as_masked_ones_do(data: st.DataObject) -> None:
    case, choose = data.draw(cases(data.draw(st.sampled_from(rule_enforcements())))), data.draw(choices)
    exact = RuleSet({dpid: with_exact_ports(case.rules[dpid]) for dpid in case.rules})
    assert not any(port_mask(rule) for dpid in exact for rule in exact[dpid].rules.values())
    src, _, packet = data.draw(packets(case))
    network, source = RuleInterpreter(case.fabric), case.fabric.hosts[src].name
    one, other = (network.walk(rules, packet, source=source, choose=choose) for rules in (case.rules, exact))
    assert one == other


@each_enforcement
@patient
@given(data=st.data())
def test_every_planned_flow_and_piece_takes_exactly_its_planned_links(enforcement: str, data: st.DataObject) -> None:
    case, choose = data.draw(cases(enforcement)), data.draw(choices)
    network = RuleInterpreter(case.fabric)
    for flow, path, port in zip(
        *(column.tolist() for column in (case.encoding.flow, case.encoding.path, case.encoding.udp_src)), strict=True
    ):
        src, dst = int(case.traffic.src[flow]), int(case.traffic.dst[flow])
        if path < 0:
            continue
        packet = roce(case.fabric, src, dst, port)
        walk = network.walk(case.rules, packet, source=case.fabric.hosts[src].name, choose=choose)
        assert walk.host == case.fabric.hosts[dst].name
        assert links_of(case.fabric, walk) == case.fabric.flow_links(src, dst, path)[1:3]


@each_enforcement
@patient
@given(data=st.data())
def test_every_packet_reaches_the_host_it_is_for_and_no_other(enforcement: str, data: st.DataObject) -> None:
    case, choose = data.draw(cases(enforcement)), data.draw(choices)
    src, dst, packet = data.draw(packets(case))
    a, b = int(case.fabric.host_leaf[src]), int(case.fabric.host_leaf[dst])
    walk = RuleInterpreter(case.fabric).walk(case.rules, packet, source=case.fabric.hosts[src].name, choose=choose)
    if a == b or NextHops(case.fabric).ports(a, b):
        assert walk.host == case.fabric.hosts[dst].name
    else:
        assert (walk.host, walk.end) == (None, "dropped")


@each_enforcement
@patient
@given(data=st.data())
def test_when_an_uplink_dies_its_leaf_still_reaches_whatever_another_uplink_leads_to(
    enforcement: str, data: st.DataObject
) -> None:
    case, choose = data.draw(cases(enforcement)), data.draw(choices)
    src, dst, packet = data.draw(packets(case))
    a, b = int(case.fabric.host_leaf[src]), int(case.fabric.host_leaf[dst])
    cable = data.draw(st.sampled_from(case.fabric.cables))
    ends = ((cable.lower, cable.lower_port), (cable.upper, cable.upper_port))
    dead = {(switch, port) for switch, port in ends if port is not None}
    walk = RuleInterpreter(case.fabric, down=dead).walk(
        case.rules, packet, source=case.fabric.hosts[src].name, choose=choose
    )
    others = set(NextHops(case.usable).ports(a, b)) - {
        cable.lower_port if cable.lower == case.fabric.leaves[a].name else None
    }
    if a == b or (others and cable.lower != case.fabric.leaves[b].name):
        assert walk.host == case.fabric.hosts[dst].name
    else:
        assert walk.host in (None, case.fabric.hosts[dst].name)
        assert walk.end != "loop"


@pytest.mark.parametrize("enforcement", [name for name in BUILT_IN_ENFORCEMENTS if name in KEEPING])
@patient
@given(data=st.data())
def test_ports_of_one_path_cost_as_few_rules_at_their_ingress_leaf_as_masks_allow_and_none_elsewhere(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    without, encoding = without_flows(case), case.encoding
    paths: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in np.flatnonzero(encoding.path >= 0).tolist():
        flow = encoding.flow[row]
        ends = int(case.traffic.src[flow]), int(case.traffic.dst[flow])
        paths[ends][int(encoding.udp_src[row])] = int(encoding.path[row])
    for a, leaf in enumerate(case.fabric.leaves):
        own = [path_of for (src, _), path_of in paths.items() if case.fabric.host_leaf[src] == a]
        expected = sum(fewest_blocks(path_of, 0, MAX_PORT + 1) for path_of in own)
        assert len(case.rules[leaf.dpid]) == len(without.rules[leaf.dpid]) + expected
    for spine in case.fabric.spines:
        assert case.rules[spine.dpid] == without.rules[spine.dpid]


@patient
@given(data=st.data())
def test_in_source_port_no_rule_depends_on_flows(data: st.DataObject) -> None:
    case = data.draw(cases("source_port"))
    assert case.rules == without_flows(case).rules


@patient
@given(data=st.data())
def test_in_source_port_what_names_no_class_goes_as_if_there_were_no_plan(data: st.DataObject) -> None:
    case, choose = data.draw(cases("source_port")), data.draw(choices)
    src, _, packet = data.draw(packets(case))
    port = int(packet.get("udp_src", 0))
    if (
        packet.get("udp_dst") == ROCE_PORT
        and packet["ip_proto"] == 17
        and port >= FIRST_PORT
        and port - FIRST_PORT >> number_bits(case.fabric) < case.fabric.n_paths
    ):
        packet = {**packet, "udp_src": port - FIRST_PORT}
    network, source = RuleInterpreter(case.fabric), case.fabric.hosts[src].name
    base = compile_base(case.fabric, usable=case.usable, ecmp_action=case.ecmp_action)
    walks = [network.walk(rules, packet, source=source, choose=choose) for rules in (case.rules, base)]
    assert walks[0] == walks[1]


@each_enforcement
def test_a_leaf_falls_back_on_uplinks_that_lead_to_the_leaf_in_question(enforcement: str) -> None:
    """Spine 1 does not reach leaf 2, spine 2 not leaf 3: what falls back is told from each other by its leaf."""
    fabric = clos(3, 3, 1).without_links(["leaf2-spine1", "leaf3-spine2"])
    flows = [(0, b, FIRST_PORT + k) for b in (1, 2) for k in fabric.live_paths(0, b).tolist()]
    paths = [port - FIRST_PORT for _, _, port in flows]
    case = Case(fabric, fabric, traffic_of(flows), Assignment.single(np.array(paths)), enforcement)
    for cable in fabric.cables[:3]:
        assert cable.lower_port is not None
        network = RuleInterpreter(fabric, down=[("leaf1", cable.lower_port)])
        for (_, b, _), port in zip(flows, case.encoding.udp_src.tolist(), strict=True):
            for choose in (min, max):
                walk = network.walk(case.rules, roce(fabric, 0, b, port), source="h1", choose=choose)
                assert walk.host == fabric.hosts[b].name


@patient
@given(data=st.data())
def test_in_source_port_exceptions_are_at_most_three_for_each_uplink_and_leaf_that_are_parted(
    data: st.DataObject,
) -> None:
    case = data.draw(cases("source_port"))
    fabric, hops = case.fabric, NextHops(case.usable)
    for a, leaf in enumerate(fabric.leaves):
        reached = [ports for b in range(fabric.n_leaves) if b != a and (ports := hops.ports(a, b))]
        parted = sum(port not in ports for port in {port for ports in reached for port in ports} for ports in reached)
        rules = [rule for rule in case.rules[leaf.dpid].rules.values() if rule.priority == CLASS_EXCEPTION]
        assert len(rules) <= 3 * parted


@patient
@given(case=cases("segment_routing"))
def test_egress_leaves_hold_no_label_rules_and_labels_of_switches_differ(case: Case) -> None:
    seen = set()
    for spine in case.fabric.spines:
        rules = case.rules[spine.dpid].rules.values()
        own = {dict(rule.match).get("mpls_label") for rule in rules if rule.table == 0} - {None}
        leaves = {dict(rule.match)["mpls_label"] for rule in rules if rule.table == LABELS}
        assert len(own) == 1
        assert own.isdisjoint(seen | leaves)
        seen |= own
    for leaf in case.fabric.leaves:
        assert all(
            rule.table == 0 and ("eth_type", ETH_MPLS) not in rule.match
            for rule in case.rules[leaf.dpid].rules.values()
        )


def prepares(rule: Rule) -> bool:
    """Whether a rule may be put before any other: it matches what nobody sends yet."""
    return ("eth_type", ETH_MPLS) in rule.match


@patient
@given(data=st.data())
def test_a_packet_arrives_at_every_moment_of_a_change_of_plan_and_enforcement(data: st.DataObject) -> None:
    """Label rules first, then whatever else is put, then removals: each stage after the one before is everywhere."""
    old = data.draw(cases(data.draw(st.sampled_from(rule_enforcements()))))
    enforcement = data.draw(st.sampled_from(rule_enforcements()))
    traffic = data.draw(traffics(old.fabric, enforcement))
    assignment = data.draw(assignments(old.usable, traffic))
    new = dataclasses.replace(old, enforcement=enforcement, traffic=traffic, assignment=assignment)
    stage, done = data.draw(st.integers(0, 2)), data.draw(st.randoms(use_true_random=False))
    switches = {}
    for dpid in old.rules:
        have, changes = old.rules[dpid], difference(old.rules[dpid], new.rules[dpid])
        steps = [
            [rule for rule in changes.put_rules if prepares(rule)],
            [rule for rule in changes.put_rules if not prepares(rule)],
            list(changes.removed_rules),
        ]
        rules = dict(have.rules)
        for number, step in enumerate(steps[: stage + 1]):
            for rule in step if number < stage else done.sample(step, done.randint(0, len(step))):
                if number < 2:
                    rules[rule.key] = rule
                else:
                    del rules[rule.key]
        switches[dpid] = SwitchRules(rules, {**have.groups, **new.rules[dpid].groups})
    src, dst, packet = data.draw(packets(data.draw(st.sampled_from([old, new]))))
    a, b = int(old.fabric.host_leaf[src]), int(old.fabric.host_leaf[dst])
    walk = RuleInterpreter(old.fabric).walk(RuleSet(switches), packet, source=old.fabric.hosts[src].name)
    if a == b or NextHops(old.fabric).ports(a, b):
        assert walk.host == old.fabric.hosts[dst].name
    else:
        assert (walk.host, walk.end) == (None, "dropped")


def nth(pick: int, ports: Iterable[int]) -> int:
    return sorted(ports)[pick]


def test_the_other_uplinks_share_what_a_dead_one_carried() -> None:
    fabric = clos(4, 2, 1)
    traffic = traffic_of([(0, 1, 50000)])
    for enforcement in rule_enforcements():
        case = Case(fabric, fabric, traffic, Assignment.single(np.array([1])), enforcement)
        packet = roce(fabric, 0, 1, int(case.encoding.udp_src[0]))
        port = fabric.cables[1].lower_port
        assert port is not None
        taken = set()
        for pick in range(3):
            network = RuleInterpreter(fabric, down=[("leaf1", port)])
            walk = network.walk(case.rules, packet, source="h1", choose=partial(nth, pick))
            assert walk.host == "h2"
            taken.add(walk.hops[0].out_port)
        assert taken == {2, 4, 5}
