"""Base forwarding, walked packet by packet."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv4Address
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.forwarding.base import LISTEN_RULE, compile_base, compile_listening
from controller.southbound.rules.interpreter import Packet, RuleInterpreter
from controller.southbound.rules.rule import Rule, ToController
from fairspine.graph import graph as live_graph
from tests.unit.strategies import fabrics

ACTIONS = ("bundle", "select")


def udp(fabric: Fabric, src: int, dst: int, port: int = 50000) -> Packet:
    a, b = fabric.hosts[src], fabric.hosts[dst]
    ends: Packet = {"ipv4_src": a.ip, "ipv4_dst": b.ip, "udp_src": port, "udp_dst": ROCE_PORT}
    return {"eth_type": 0x800, "ip_proto": 17, **ends}


def arp(target: str) -> Packet:
    return {"eth_type": 0x806, "arp_op": 1, "arp_tpa": target}


def joined(fabric: Fabric, src: int, dst: int) -> bool:
    """Whether some spine has a live cable to both leaves (a spine sends on by any live cable out if it has to)."""
    a, b = (fabric.leaves[fabric.host_leaf[host]].name for host in (src, dst))
    spines = [{cable.upper for cable in fabric.cables if cable.up and cable.lower == leaf} for leaf in (a, b)]
    return a == b or not spines[0].isdisjoint(spines[1])


@given(fabric=fabrics(), ecmp_action=st.sampled_from(ACTIONS), pick=st.randoms(use_true_random=False))
def test_every_host_reaches_every_other_that_a_live_path_joins_whatever_the_hash(
    fabric: Fabric, ecmp_action: str, pick: Random
) -> None:
    rules = compile_base(fabric, ecmp_action=ecmp_action)
    network = RuleInterpreter(fabric)
    for src in range(fabric.n_hosts):
        for dst in range(fabric.n_hosts):
            if src == dst:
                continue
            for packet in (udp(fabric, src, dst), arp(fabric.hosts[dst].ip)):
                walk = network.walk(rules, packet, source=fabric.hosts[src].name, choose=pick.choice)
                if joined(fabric, src, dst):
                    assert walk.host == fabric.hosts[dst].name, walk
                else:
                    assert walk.host is None
                    assert walk.end == "dropped"


@given(fabric=fabrics(min_leaves=2, failures=False), data=st.data())
def test_an_uplink_that_dies_is_passed_over_by_the_leaf_itself(fabric: Fabric, data: st.DataObject) -> None:
    """The rules were compiled before the failure; only uplinks whose far end is the packet's own spine matter."""
    rules = compile_base(fabric)
    cable = data.draw(st.sampled_from(fabric.cables))
    assert cable.lower_port is not None
    assert cable.upper_port is not None
    network = RuleInterpreter(fabric, down=[(cable.lower, cable.lower_port), (cable.upper, cable.upper_port)])
    source = next(host for host in fabric.hosts if host.leaf == cable.lower)
    target = next(host for host in fabric.hosts if host.leaf != cable.lower)
    packet: Packet = {"eth_type": 0x800, "ipv4_src": source.ip, "ipv4_dst": target.ip}
    walk = network.walk(rules, packet, source=source.name)
    others_left = fabric.n_spines > 1 or int(fabric.parallel.max()) > 1
    assert (walk.host == target.name) == others_left


@given(fabric=fabrics(), address=st.ip_addresses(v=4))
def test_packets_for_unknown_hosts_are_dropped_and_never_delivered(fabric: Fabric, address: IPv4Address) -> None:
    if str(address) in {host.ip for host in fabric.hosts}:
        return
    rules, network = compile_base(fabric), RuleInterpreter(fabric)
    packet: Packet = {"eth_type": 0x800, "ipv4_src": fabric.hosts[0].ip, "ipv4_dst": str(address)}
    walk = network.walk(rules, packet, source=fabric.hosts[0].name)
    assert walk.host is None
    assert walk.end == "dropped"


@given(fabric=fabrics(failures=False, max_parallel=3))
def test_a_spine_maps_the_cable_in_to_the_cable_out_that_the_path_class_names(fabric: Fabric) -> None:
    rules, network = compile_base(fabric), RuleInterpreter(fabric)
    for k in range(fabric.n_paths):
        for a in range(fabric.n_leaves):
            for b in range(fabric.n_leaves):
                if a == b:
                    continue
                up, down = (
                    fabric.cables[(int(t[n, k]) - fabric.first_cable_link) // 2]
                    for t, n in ((fabric.up_link, a), (fabric.down_link, b))
                )
                target = next(host for host in fabric.hosts if host.leaf == fabric.leaves[b].name)
                packet: Packet = {"eth_type": 0x800, "ipv4_dst": target.ip}
                spine = fabric.spines[int(fabric.choices[0].place[k])]
                assert up.upper_port is not None
                out = network.forward(rules[spine.dpid], spine.name, up.upper_port, packet, min)
                assert out == down.upper_port


def test_a_leaf_never_sends_up_what_came_down() -> None:
    fabric = clos(2, 2, 1)
    rules, network = compile_base(fabric), RuleInterpreter(fabric)
    packet: Packet = {"eth_type": 0x800, "ipv4_dst": "10.0.2.1"}
    assert network.forward(rules[1], "leaf1", 2, packet, min) == "dropped"


def test_rules_grow_with_hosts_and_prefixes_only() -> None:
    fabric = clos(8, 6, 5)
    rules = compile_base(fabric)
    leaf, spine = rules[1], rules[65537]
    assert len(leaf) == 3 * 5 + 2 * 5 + 8 + 3  # hosts, other leaves, uplinks, discovery, probe answers, miss
    assert len(spine) == 2 * 6 + 2
    assert not leaf.groups


def test_select_groups_are_used_where_the_switch_has_no_bundle_action() -> None:
    rules = compile_base(clos(3, 2, 1), ecmp_action="select")
    groups = rules[1].groups
    assert [group.kind for group in groups.values()] == ["select"]
    assert [bucket.watch_port for bucket in next(iter(groups.values())).buckets] == [2, 3, 4]


def test_hosts_of_a_mixed_prefix_are_routed_one_by_one() -> None:
    fabric = clos(2, 2, 2)
    moved = dataclasses.replace(fabric.hosts[1], leaf="leaf2", port=9)
    fabric = dataclasses.replace(fabric, hosts=(fabric.hosts[0], moved, *fabric.hosts[2:]))
    network, rules = RuleInterpreter(fabric), compile_base(fabric)
    for src in fabric.hosts:
        for dst in fabric.hosts:
            if src is not dst:
                packet: Packet = {"eth_type": 0x800, "ipv4_dst": dst.ip}
                assert network.walk(rules, packet, source=src.name).host == dst.name


@pytest.mark.parametrize("port", [1, 3])
def test_while_hosts_are_unknown_arp_for_unknown_targets_reaches_the_controller(port: int) -> None:
    fabric = clos(2, 2, 1)
    rules, network = compile_base(fabric, learn=True), RuleInterpreter(fabric)
    assert network.forward(rules[1], "leaf1", port, arp("10.9.9.9"), min) == "sent to the controller"
    assert network.forward(compile_listening([1])[1], "leaf1", port, arp("10.9.9.9"), min) == "sent to the controller"


def test_with_every_host_known_nothing_but_discovery_and_probe_answers_reaches_the_controller() -> None:
    for held in compile_base(clos(2, 2, 2)).switches.values():
        for rule in held.rules.values():
            if any(isinstance(action, ToController) for action in rule.actions):
                assert rule == LISTEN_RULE or dict(rule.match)["arp_tpa"] == "0.0.0.0"


def test_base_rules_reach_exactly_what_the_graph_joins_without_a_detour_over_a_third_leaf() -> None:
    fabric = clos(3, 3, 2).without_links(["leaf1-spine1", "leaf1-spine2", "leaf2-spine3"])
    rules, network = compile_base(fabric), RuleInterpreter(fabric)
    graph = live_graph(fabric)
    for src in fabric.hosts:
        near = nx.single_source_shortest_path_length(graph, src.name, cutoff=4)
        for dst in fabric.hosts:
            if src is not dst:
                walk = network.walk(rules, {"eth_type": 0x800, "ipv4_dst": dst.ip}, source=src.name)
                assert (walk.host == dst.name) == (dst.name in near)


def test_the_last_rule_drops_and_counts() -> None:
    for held in compile_base(clos(1, 1, 1)).switches.values():
        assert Rule(0, 0, ()) in held.rules.values()


def test_rules_that_are_compiled_again_are_the_same_objects_until_the_network_is_another() -> None:
    fabric = clos(2, 3, 2)
    first = compile_base(fabric)
    again = compile_base(dataclasses.replace(fabric))
    for dpid in first:
        assert all(again[dpid].rules[key] is rule for key, rule in first[dpid].rules.items())
    drained = fabric.without_links(["leaf1-spine1"])
    for other in (compile_base(fabric, usable=drained), compile_base(drained), compile_base(fabric, learn=True)):
        assert other != first
    assert compile_base(fabric) == first
