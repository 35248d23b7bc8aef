"""The rules of segments on OpenFlow switches, walked packet by packet: they do what the tables of routers do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.host_plan import read_plan
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.enforcement.flow_packets import carrier_packet
from controller.southbound.enforcement.registry import compile_host_plans, compile_rules, encode_flows
from controller.southbound.enforcement.segment_rules import SEGMENT_TABLE
from controller.southbound.enforcement.srv6 import NAME
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.interpreter import MAX_HOPS, RuleInterpreter, Walk
from controller.southbound.rules.rule import Output, SetEthDst
from controller.southbound.rules.rule_set import RuleSet
from controller.southbound.srv6.carriers import path_ids, probe_ids
from controller.southbound.srv6.router_tables import RouterTable, router_tables
from controller.southbound.srv6.segment_ids import SegmentIds
from controller.southbound.srv6.walk import RouterWalk, walk
from controller.telemetry.trace import cable_ports
from tests.unit.southbound.plans import assignments, patchy_fabrics, patient, traffic_of, traffics
from tests.unit.strategies import plane_fabrics, pod_fabrics, with_routers

FABRIC = clos(2, 2, 2)
openflow_fabrics = st.one_of(
    patchy_fabrics().filter(lambda fabric: fabric.cables), pod_fabrics(), plane_fabrics()
).filter(lambda fabric: not fabric.planes.bonds)


def rules_of(fabric: Fabric, ecmp_action: str = "bundle") -> RuleSet:
    traffic = traffic_of([])
    encoding = encode_flows(fabric, traffic, Assignment.single(np.zeros(0, dtype=np.int32)), NAME)
    return compile_rules(NAME, fabric, traffic, encoding, ecmp_action=ecmp_action)


def router_walks(
    ids: SegmentIds, fabric: Fabric, tables: dict[str, RouterTable], src: int, carrier: IPv6Address
) -> Iterator[RouterWalk]:
    """One walk for each outcome of the hashes of routers."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        script, asked = pending.pop(), list[Sequence[int]]()

        def pick(links: Sequence[int], script: tuple[int, ...] = script, asked: list[Sequence[int]] = asked) -> int:
            asked.append(links)
            return script[len(asked) - 1] if len(asked) <= len(script) else links[0]

        yield walk(ids, fabric, tables, src, carrier, pick)
        taken = [*script, *(links[0] for links in asked[len(script) :])]
        for depth in range(len(asked) - 1, len(script) - 1, -1):
            pending += [(*taken[:depth], link) for link in asked[depth][1:]]


def links_of(fabric: Fabric, src: int, walked: Walk) -> tuple[int, ...]:
    ports, hops = cable_ports(fabric), walked.hops
    # A rule may send out of a port that is down, where a router has no route.
    hops = hops[:-1] if walked.end == "sent out of a port that is down" else hops
    return (src, *(ports[hop.switch, hop.out_port] for hop in hops))


def rule_walks(fabric: Fabric, rules: RuleSet, src: int, carrier: IPv6Address) -> set[tuple[tuple[int, ...], str]]:
    """The links of each outcome, and the host that is reached or nothing."""
    walks = RuleInterpreter(fabric).every_walk(rules, carrier_packet(str(carrier)), source=fabric.hosts[src].name)
    return {(links_of(fabric, src, each), each.host or "") for each in walks}


@patient
@given(data=st.data(), ecmp_action=st.sampled_from(["bundle", "select"]))
def test_packets_go_where_routers_would_send_them_whatever_is_down(data: st.DataObject, ecmp_action: str) -> None:
    fabric = data.draw(openflow_fabrics)
    ids, tables, rules = SegmentIds.of(fabric), router_tables(SegmentIds.of(fabric)), rules_of(fabric, ecmp_action)
    names = fabric.cable_names
    now = fabric.without_links(data.draw(st.sets(st.sampled_from(names), max_size=3)))
    up = now.link_up
    for _ in range(4):
        src, dst = (data.draw(st.integers(0, fabric.n_hosts - 1)) for _ in range(2))
        paths = fabric.healthy().live_paths(*map(int, fabric.host_leaf[[src, dst]])).tolist()
        path = data.draw(st.sampled_from([-1, *paths]))
        number = path_ids(ids, src, dst, path)
        probe = probe_ids(ids, src, dst, path) if path >= 0 and data.draw(st.booleans()) else None
        carrier = ids.address(probe or number)
        if not up[[src, fabric.n_hosts + src, fabric.n_hosts + dst]].all() or (src == dst and probe is None):
            continue
        routed = {
            (each.links, "" if each.host is None else fabric.hosts[each.host].name)
            for each in router_walks(ids, now, tables, src, carrier)
        }
        assert rule_walks(now, rules, src, carrier) == routed


@patient
@given(data=st.data())
def test_in_any_mix_of_two_plans_packets_reach_their_host_by_the_planned_path_and_never_loop(
    data: st.DataObject,
) -> None:
    fabric = data.draw(openflow_fabrics)
    rules = rules_of(fabric)
    names = fabric.cable_names
    now = fabric.without_links(data.draw(st.sets(st.sampled_from(names), max_size=3)))
    for _ in range(2):
        traffic = data.draw(traffics(fabric, NAME))
        assignment = data.draw(assignments(fabric, traffic))
        encoding = encode_flows(fabric, traffic, assignment, NAME)
        inputs = RuleInputs(fabric, traffic, encoding, fabric)
        # The rules of both plans are the same, so hosts may send by either.
        assert compile_rules(NAME, fabric, traffic, encoding) == rules
        plans = compile_host_plans(NAME, inputs)
        for src, sender in enumerate(fabric.hosts):
            document = {"epoch": 1, "host": sender.name, "mode": "planned", **plans.content(src)}
            assert read_plan(document).host == sender.name
            for row in [*document["flows"], *document["destinations"]]:
                dst = next(n for n, host in enumerate(fabric.hosts) if host.ip == row["dst"])
                ends_up = fabric.link_up[[src, fabric.n_hosts + dst]].all()
                for carrier in (row["carrier"], *row.get("backups", ())):
                    walks = rule_walks(now, rules, src, IPv6Address(carrier))
                    assert {host for _, host in walks} <= {"", fabric.hosts[dst].name}
                    assert all(len(links) < MAX_HOPS for links, _ in walks)
                if "src_port" in row and ends_up:
                    ((links, host),) = rule_walks(fabric, rules, src, IPv6Address(row["carrier"]))
                    assert host == fabric.hosts[dst].name
                    paths = {
                        fabric.flow_links(src, dst, path)
                        for flow, path in zip(assignment.flow.tolist(), assignment.path.tolist(), strict=True)
                        if (int(traffic.src[flow]), int(traffic.dst[flow])) == (src, dst) and path > -2
                    }
                    assert links in paths


def test_a_host_gets_packets_with_its_own_mac_address_and_all_else_is_as_without_segments() -> None:
    rules, base = rules_of(FABRIC), compile_base(FABRIC)
    delivered = {
        action.mac: next(each.port for each in rule.actions if isinstance(each, Output))
        for rule in rules[FABRIC.leaves[0].dpid].rules.values()
        for action in rule.actions
        if isinstance(action, SetEthDst)
    }
    assert delivered == {host.mac: host.port for host in FABRIC.hosts if host.leaf == "leaf1"}
    for dpid in rules:
        added = rules[dpid].rules.keys() - base[dpid].rules.keys()
        assert not base[dpid].rules.keys() - rules[dpid].rules.keys()
        # One rule leads there, and no other one of the base rules is changed.
        assert sum(rules[dpid].rules[key].table != SEGMENT_TABLE for key in added) == 1


def test_only_hosts_to_which_planned_flows_lead_have_carriers() -> None:
    traffic = traffic_of([(0, 2, 50000)])
    assignment = Assignment.single(np.zeros(1, dtype=np.int32))
    for fabric, n in ((FABRIC, 1), (with_routers(FABRIC), FABRIC.n_hosts - 1)):
        encoding = encode_flows(fabric, traffic, assignment, NAME)
        plans = compile_host_plans(NAME, RuleInputs(fabric, traffic, encoding, fabric))
        for by_table in (False, True) if fabric is FABRIC else (False,):
            content = plans.content(0, by_table=by_table)
            assert len(content["destinations"]) == n
            known = plans.content(0, content["destinations_digest"], by_table=by_table)
            assert known["destinations"] is None
        if fabric is FABRIC:
            assert not plans.content(1)["destinations"]


@pytest.mark.parametrize("locators", [True, False])
def test_locators_of_the_file_are_the_ids(locators: bool) -> None:
    fabric = FABRIC
    if locators:
        layers = tuple(
            tuple(
                dataclasses.replace(switch, locator=f"fcbb:aa00:{16 * (layer + 1) + n:x}::/48")
                for n, switch in enumerate(switches)
            )
            for layer, switches in enumerate(fabric.layers)
        )
        fabric = Fabric(layers, fabric.hosts, fabric.cables)
    ids = SegmentIds.of(fabric)
    carrier = ids.address(path_ids(ids, 0, 2, 1))
    assert str(carrier).startswith("fcbb:aa00:" if locators else "fcbb:bb00:")
    assert rule_walks(fabric, rules_of(fabric), 0, carrier) == {(fabric.flow_links(0, 2, 1), "h3")}
