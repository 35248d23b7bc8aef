"""Enforcements whose hosts learn source ports: what agents are asked to find is what the plan needs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ports.port_plan import PortPlan, read_port_plan
from controller.config import Settings
from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.paces import Paces, PacketSize
from controller.model.packets.flow_ports import ALL_TCP, port_code
from controller.model.traffic import ANY_PORT, Traffic
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import HostPlans
from controller.southbound.enforcement.learned_ports import LearnedPort, with_learned_ports
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_host_plans, encode_flows
from tests.rig.routers.answering_routers import addressed
from tests.unit.southbound.enforcement.host_tasks import plans_without_rules
from tests.unit.southbound.plans import accepts, assignments, patchy_fabrics, patient, traffic_of, traffics
from tests.unit.strategies import plane_fabrics, pod_fabrics, with_ipv6, with_routers

BY_PORTS = [name for name, each in ENFORCEMENTS.items() if each.learns_ports]
each_enforcement = pytest.mark.parametrize("enforcement", BY_PORTS)


@dataclasses.dataclass(frozen=True)
class Case:
    fabric: Fabric
    traffic: Traffic
    assignment: Assignment
    enforcement: str

    @property
    def plans(self) -> HostPlans:
        encoding = encode_flows(self.fabric, self.traffic, self.assignment, self.enforcement)
        return compile_host_plans(self.enforcement, RuleInputs(self.fabric, self.traffic, encoding, self.fabric))

    def plan(self, host: int) -> PortPlan:
        """The plan of a host as its agent reads it."""
        return read_port_plan({"epoch": 1, "digest": "0" * 16, "mode": "planned", **self.plans.content(host)})

    def sent(self, host: int) -> Counter[tuple[IPv4Address, int]]:
        """How many rows of the plan leave a host for an address over a path."""
        rows = zip(self.assignment.flow.tolist(), self.assignment.path.tolist(), strict=True)
        return Counter(
            (IPv4Address(self.fabric.hosts[self.traffic.dst[flow]].ip), path)
            for flow, path in rows
            if path >= 0 and self.traffic.src[flow] == host
        )


@st.composite
def cases(draw: st.DrawFn, enforcement: str) -> Case:
    fabrics = st.one_of(patchy_fabrics().filter(lambda fabric: fabric.cables), pod_fabrics(), plane_fabrics())
    fabric = draw(fabrics.map(addressed).filter(lambda fabric: accepts(enforcement, fabric)))
    traffic = draw(traffics(fabric, enforcement))
    return Case(fabric, traffic, draw(assignments(fabric, traffic)), enforcement)


@each_enforcement
@patient
@given(data=st.data())
def test_each_flow_and_piece_has_a_number_and_its_path_a_port_for_it(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    for host in range(case.fabric.n_hosts):
        plan, sent = case.plan(host), case.sent(host)
        assert Counter((flow.dst, flow.path) for flow in plan.flows) == sent
        assert {(pair.dst, path): many for pair in plan.task.pairs for path, many in pair.wanted.items()} == sent
        assert bool(plan.flows) == (host in case.plans.taking_part)


@each_enforcement
@patient
@given(data=st.data())
def test_each_flow_has_its_pace_and_all_tcp_of_two_hosts_the_highest(enforcement: str, data: st.DataObject) -> None:
    """One of several flows that agents cannot tell apart may have no pace: then all have none."""
    case = data.draw(cases(enforcement))
    fabric, traffic = case.fabric, case.traffic
    encoding = encode_flows(fabric, traffic, case.assignment, enforcement)
    many = len(encoding.path)
    rates = data.draw(st.lists(st.just(np.nan) | st.integers(1, 400), min_size=many, max_size=many))
    paces = Paces(np.array(rates, dtype=float), PacketSize())
    plans = compile_host_plans(enforcement, RuleInputs(fabric, traffic, encoding, fabric, paces=paces))
    for host in range(fabric.n_hosts):
        plan = read_port_plan({"epoch": 1, "digest": "0" * 16, **plans.content(host)})
        sent: dict[tuple[str, int], list[float]] = {}
        for row, flow in enumerate(encoding.flow.tolist()):
            if traffic.src[flow] == host and encoding.path[row] >= 0:
                key = fabric.hosts[traffic.dst[flow]].ip, int(encoding.udp_src[row])
                sent.setdefault(key, []).append(rates[row])
        highest = {key: None if np.isnan(many).any() else max(many) * 10**9 for key, many in sent.items()}
        said: dict[tuple[str, int], int | None] = {(str(flow.dst), flow.number): flow.pace for flow in plan.flows}
        for dst, connections in plan.connections.items():
            if connections.path is not None:
                said[str(dst), ALL_TCP] = connections.pace
            else:
                assert connections.pace is None
        assert said == highest


@each_enforcement
@patient
@given(data=st.data())
def test_the_routers_of_a_path_are_those_that_packets_pass_and_tell_it_from_others(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    fabric = case.fabric
    for src in range(fabric.n_hosts):
        for pair in case.plan(src).task.pairs:
            (dst,) = (n for n, host in enumerate(fabric.hosts) if host.ip == str(pair.dst))
            for answers, path in pair.routes.paths.items():
                names = [fabric.link_ids[link].split("->")[1] for link in fabric.flow_links(src, dst, path)]
                assert answers == tuple(names[hop - 1] for hop in pair.routes.hops)


@each_enforcement
@patient
@given(data=st.data())
def test_routes_have_a_port_only_where_probes_have_shown_it_to_lead_over_the_path(
    enforcement: str, data: st.DataObject
) -> None:
    case = data.draw(cases(enforcement))
    fabric, traffic = case.fabric, case.traffic
    wire = encode_flows(fabric, traffic, case.assignment, enforcement)
    paths = st.none() | st.integers(0, 3)
    learned = {
        fabric.hosts[src].name: {
            (str(flow.dst), flow.number): LearnedPort(data.draw(st.none() | st.just(60000 + n)), data.draw(paths), 1.0)
            for n, flow in enumerate(case.plan(src).flows)
        }
        for src in data.draw(st.sets(st.integers(0, fabric.n_hosts - 1)))
    }
    given_ports = with_learned_ports(fabric, traffic, wire, learned).udp_src.tolist()
    for row, port in enumerate(given_ports):
        flow, path, number = int(wire.flow[row]), int(wire.path[row]), int(wire.udp_src[row])
        if path < 0:
            assert port == number
            continue
        ends = fabric.hosts[traffic.src[flow]].name, fabric.hosts[traffic.dst[flow]].ip
        known = learned.get(ends[0], {}).get((ends[1], number))
        shown = known is not None and known.port is not None and known.path == path
        assert port == (known.port if known is not None and shown else ANY_PORT)


@each_enforcement
@patient
@given(data=st.data())
def test_no_switch_has_a_rule_and_equal_tasks_give_equal_plans(enforcement: str, data: st.DataObject) -> None:
    case = data.draw(cases(enforcement))
    encoding = encode_flows(case.fabric, case.traffic, case.assignment, enforcement)
    flows = PlannedFlows(enforcement, case.traffic, encoding)
    assert plans_without_rules(EnforcementTask(case.fabric, None, flows, enforcement=enforcement)).form == "ports"


@each_enforcement
def test_in_mode_ecmp_hosts_are_asked_for_no_ports(enforcement: str) -> None:
    fabric = addressed(clos(2, 2, 2))
    plans = HostCompiler(Settings())(EnforcementTask(fabric, enforcement=enforcement, ends=frozenset({0, 2})))
    assert (plans.mode, plans.taking_part) == ("ecmp", {0, 2})
    content = plans.content(0)
    assert (content["flows"], content["pairs"]) == ([], [])


@each_enforcement
@given(rate=st.floats(0.01, 1e4), per_router=st.floats(0.01, 1e4), flows=st.integers(1, 4), seconds=st.floats(0.1, 60))
def test_probes_stay_within_the_limits_of_routers(
    enforcement: str, rate: float, per_router: float, flows: int, seconds: float
) -> None:
    fabric = addressed(clos(2, 2, 4))
    traffic = traffic_of([(src, 4 + src, 50000 + n) for src in range(4) for n in range(flows)])
    encoding = encode_flows(fabric, traffic, Assignment.single(np.zeros(4 * flows, dtype=np.int32)), enforcement)
    options = {"probe_rate": rate, "probe_router_rate": per_router, "probe_seconds": seconds}
    plans = compile_host_plans(enforcement, RuleInputs(fabric, traffic, encoding, fabric, options=options))
    said: list[dict[str, Any]] = [dict(plans.content(host)) for host in range(4)]
    assert {each["budget"]["a_second"] for each in said} == {rate}
    assert sum(each["budget"]["share"] for each in said) <= per_router * (1 + 1e-9)
    # All flows pass one spine, each of them checked once in this time.
    assert all(4 * flows / each["check_seconds"] <= 0.01 * per_router * (1 + 1e-9) for each in said)
    assert all(each["check_seconds"] >= seconds for each in said)


@each_enforcement
def test_tcp_of_ipv6_hosts_is_refused_in_one_line(enforcement: str) -> None:
    fabric = with_ipv6(with_routers(clos(2, 2, 2)))
    traffic = traffic_of([(0, 2, ALL_TCP)])
    with pytest.raises(InputError) as refused:
        encode_flows(fabric, traffic, Assignment.single(np.zeros(1, np.int32)), enforcement)
    reason = f"h1 has an IPv6 address, and {enforcement} enforcement gives ports to TCP of IPv4 hosts alone"
    assert str(refused.value) == f"{traffic.flow_id(0)}: '{fabric.hosts[0].ip}': {reason}"


@pytest.mark.parametrize(
    ("fabric", "message"),
    [
        (clos(2, 2, 1), "switches: 'leaf1': speaks OpenFlow, and this enforcement needs routers"),
        (with_routers(clos(2, 2, 1)), "switches: 'spine1': has no addresses"),
        (addressed(clos(2, 2, 1, parallel=2)), "is parallel to another cable"),
    ],
)
@each_enforcement
def test_fabrics_on_which_probes_show_no_paths_are_refused_in_one_line(
    enforcement: str, fabric: Fabric, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        ENFORCEMENTS[enforcement].check(fabric, {})
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@each_enforcement
@patient
@given(data=st.data())
def test_both_ends_of_tcp_connections_know_the_path_of_what_they_send(enforcement: str, data: st.DataObject) -> None:
    fabric = addressed(data.draw(st.sampled_from([clos(2, 3, 2), pod_clos(2, 2, 2, 2, 2)])))
    hosts = st.integers(0, fabric.n_hosts - 1)
    pairs = st.tuples(hosts, hosts).filter(lambda pair: pair[0] != pair[1])
    ends = sorted(data.draw(st.sets(pairs, max_size=8)))
    flows = [(src, dst, ALL_TCP) for src, dst in ends] + [(src, dst, 50001) for src, dst in ends[::2]]
    traffic = traffic_of(flows)
    assignment = data.draw(assignments(fabric, traffic, most_paths=1))
    case = Case(fabric, traffic, assignment, enforcement)
    paths = {flow: path for flow, path in zip(flows, assignment.path.tolist(), strict=True) if path >= 0}
    connected = {end for src, dst, code in paths for end in (src, dst) if code == ALL_TCP}
    assert case.plans.taking_part == connected | {src for src, _, code in paths if code != ALL_TCP}
    for host in range(fabric.n_hosts):
        plan = case.plan(host)
        assert len(plan.flows) == sum(src == host and code != ALL_TCP for src, _, code in paths)
        planned = {n: plan.connections.get(IPv4Address(each.ip)) for n, each in enumerate(fabric.hosts)}
        for peer, found in planned.items():
            own, back = paths.get((host, peer, ALL_TCP)), (peer, host, ALL_TCP) in paths
            assert found == (None if own is None and not back else (own, back, None))
        # Nothing is probed before a program connects.
        assert sum(map(len, (pair.wanted for pair in plan.task.pairs))) <= len(plan.flows)
    wire = encode_flows(fabric, traffic, assignment, enforcement)
    known = with_learned_ports(fabric, traffic, wire, {}).udp_src
    assert known[traffic.udp_src == ALL_TCP].tolist() == [ALL_TCP] * len(ends)


@each_enforcement
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ANY_PORT, "its source port is unknown"),
        (port_code("tcp", None, 5000), "its port is stated"),
        (port_code("tcp", 5000), "its port is stated"),
        (port_code("udp"), "its protocol is udp"),
        (port_code("any"), "its protocol is any"),
    ],
)
def test_flows_whose_ports_hosts_do_not_choose_are_refused(enforcement: str, code: int, message: str) -> None:
    traffic = traffic_of([(0, 1, code)])
    with pytest.raises(InputError, match=message):
        encode_flows(addressed(clos(2, 2, 1)), traffic, Assignment.single(np.zeros(1, dtype=np.int32)), enforcement)
