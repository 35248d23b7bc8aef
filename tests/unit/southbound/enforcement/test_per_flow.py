"""Per-flow rules, walked packet by packet: planned flows take their planned links, everybody else the base rules."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import compile_rules, encode_flows
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.rule_set import difference
from tests.unit.strategies import fabrics


def planned(fabric: Fabric, flows: list[tuple[int, int, int]], paths: list[int]) -> tuple[Traffic, FlowEncoding]:
    """Traffic of (source host, destination host, UDP source port), and a path class for each."""
    n = len(flows)
    src, dst, port = (np.array([flow[i] for flow in flows], dtype=np.int32) for i in range(3))
    zeros = np.zeros(n, dtype=np.int32)
    number = np.arange(n, dtype=np.int32)
    traffic = Traffic(src, dst, np.ones(n, dtype=np.int64), zeros, number, port, (Collective("job", "c"),))
    return traffic, encode_flows(fabric, traffic, Assignment.single(np.array(paths, dtype=np.int32)), "per_flow")


@st.composite
def plans(draw: st.DrawFn) -> tuple[Fabric, Traffic, FlowEncoding]:
    """A fabric, some flows with distinct 5-tuples, and a live path for each."""
    fabric = draw(fabrics(min_leaves=2))
    hosts = st.integers(0, fabric.n_hosts - 1)
    ports = st.sampled_from([ANY_PORT, 50000, 50001])
    drawn = draw(st.sets(st.tuples(hosts, hosts, ports).filter(lambda flow: flow[0] != flow[1]), max_size=8))
    flows, paths = sorted(drawn), []
    for src, dst, _ in flows:
        a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        live = fabric.live_paths(a, b).tolist()
        paths.append(LOCAL if a == b else draw(st.sampled_from(live)) if live else UNROUTABLE)
    return (fabric, *planned(fabric, flows, paths))


def packet(fabric: Fabric, src: int, dst: int, port: int) -> dict[str, int | str]:
    return {
        "eth_type": 0x800,
        "ip_proto": 17,
        "ipv4_src": fabric.hosts[src].ip,
        "ipv4_dst": fabric.hosts[dst].ip,
        "udp_src": port or 4242,
        "udp_dst": ROCE_PORT,
    }


@given(case=plans(), ecmp_action=st.sampled_from(["bundle", "select"]))
def test_every_planned_flow_takes_exactly_its_planned_links(
    case: tuple[Fabric, Traffic, FlowEncoding], ecmp_action: str
) -> None:
    fabric, traffic, encoding = case
    rules, network = (
        compile_rules("per_flow", fabric, traffic, encoding, ecmp_action=ecmp_action),
        RuleInterpreter(fabric),
    )
    for f, path in enumerate(encoding.path.tolist()):
        src, dst = int(traffic.src[f]), int(traffic.dst[f])
        walk = network.walk(rules, packet(fabric, src, dst, int(traffic.udp_src[f])), source=fabric.hosts[src].name)
        if path == UNROUTABLE:
            continue
        assert walk.host == fabric.hosts[dst].name
        switches = [hop.switch for hop in walk.hops]
        links = [fabric.link_ids[link] for link in fabric.flow_links(src, dst, path)]
        assert switches == [link.split(":")[0].split("->")[1] for link in links[:-1]]
        if path >= 0:
            cables = [
                fabric.cables[(link - fabric.first_cable_link) // 2] for link in fabric.flow_links(src, dst, path)[1:3]
            ]
            assert walk.hops[0].out_port == cables[0].lower_port
            assert walk.hops[1].out_port == cables[1].upper_port


@given(case=plans(), data=st.data())
def test_packets_of_no_plan_go_as_if_there_were_none(
    case: tuple[Fabric, Traffic, FlowEncoding], data: st.DataObject
) -> None:
    fabric, traffic, encoding = case
    with_plan, without = (
        compile_rules("per_flow", fabric, traffic, encoding),
        compile_base(fabric),
    )
    network = RuleInterpreter(fabric)
    src, dst = data.draw(st.permutations(range(fabric.n_hosts)))[:2]
    other = packet(fabric, src, dst, 50002) | data.draw(st.sampled_from([{"udp_dst": 53}, {"ip_proto": 6}]))
    source = fabric.hosts[src].name
    assert network.walk(with_plan, other, source=source) == network.walk(without, other, source=source)


@given(case=plans())
def test_only_ingress_leaves_hold_rules_for_flows(case: tuple[Fabric, Traffic, FlowEncoding]) -> None:
    fabric, traffic, encoding = case
    rules, base = (
        compile_rules("per_flow", fabric, traffic, encoding),
        compile_base(fabric),
    )
    for spine in fabric.spines:
        assert rules[spine.dpid] == base[spine.dpid]
    there = np.flatnonzero(encoding.path >= 0)
    at = fabric.host_leaf[traffic.src[there]]
    # Flows of two hosts that share a path may share a rule, as far as their ports are neighbours.
    ends = {(int(traffic.src[f]), int(traffic.dst[f]), int(encoding.path[f])) for f in there.tolist()}
    for a, leaf in enumerate(fabric.leaves):
        placed = np.count_nonzero(at == a)
        least = sum(fabric.host_leaf[src] == a for src, _, _ in ends)
        assert least <= len(rules[leaf.dpid]) - len(base[leaf.dpid]) <= placed


@given(case=plans())
def test_removing_the_plan_leaves_the_base_rules_only(case: tuple[Fabric, Traffic, FlowEncoding]) -> None:
    fabric, traffic, encoding = case
    rules, base = (
        compile_rules("per_flow", fabric, traffic, encoding),
        compile_base(fabric),
    )
    for leaf in fabric.leaves:
        changes = difference(rules[leaf.dpid], base[leaf.dpid])
        assert not changes.put_rules
        assert not changes.new_groups
        assert len(changes.removed_rules) == len(rules[leaf.dpid]) - len(base[leaf.dpid])


def test_a_flow_whose_uplink_dies_goes_on_over_the_others_at_once() -> None:
    fabric = clos(3, 2, 1)
    traffic, encoding = planned(fabric, [(0, 1, 50000)], [1])
    rules = compile_rules("per_flow", fabric, traffic, encoding)
    port = fabric.cables[1].lower_port
    assert port is not None
    for down, ports in (([], {port}), ([("leaf1", port)], {2, 4})):
        network = RuleInterpreter(fabric, down=down)
        walks = [network.walk(rules, packet(fabric, 0, 1, 50000), source="h1", choose=choose) for choose in (min, max)]
        assert {walk.hops[0].out_port for walk in walks} == ports
        assert {walk.host for walk in walks} == {"h2"}


def test_flows_with_the_same_uplink_share_their_fail_over_group_and_all_share_the_rest() -> None:
    fabric = clos(4, 3, 4)
    flows = [(src, dst, 50000) for src in range(4) for dst in range(4, 12)]
    traffic, encoding = planned(fabric, flows, [i % 4 for i in range(len(flows))])
    assert len(compile_rules("per_flow", fabric, traffic, encoding)[1].groups) == 4 + 1
