"""Laws of what hosts check of plans that routers carry out by a static configuration."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ports.port_plan import read_port_plan
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.paces import Paces, PacketSize
from controller.southbound.enforcement.checked_plans import checked_rows
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostPlans
from controller.southbound.enforcement.learned_ports import LearnedPort
from controller.southbound.enforcement.registry import ENFORCEMENTS, encode_flows
from tests.rig.routers.probed_fabrics import with_addresses
from tests.unit.southbound.plans import traffic_of
from tests.unit.strategies import fabrics, pod_fabrics, with_routers

STATIC = [name for name, each in ENFORCEMENTS.items() if each.router_export]


class AllOptions:
    """The options of a controller: each has the default of the enforcement."""

    path_address_block = "10.64.0.0/10"
    probe_burst, probe_rate, probe_router_rate, probe_seconds = 6, 1.0, 100.0, 10.0
    probe_last_leaf, probe_sampled_rate, sflow_listen = "off", 1000.0, ""


def compiled(fabric: Fabric, enforcement: str, flows: list[tuple[int, int, int]]) -> tuple[HostPlans, list[int]]:
    """The n-th flow is paced at n + 1 Gbit/s, except for the first."""
    traffic = traffic_of([(src, dst, 50000 + n) for n, (src, dst, _) in enumerate(flows)])
    assignment = Assignment.single(np.array([path for *_, path in flows], dtype=np.int32))
    encoding = encode_flows(fabric, traffic, assignment, enforcement)
    paces = Paces(np.array([math.nan, *range(2, len(encoding.flow) + 1)][: len(encoding.flow)]), PacketSize())
    planned = PlannedFlows(enforcement, traffic, encoding, paces)
    task = EnforcementTask(fabric, planned=planned, enforcement=enforcement)
    return HostCompiler(AllOptions())(task), encoding.udp_src.tolist()


@pytest.mark.parametrize("enforcement", STATIC)
@given(
    fabric=st.one_of(fabrics(max_parallel=1, failures=False, min_leaves=2), pod_fabrics(max_parallel=1)).map(
        with_routers
    ),
    some=st.randoms(use_true_random=False),
)
def test_hosts_check_the_port_and_the_address_of_each_flow_that_they_send_to_other_leaves(
    enforcement: str, fabric: Fabric, some: Random
) -> None:
    flows = []
    for _ in range(6):
        src, dst = (some.randrange(fabric.n_hosts) for _ in "ab")
        paths = fabric.live_paths(int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])).tolist()
        if fabric.host_leaf[src] != fabric.host_leaf[dst] and paths:
            flows.append((src, dst, some.choice(paths)))
    plans, _ = compiled(fabric, enforcement, flows)
    assert plans is NO_HOST_PLANS, "no switch has an address, from which answers come"
    place = with_addresses(fabric)
    plans, ports = compiled(place, enforcement, flows)
    assert plans.checks
    assert plans.taking_part == {src for src, *_ in flows}
    destination = ENFORCEMENTS.named(enforcement).destination
    options = ENFORCEMENTS.named(enforcement).options_of(AllOptions())
    for host in range(place.n_hosts):
        said = {"epoch": 1, "digest": "0" * 16, **plans.content(host)}
        plan = read_port_plan(said)
        assert plan.task.given
        expected = {
            (destination(place, dst, path, options) or place.hosts[dst].ip, port, path)
            for (src, dst, path), port in zip(flows, ports, strict=True)
            if src == host
        }
        assert {(str(flow.dst), flow.number, flow.path) for flow in plan.flows} == expected
        paced = {flow.number: flow.pace for flow in plan.flows if flow.pace is not None}
        wanted = {port: n * 10**9 for n, port in enumerate(ports, 1) if n > 1 and port in paced}
        assert paced == wanted
        known = {(str(pair.dst), port, path) for pair in plan.task.pairs for port, path in pair.known.items()}
        assert known == expected


@pytest.mark.parametrize("enforcement", STATIC)
def test_what_hosts_have_seen_of_a_flow_is_told_of_its_row_alone(enforcement: str) -> None:
    place = with_addresses(with_routers(clos(2, 2, 2)))
    chosen, options = ENFORCEMENTS.named(enforcement), ENFORCEMENTS.named(enforcement).options_of(AllOptions())
    flows = [(0, 2, 0), (1, 3, 1), (0, 1, -1)]
    traffic = traffic_of([(src, dst, 50000 + n) for n, (src, dst, _) in enumerate(flows)])
    assignment = Assignment.single(np.array([path for *_, path in flows], dtype=np.int32))
    wire = encode_flows(place, traffic, assignment, enforcement)
    port = int(wire.udp_src[0])
    address = chosen.destination(place, 2, 0, options) or place.hosts[2].ip
    seen = LearnedPort(port, 1, 0.5)
    rows = checked_rows(chosen, place, traffic, wire, {"h1": {(address, port): seen}}, options)
    assert rows == [seen, LearnedPort(int(wire.udp_src[1])), None]
