"""Base forwarding in three layers, walked packet by packet."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric
from controller.model.files.pod_clos import pod_clos
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.destinations import check_rules_exist
from controller.southbound.rules.interpreter import Packet, RuleInterpreter
from controller.southbound.rules.rule import ToController
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.southbound.forwarding.pods import (
    ACTIONS,
    K4,
    cable_ports,
    goes_up_then_down,
    irregular,
    joined,
    up_to_three,
)
from tests.unit.southbound.plans import patient


def packet_to(fabric: Fabric, dst: int, *, arp: bool) -> Packet:
    ip = fabric.hosts[dst].ip
    return {"eth_type": 0x806, "arp_op": 1, "arp_tpa": ip} if arp else {"eth_type": 0x800, "ipv4_dst": ip}


def pairs(fabric: Fabric) -> Sequence[tuple[int, int]]:
    return [(a, b) for a in range(fabric.n_hosts) for b in range(fabric.n_hosts) if a != b]


def check_delivery(fabric: Fabric, rules: RuleSet, dst: int, src: int, *, arp: bool) -> None:
    """Check every outcome of the hashes: a packet arrives if the graph joins the two leaves, else it is dropped."""
    network, target = RuleInterpreter(fabric), fabric.hosts[dst]
    reachable = joined(fabric, fabric.hosts[src].leaf, target.leaf)
    for walk in network.every_walk(rules, packet_to(fabric, dst, arp=arp), source=fabric.hosts[src].name):
        assert goes_up_then_down(fabric, walk)
        assert (walk.host, walk.end) == ((target.name, "delivered") if reachable else (None, "dropped"))


@patient
@given(failed=up_to_three(), ecmp_action=ACTIONS, arp=st.booleans(), pick=st.randoms(use_true_random=False))
def test_after_three_failures_every_pair_that_live_cables_join_is_delivered_whatever_the_hashes(
    failed: list[str], ecmp_action: str, arp: bool, pick: random.Random
) -> None:
    fabric = K4.without_links(failed)
    rules = compile_base(fabric, ecmp_action=ecmp_action)
    for src, dst in pick.sample(pairs(fabric), 24):
        check_delivery(fabric, rules, dst, src, arp=arp)


@patient
@given(fabric=irregular(), ecmp_action=ACTIONS, arp=st.booleans(), pick=st.randoms(use_true_random=False))
def test_in_irregular_fabrics_every_pair_that_live_cables_join_is_delivered(
    fabric: Fabric, ecmp_action: str, arp: bool, pick: random.Random
) -> None:
    rules = compile_base(fabric, ecmp_action=ecmp_action)
    for src, dst in pick.sample(pairs(fabric), min(12, len(pairs(fabric)))):
        check_delivery(fabric, rules, dst, src, arp=arp)


@patient
@given(states=st.lists(up_to_three(), min_size=1, max_size=3), now=up_to_three(), pick=st.randoms())
def test_switches_with_rules_of_any_earlier_failures_never_send_up_what_came_down(
    states: list[list[str]], now: list[str], pick: random.Random
) -> None:
    compiled = [compile_base(K4.without_links(failed)) for failed in states]
    mixed = RuleSet({switch.dpid: pick.choice(compiled)[switch.dpid] for switch in K4.switches})
    fabric = K4.without_links(now)
    network = RuleInterpreter(fabric)
    for src, dst in pick.sample(pairs(fabric), 40):
        walk = network.walk(mixed, packet_to(fabric, dst, arp=False), source=fabric.hosts[src].name, choose=pick.choice)
        assert goes_up_then_down(fabric, walk)
        assert walk.host in (None, fabric.hosts[dst].name)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_dead_uplink_is_passed_over_by_the_switch_below_it_itself(layer: int) -> None:
    rules = compile_base(K4)
    for cable, tier in zip(K4.cables, K4.cable_tier.tolist(), strict=True):
        if tier != layer:
            continue
        network = RuleInterpreter(K4, down=cable_ports(cable))
        below = {cable.lower, *(c.lower for c in K4.cables if layer == 1 and c.upper == cable.lower)}
        own_pod = {int(K4.pod_of_leaf[K4.leaf_index[name]]) for name in below if name in K4.leaf_index}
        for src, dst in pairs(K4):
            if K4.hosts[src].leaf in below and int(K4.pod_of_leaf[K4.host_leaf[dst]]) not in own_pod:
                for walk in network.every_walk(rules, packet_to(K4, dst, arp=False), source=K4.hosts[src].name):
                    assert walk.host == K4.hosts[dst].name


@patient
@given(failed=up_to_three(), drained=up_to_three(), pick=st.randoms(use_true_random=False))
def test_packets_of_switches_that_do_not_know_of_a_drain_yet_still_arrive(
    failed: list[str], drained: list[str], pick: random.Random
) -> None:
    fabric = K4.without_links(failed)
    usable = fabric.without_links(name for name in drained if name not in fabric.leaf_index)
    before, after = compile_base(fabric), compile_base(fabric, usable=usable)
    mixed = RuleSet({switch.dpid: pick.choice([before, after])[switch.dpid] for switch in fabric.switches})
    network = RuleInterpreter(fabric)
    for src, dst in pick.sample(pairs(fabric), 40):
        walk = network.walk(mixed, packet_to(fabric, dst, arp=False), source=fabric.hosts[src].name, choose=pick.choice)
        assert goes_up_then_down(fabric, walk)
        if joined(usable, fabric.hosts[src].leaf, fabric.hosts[dst].leaf):
            assert walk.host == fabric.hosts[dst].name


@given(address=st.ip_addresses(v=4), source=st.sampled_from(K4.host_names), pick=st.randoms())
def test_packets_for_unknown_hosts_are_dropped(address: object, source: str, pick: random.Random) -> None:
    if str(address) not in {host.ip for host in K4.hosts}:
        packet: Packet = {"eth_type": 0x800, "ipv4_dst": str(address)}
        walk = RuleInterpreter(K4).walk(compile_base(K4), packet, source=source, choose=pick.choice)
        assert (walk.host, walk.end) == (None, "dropped")


@pytest.mark.parametrize("sizes", [(4, 2, 2, 2, 2), (3, 4, 2, 3, 5), (8, 4, 4, 4, 4)])
def test_rules_grow_with_hosts_leaves_of_a_pod_and_pods_only(sizes: tuple[int, int, int, int, int]) -> None:
    pods, leaves, aggs, cores, hosts = sizes
    fabric = pod_clos(pods, leaves, aggs, cores, hosts)
    rules = compile_base(fabric)
    assert {len(rules[leaf.dpid]) for leaf in fabric.leaves} == {3 * hosts + 2 * (leaves - 1 + pods - 1) + aggs + 3}
    assert {len(rules[agg.dpid]) for agg in fabric.layers[1]} == {2 * (leaves + pods - 1) + cores + 2}
    assert {len(rules[core.dpid]) for core in fabric.spines} == {2 * pods + 2}


def test_a_leaf_that_an_uplink_misses_is_an_exception_where_the_uplinks_differ_and_nowhere_else() -> None:
    rules, whole = compile_base(K4.without_links(["leaf8-agg7"])), compile_base(K4)
    more = {switch.name: len(rules[switch.dpid]) - len(whole[switch.dpid]) for switch in K4.switches}
    # Agg 7 is in plane 1, whose other aggregation switches drop what is for leaf 8; agg 8 has the plane 2.
    plane = {"agg1", "agg3", "agg5"}
    others = {name for name in K4.leaf_index if name not in ("leaf7", "leaf8")}
    assert {name for name, count in more.items() if count == 2} == plane | others
    assert {name: count for name, count in more.items() if count not in (0, 2)} == {"agg7": -2}


def test_only_leaves_send_arp_and_probe_answers_to_the_controller() -> None:
    for learn in (False, True):
        rules = compile_base(K4, learn=learn)
        for layer, members in enumerate(K4.layers):
            for switch in members:
                asks = [
                    rule
                    for rule in rules[switch.dpid].rules.values()
                    if any(isinstance(action, ToController) for action in rule.actions)
                ]
                assert len(asks) == (1 if layer else 2 + learn * (1 + 2))


def test_fabrics_whose_switches_cannot_know_a_packets_path_are_refused() -> None:
    check_rules_exist(K4)
    check_rules_exist(pod_clos(3, 2, 2, 2, 1, core_parallel=3))
    check_rules_exist(pod_clos(3, 2, 2, 2, 1, parallel=2))
    mesh = [Cable(agg.name, core.name, 100.0) for agg in K4.layers[1] for core in K4.spines]
    fabric = dataclasses.replace(K4, cables=(*K4.cables[:16], *mesh))
    with pytest.raises(InputError, match=r"core1.*several aggregation switches of one pod"):
        check_rules_exist(fabric)
