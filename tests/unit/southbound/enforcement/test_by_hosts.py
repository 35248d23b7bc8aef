"""Enforcements by carriers, which hosts write, walked packet by packet through the tables of routers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.host_plan import read_plan
from agent.plans.host_table import read_table
from controller.config import Settings
from controller.model.assignment import LOCAL, Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.paces import Paces, PacketSize
from controller.model.priority import CLASSES, DSCP, JobClass
from controller.model.traffic import ANY_PORT, Traffic
from controller.planning.drain import drain, without_drained
from controller.routing import assign
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostPlans
from controller.southbound.enforcement.registry import (
    ENFORCEMENTS,
    compile_host_plans,
    compile_rules,
    encode_flows,
    rule_enforcements,
)
from controller.southbound.srv6.router_tables import router_tables
from controller.southbound.srv6.segment_ids import IdRange, SegmentIds
from controller.southbound.srv6.walk import MOST_HOPS, RouterWalk, walk
from tests.unit.southbound.enforcement.host_tasks import plans_without_rules
from tests.unit.southbound.plans import assignments, patchy_fabrics, patient, traffic_of, traffics
from tests.unit.strategies import plane_fabrics, pod_fabrics, with_ipv6, with_routers

BY_HOSTS = [name for name, each in ENFORCEMENTS.items() if each.by_hosts and not each.learns_ports]
ROUTERS = with_routers(clos(2, 2, 2))
each_enforcement = pytest.mark.parametrize("enforcement", BY_HOSTS)
router_fabrics = (
    st.one_of(patchy_fabrics().filter(lambda fabric: fabric.cables), pod_fabrics(), plane_fabrics())
    .filter(lambda fabric: not fabric.planes.bonds)
    .map(with_routers)
    .flatmap(lambda fabric: st.sampled_from((fabric, with_ipv6(fabric))))
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A plan on a fabric; ``usable`` is the fabric without what is drained."""

    fabric: Fabric
    usable: Fabric
    traffic: Traffic
    assignment: Assignment
    plans: HostPlans

    def plan(self, host: int) -> dict[str, Any]:
        """The document of a host; its agent can read it."""
        document = {"epoch": 1, "host": self.fabric.hosts[host].name, "mode": "planned", **self.plans.content(host)}
        assert read_plan(document).host == document["host"]
        return document


def case_of(
    fabric: Fabric, enforcement: str, traffic: Traffic, assignment: Assignment, usable: Fabric | None = None
) -> Case:
    usable = usable or fabric
    encoding = encode_flows(fabric, traffic, assignment, enforcement)
    inputs = RuleInputs(fabric, traffic, encoding, usable)
    return Case(fabric, usable, traffic, assignment, compile_host_plans(enforcement, inputs))


@st.composite
def cases(draw: st.DrawFn, enforcement: str, fabric: Fabric | None = None) -> Case:
    there = fabric or draw(router_fabrics)
    names = st.sampled_from([*there.cable_names, *there.spine_index])
    usable = without_drained(there, drain(there, draw(st.sets(names, max_size=2))))
    traffic = draw(traffics(there, enforcement))
    return case_of(there, enforcement, traffic, draw(assignments(usable, traffic)), usable)


def walked(case: Case, src: int, carrier: str, now: Fabric | None = None) -> RouterWalk:
    ids = SegmentIds.of(case.fabric)
    return walk(ids, now or case.fabric, router_tables(ids), src, IPv6Address(carrier))


def flow_rows(case: Case, plan: Mapping[str, Any], dst: int) -> list[dict[str, Any]]:
    return [row for row in plan["flows"] if row["dst"] == case.fabric.hosts[dst].ip]


def default_carrier(case: Case, plan: Mapping[str, Any], dst: int) -> str:
    (carrier,) = (row["carrier"] for row in plan["destinations"] if row["dst"] == case.fabric.hosts[dst].ip)
    return str(carrier)


@each_enforcement
@patient
@given(data=st.data())
def test_every_planned_flow_and_piece_has_a_carrier_over_exactly_its_planned_links(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    for flow, path in zip(case.assignment.flow.tolist(), case.assignment.path.tolist(), strict=True):
        src, dst = int(case.traffic.src[flow]), int(case.traffic.dst[flow])
        if path < LOCAL:
            continue
        plan = case.plan(src)
        carriers = [row["carrier"] for row in flow_rows(case, plan, dst)]
        if case.traffic.udp_src[flow] == ANY_PORT:
            carriers = [default_carrier(case, plan, dst)]
        taken = {walked(case, src, carrier).links: carrier for carrier in carriers}
        ids, host = SegmentIds.of(case.fabric), case.fabric.hosts[dst]
        inside = {each["inner"]: each["segment"] for each in case.plan(dst)["decapsulate"]}
        for carrier in carriers:
            # The receiver takes packets of the version of its address out of it.
            last = ids.ids_of(IPv6Address(carrier))[-1]
            assert str(ids.prefix(IdRange(last))) == inside[host.ip_version]
        if case.fabric.link_up[[src, case.fabric.n_hosts + dst]].all():
            assert case.fabric.flow_links(src, dst, path) in taken


@patient
@given(data=st.data())
def test_the_paths_of_a_set_are_walked_by_their_carriers_and_weights_are_those_of_the_plan(data: st.DataObject) -> None:
    enforcement = data.draw(st.sampled_from([name for name in BY_HOSTS if ENFORCEMENTS[name].spreads]))
    fabric = data.draw(router_fabrics)
    traffic = data.draw(traffics(fabric, enforcement))
    free = dataclasses.replace(traffic, collectives=(dataclasses.replace(traffic.collectives[0], any_order=True),))
    assignment = assign("fair", fabric, free).assignment
    case = case_of(fabric, enforcement, free, assignment)
    for flow in range(free.n_flows):
        src, dst, port = int(free.src[flow]), int(free.dst[flow]), int(free.udp_src[flow])
        rows = np.flatnonzero((assignment.flow == flow) & (assignment.path > LOCAL))
        if not len(rows):
            continue
        plan = case.plan(src)
        (own,) = [
            row
            for row in plan["destinations" if port == ANY_PORT else "flows"]
            if row["dst"] == fabric.hosts[dst].ip and row.get("src_port", port) == port
        ]
        paths = own.get("paths") or [{"carrier": own["carrier"], "weight": 1.0}]
        walked_links = {walked(case, src, each["carrier"]).links: each["weight"] for each in paths}
        planned = {
            fabric.flow_links(src, dst, path): share
            for path, share in zip(assignment.path[rows].tolist(), assignment.share[rows].tolist(), strict=True)
        }
        assert walked_links == pytest.approx(planned)
        named = ENFORCEMENTS[enforcement].segments(fabric, {})
        for path in assignment.path[rows].tolist():
            shown = named(src, dst, path)
            assert shown is not None
            assert shown["carrier"] in {each["carrier"] for each in paths}
            # Each id is consumed by the node at the end of the next link.
            ends = [
                fabric.link_ids[link].split("->")[1].split(":")[0] for link in fabric.flow_links(src, dst, path)[1:]
            ]
            assert [each["node"] for each in shown["ids"]] == ends
            in_order = SegmentIds.of(fabric).ids_of(IPv6Address(shown["carrier"]))
            assert [int(each["id"], 16) for each in shown["ids"]] == [*in_order]
        assert sum(walked_links.values()) == pytest.approx(1)
        assert not {each["carrier"] for each in paths} & {*own["backups"]}
        heaviest = max(each["weight"] for each in paths)
        assert own["carrier"] in {each["carrier"] for each in paths if each["weight"] == heaviest}


@each_enforcement
@patient
@given(data=st.data(), priority=st.integers(0, CLASSES - 1))
def test_hosts_mark_each_flow_by_its_class_whether_its_port_is_known_or_not(
    enforcement: str, data: st.DataObject, priority: int
) -> None:
    fabric = data.draw(router_fabrics)
    traffic = data.draw(traffics(fabric, enforcement))
    own = traffic.with_classes([JobClass(row.job, priority) for row in traffic.collectives])
    case = case_of(fabric, enforcement, own, data.draw(assignments(fabric, own)))
    of_flows = {"dscp": DSCP[priority]} if priority else {}
    for host in range(fabric.n_hosts):
        plan = case.plan(host)
        marked = plan["flows"] + [row for row in plan["destinations"] if "backups" in row]
        assert all(row.items() >= of_flows.items() and len({"dscp"} & row.keys()) == len(of_flows) for row in marked)
        assert not any("dscp" in row for row in plan["destinations"] if "backups" not in row)


@pytest.mark.parametrize("enforcement", [name for name in ENFORCEMENTS if not ENFORCEMENTS[name].spreads])
def test_enforcements_that_cannot_spread_packets_refuse_jobs_in_any_order_in_one_line(enforcement: str) -> None:
    traffic = traffic_of([(0, 2, 50000)])
    free = dataclasses.replace(traffic, collectives=(dataclasses.replace(traffic.collectives[0], any_order=True),))
    with pytest.raises(
        InputError, match=rf"order: 'any': {enforcement} enforcement does not spread the packets of job"
    ):
        encode_flows(ROUTERS, free, Assignment.single(np.zeros(1, dtype=np.int32)), enforcement)


@each_enforcement
def test_each_flow_has_its_pace_with_room_for_what_the_enforcement_adds(enforcement: str) -> None:
    traffic = traffic_of([(0, 2, 50000), (1, 3, 50001), (0, 3, 50002)])
    encoding = encode_flows(ROUTERS, traffic, Assignment.single(np.zeros(3, dtype=np.int32)), enforcement)
    packets = PacketSize(1024, ENFORCEMENTS.named(enforcement).growth)
    paces = Paces(np.array([50.0, 40.0, np.nan]), packets)
    plans = compile_host_plans(enforcement, RuleInputs(ROUTERS, traffic, encoding, ROUTERS, paces=paces))
    rows = {row["src_port"]: row for host in (0, 1) for row in plans.content(host)["flows"]}
    for port, wire in ((50000, 50.0), (50001, 40.0)):
        assert rows[port]["wire_gbps"] == wire
        assert rows[port]["pace_gbps"] == pytest.approx(wire * 1024 / (1024 + 82 + packets.growth))
    assert rows[50002]["wire_gbps"] is None
    assert rows[50002]["pace_gbps"] is None


@each_enforcement
@patient
@given(data=st.data())
def test_ports_tell_the_flows_of_two_hosts_apart(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    for host in range(case.fabric.n_hosts):
        keys = [(row["src"], row["dst"], row["src_port"], row["dst_port"]) for row in case.plan(host)["flows"]]
        assert len(keys) == len(set(keys))


@each_enforcement
@patient
@given(data=st.data())
def test_a_planned_flow_has_backups_and_a_probe_whether_its_port_is_known_or_not(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    for flow, path in zip(case.assignment.flow.tolist(), case.assignment.path.tolist(), strict=True):
        src, dst = int(case.traffic.src[flow]), int(case.traffic.dst[flow])
        if path < 0:
            continue
        plan = case.plan(src)
        rows = flow_rows(case, plan, dst)
        if case.traffic.udp_src[flow] == ANY_PORT:
            rows = [row for row in plan["destinations"] if row["dst"] == case.fabric.hosts[dst].ip]
        for row in rows:
            others = len(case.usable.live_paths(*map(int, case.fabric.host_leaf[[src, dst]])))
            assert min(others - 1, 1) <= len(row["backups"]) <= 2
            assert row["carrier"] not in row["backups"]
            if len(case.fabric.layers) == 2:
                assert walked(case, src, row["probe"], case.fabric.healthy()).host == src


@each_enforcement
@patient
@given(data=st.data())
def test_in_any_mix_of_two_plans_packets_reach_their_host_and_no_failures_make_a_loop(
    enforcement: str, data: st.DataObject
) -> None:
    """Hosts change one by one, and packets of both plans are under way: each takes the way of its carrier."""
    old = data.draw(cases(enforcement))
    new = data.draw(cases(enforcement, old.fabric))
    names = old.fabric.cable_names
    down = data.draw(st.sets(st.sampled_from(names), max_size=3)) if names else set()
    now = old.fabric.without_links(down)
    for src in range(old.fabric.n_hosts):
        case = data.draw(st.sampled_from([old, new]))
        plan = case.plan(src)
        rows = [*plan["flows"], *plan["destinations"]]
        for row in data.draw(st.lists(st.sampled_from(rows), max_size=3)) if rows else []:
            (dst,) = (n for n, host in enumerate(old.fabric.hosts) if host.ip == row["dst"])
            for carrier in (row["carrier"], *row.get("backups", ())):
                taken = walked(case, src, carrier, now)
                assert taken.host in (None, dst)
                assert len(taken.links) < MOST_HOPS
                if "src_port" in row and not down and old.fabric.link_up.all():
                    assert taken.host == dst


@each_enforcement
@patient
@given(data=st.data())
def test_backups_are_other_paths_on_cables_that_are_up_and_not_drained(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    for src in range(case.fabric.n_hosts):
        for row in case.plan(src)["flows"]:
            assert row["carrier"] not in row["backups"]
            for carrier in row["backups"]:
                links = walked(case, src, carrier, case.fabric.healthy()).links
                assert case.usable.link_up[list(links[1:-1])].all()


@each_enforcement
@patient
@given(data=st.data())
def test_carriers_by_the_table_of_hosts_are_those_of_rows(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    for host in range(case.fabric.n_hosts):
        rows, short = case.plans.content(host), case.plans.content(host, by_table=True)
        table = read_table(orjson.loads(case.plans.content.table(host)))
        assert short["table_digest"] == table.digest
        assert short["destinations_digest"] == rows["destinations_digest"]
        own = {row["dst"]: row for row in short["destinations"]}
        usual = table.rows(short["number"], short["paths"])
        assert [own.get(row["dst"], row) for row in usual] == rows["destinations"]
        same = case.plans.content(host, rows["destinations_digest"], by_table=True)
        assert (same["destinations"], same["paths"]) == (None, None)


@each_enforcement
@patient
@given(data=st.data())
def test_those_take_part_that_send_or_receive_planned_flows(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    planned = case.assignment.flow[case.assignment.path >= LOCAL]
    assert case.plans.taking_part == {*case.traffic.src[planned].tolist(), *case.traffic.dst[planned].tolist()}


@each_enforcement
@patient
@given(data=st.data())
def test_no_switch_has_a_rule_and_equal_tasks_give_equal_plans(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    encoding = encode_flows(case.fabric, case.traffic, case.assignment, enforcement)
    one = plans_without_rules(
        EnforcementTask(
            case.fabric, case.usable, PlannedFlows(enforcement, case.traffic, encoding), enforcement=enforcement
        )
    )
    assert all(one.content(host) == case.plans.content(host) for host in range(case.fabric.n_hosts))
    assert (one.mode, one.taking_part) == ("planned", case.plans.taking_part)
    assert all(one.size(switch.key) == 0 for switch in case.fabric.switches)


@each_enforcement
def test_in_mode_ecmp_hosts_have_carriers_without_paths_and_no_flows(enforcement: str) -> None:
    plans = HostCompiler(Settings())(EnforcementTask(ROUTERS, enforcement=enforcement, ends=frozenset({0, 2})))
    assert (plans.mode, plans.taking_part) == ("ecmp", {0, 2})
    content = plans.content(0)
    assert content["flows"] == []
    ids = SegmentIds.of(ROUTERS)
    assert {row["dst"]: ids.ids_of(IPv6Address(row["carrier"])) for row in content["destinations"]} == {
        ROUTERS.hosts[dst].ip: (int(ROUTERS.host_leaf[dst]) + 1, ids.host(dst)) for dst in (1, 2, 3)
    }


@each_enforcement
@patient
@given(data=st.data())
def test_packets_of_no_flow_keep_to_cables_that_are_up_and_not_drained(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    fabric, usable = case.fabric, case.usable
    plans = HostCompiler(Settings())(EnforcementTask(fabric, usable, enforcement=enforcement))
    for src in range(fabric.n_hosts):
        for row in plans.content(src)["destinations"]:
            (dst,) = (n for n, host in enumerate(fabric.hosts) if host.ip == row["dst"])
            a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
            if a == b or not len(usable.live_paths(a, b)):
                continue
            for pick in (min, max):
                ids = SegmentIds.of(fabric)
                taken = walk(ids, fabric.healthy(), router_tables(ids), src, IPv6Address(row["carrier"]), pick)
                assert taken.host == dst
                assert usable.link_up[list(taken.links[1:-1])].all()


@pytest.mark.parametrize("enforcement", [None, *rule_enforcements()])
def test_enforcements_by_switches_give_hosts_no_plans(enforcement: str | None) -> None:
    assert HostCompiler(Settings())(EnforcementTask(ROUTERS, enforcement=enforcement)) is NO_HOST_PLANS


def test_an_enforcement_by_switches_has_no_plans_of_hosts() -> None:
    traffic = traffic_of([])
    for name in rule_enforcements():
        encoding = encode_flows(ROUTERS, traffic, Assignment.single(np.zeros(0, np.int32)), name)
        with pytest.raises(InputError, match="switches carry out its plans, and not hosts"):
            compile_host_plans(name, RuleInputs(ROUTERS, traffic, encoding, ROUTERS))


@pytest.mark.parametrize(
    ("fabric", "options", "message"),
    [
        (with_routers(clos(2, 2, 1), ["spine2"]), {}, "switches: 'spine2': is a router, and leaf1 speaks OpenFlow"),
        (clos(2, 2, 1, planes=2, bond=True), {}, "hosts: ports that share an address"),
        (with_ipv6(clos(2, 2, 1)), {}, "hosts[0].ip: 'fd00:0:0:1::1': h1 has an IPv6 address"),
        (ROUTERS, {"srv6_block": "fc00::/40"}, "block: 'fc00::/40': a block has 16, 32 or 48 bits"),
        (ROUTERS, {"srv6_block": "leaf"}, "srv6_block: 'leaf': is not an IPv6 prefix"),
        (ROUTERS, {"srv6_cables": "fd00::/64"}, "cables: 'fd00::/64': needs a prefix of 48 bits or fewer"),
        (
            ROUTERS,
            {"srv6_cables": "fcbb:bb00::/48"},
            "srv6_cables: 'fcbb:bb00::/48': overlaps the block fcbb:bb00::/32",
        ),
        (with_ipv6(ROUTERS, ["h3"]), {"srv6_block": "fd00::/32"}, "hosts[2].ip: 'fd00:0:0:2::1': is in the network of"),
        (with_ipv6(ROUTERS), {"srv6_cables": "fd00::/48"}, "hosts[0].ip: 'fd00:0:0:1::1': is in the network of"),
    ],
)
@each_enforcement
def test_fabrics_and_options_that_it_cannot_use_are_refused_in_one_line(
    enforcement: str, fabric: Fabric, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        ENFORCEMENTS[enforcement].check(fabric, options)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("enforcement", [name for name in ENFORCEMENTS if not ENFORCEMENTS[name].carries_ipv6])
def test_enforcements_that_carry_no_ipv6_refuse_its_hosts_in_one_line(enforcement: str) -> None:
    fabric = with_ipv6(ROUTERS if ENFORCEMENTS[enforcement].needs_routers else clos(2, 2, 2), ["h3"])
    traffic = traffic_of([(0, 1, 50000)])
    encoding = encode_flows(fabric, traffic, Assignment.single(np.full(1, LOCAL, np.int32)), enforcement)
    with pytest.raises(InputError) as refused:
        compile_rules(enforcement, fabric, traffic, encoding)
    reason = f"h3 has an IPv6 address, and {enforcement} enforcement is for IPv4 addresses of hosts"
    assert str(refused.value) == f"hosts[2].ip: 'fd00:0:0:2::1': {reason}"


def test_rules_are_not_made_of_a_fabric_that_the_enforcement_refuses() -> None:
    fabric, traffic = with_routers(clos(2, 2, 1), ["spine2"]), traffic_of([])
    for name in BY_HOSTS:
        encoding = encode_flows(fabric, traffic, Assignment.single(np.zeros(0, np.int32)), name)
        with pytest.raises(InputError, match="leaf1 speaks OpenFlow"):
            compile_rules(name, fabric, traffic, encoding)
