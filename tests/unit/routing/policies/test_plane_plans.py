"""Plans on fabrics whose NICs have several ports."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.routing import Options
from controller.routing.problem.live_planes import on_live_planes
from controller.routing.registry import BUILT_IN, assign
from controller.routing.validate import validate_assignment
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from tests.unit.laws import examples
from tests.unit.routing.policies.plane_cases import cases, nic_bytes, traffic_of
from tests.unit.strategies import nic_fabrics, plane_fabrics


@pytest.mark.parametrize("policy", BUILT_IN)
@settings(max_examples=examples(10, 60), deadline=None)
@given(case=cases(nic_fabrics()), seed=st.integers(0, 3))
def test_every_policy_keeps_each_flow_in_its_network(policy: str, case: tuple[Fabric, Traffic], seed: int) -> None:
    fabric, traffic = case
    result = assign(policy, fabric, traffic, seed=seed)
    validate_assignment(fabric, traffic, result.assignment, enforceable=False)
    network = fabric.planes.network
    of_cable = [network[tier][x] for tier, x in zip(fabric.cable_tier, fabric.cable_lower, strict=True)]
    of_link = np.concatenate([*[network[0][fabric.host_leaf]] * 2, np.repeat(of_cable, 2)])
    for flow, path in zip(result.assignment.flow.tolist(), result.assignment.path.tolist(), strict=True):
        links = fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path)
        assert len(set(of_link[list(links)].tolist())) == 1


@st.composite
def equal_loads(draw: st.DrawFn) -> tuple[Fabric, Traffic]:
    """As many uplinks as hosts on each leaf, and a permutation of the NICs as a ring, striped over all planes."""
    width, planes, dual_tor = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.booleans())
    leaves = draw(st.integers(1, 2)) * 2 if dual_tor else draw(st.integers(2, 4))
    if draw(st.booleans()):
        fabric = clos(width, leaves, width, planes=planes, dual_tor=dual_tor)
    else:
        fabric = pod_clos(2, leaves, width, leaves, width, planes=planes, dual_tor=dual_tor)
    order = draw(st.permutations(range(len(fabric.nic_names))))
    return fabric, traffic_of(fabric, order, qps=fabric.planes.count * draw(st.integers(1, 2)))


@settings(max_examples=examples(75, 450))
@given(equal_loads())
def test_fair_reaches_the_bound_where_loads_are_equal(case: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = case
    plan = make_plan(fabric, traffic, policy="fair", clock=time.perf_counter)
    # Stripes differ by up to a byte of about 29 MB.
    assert plan.gap == pytest.approx(0.0, abs=1e-6)
    assert not len(plan.unroutable)


@settings(max_examples=examples(20, 120))
@given(cases(plane_fabrics(failures=False)))
def test_the_bound_for_split_flows_is_that_of_one_plane(case: tuple[Fabric, Traffic]) -> None:
    fabric, _ = case
    planes = fabric.planes.count
    one = clos(
        fabric.n_spines // planes,
        fabric.n_leaves // planes,
        fabric.n_hosts // fabric.n_leaves,
        parallel=int(fabric.parallel.max()),
    )
    order = list(range(len(fabric.nic_names)))
    found = [
        make_plan(each, traffic_of(each, order, qps=qps), policy="ecmp", clock=time.perf_counter)
        for each, qps in ((fabric, planes), (one, 1))
    ]
    assert found[0].bound.split == pytest.approx(found[1].bound.split, rel=1e-6)
    times = [plan.objective.ideal_seconds[0] * count for plan, count in zip(found, (planes, 1), strict=True)]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


@settings(max_examples=examples(12, 75), deadline=None)
@given(cases(nic_fabrics()))
def test_fair_is_between_ilp_and_the_bound(case: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = case
    fair, ilp = (
        make_plan(fabric, traffic, policy=policy, clock=time.perf_counter, options=Options()).objective.min_level
        for policy in ("fair", "ilp")
    )
    assert fair <= ilp * (1 + 1e-6)


@given(cases(nic_fabrics()))
def test_a_lost_stripe_takes_other_ports_if_any_join_its_nics(case: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = case
    moved, planes = on_live_planes(fabric, traffic), fabric.planes
    assert nic_bytes(fabric, moved) == nic_bytes(fabric, traffic)
    own = traffic.number % planes.count
    home = [planes.ports[planes.nic_of_host[end], own] for end in (traffic.src, traffic.dst)]
    np.testing.assert_array_equal([traffic.src, traffic.dst], home)

    def joined(src: int, dst: int) -> bool:
        up = fabric.hosts[src].up and fabric.hosts[dst].up
        a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        return up and (a == b or len(fabric.live_paths(a, b)) > 0)

    for flow in range(traffic.n_flows):
        before, now = ((int(each.src[flow]), int(each.dst[flow])) for each in (traffic, moved))
        a, b = (planes.ports[planes.nic_of_host[host]].tolist() for host in before)
        assert now == before if joined(*before) else True
        pairs = [ends for ends in itertools.product(a, b) if joined(*ends)]
        assert now in pairs or not pairs
        if any(before[0] == first or before[1] == second for first, second in pairs):
            assert now[0] == before[0] or now[1] == before[1]
    assert on_live_planes(fabric.healthy(), moved).version == traffic.version


def test_a_plane_without_a_leaf_costs_its_nics_that_plane_and_no_more() -> None:
    healthy = clos(2, 3, 2, planes=4)
    fabric = healthy.without_links(["leaf4"])
    traffic = on_live_planes(fabric, traffic_of(fabric, [0, 2, 4, 1, 3, 5]))
    plan = make_plan(fabric, traffic, policy="fair", clock=time.perf_counter)
    assert not len(plan.unroutable)
    assert plan.gap == pytest.approx(0.0, abs=1e-6)
    # Four stripes over three planes: one port sends two of them.
    told = plan.objective
    assert told.ideal_seconds[0] / told.speed[0] == pytest.approx(2 * told.healthy_seconds[0])
    count = np.bincount(traffic.src, minlength=fabric.n_hosts)
    assert count[fabric.host_leaf == 3].tolist() == [0, 0]
    assert count.max() == 2


def test_three_qps_a_plane_spread_evenly_over_the_planes_that_are_left() -> None:
    healthy = clos(2, 3, 2, planes=4)
    fabric = healthy.without_links(["leaf4"])
    traffic = on_live_planes(fabric, traffic_of(fabric, [0, 2, 4, 1, 3, 5], qps=12))
    told = make_plan(fabric, traffic, policy="fair", clock=time.perf_counter).objective
    assert told.ideal_seconds[0] / told.speed[0] == pytest.approx(4 / 3 * told.healthy_seconds[0])


def test_a_nic_that_lost_a_port_is_reached_by_its_other_one_from_both_tors() -> None:
    fabric = clos(2, 4, 1, dual_tor=True).without_links(["h1.p1-leaf1"])
    job = parse_job({"name": "a", "flows": [{"src": "h2", "dst": "h1", "bytes": 100}], "qps": 2})
    traffic = on_live_planes(fabric, combine([expand(fabric, job)]))
    ends = {(fabric.hosts[a].name, fabric.hosts[b].name) for a, b in zip(traffic.src, traffic.dst, strict=True)}
    assert ends == {("h2.p1", "h1.p2"), ("h2.p2", "h1.p2")}


def test_flows_may_be_given_between_two_ports_of_one_network() -> None:
    fabric = clos(2, 4, 1, dual_tor=True)
    job = parse_job({"name": "a", "flows": [{"src": "h1.p2", "dst": "h2.p1", "bytes": 100}]})
    traffic = combine([expand(fabric, job)])
    assert on_live_planes(fabric, traffic) is traffic
    assert (fabric.hosts[traffic.src[0]].name, fabric.hosts[traffic.dst[0]].name) == ("h1.p2", "h2.p1")


def test_flows_between_ports_stay_in_their_plane_when_it_loses_a_leaf() -> None:
    fabric = clos(2, 2, 1, planes=2).without_links(["leaf3"])
    job = parse_job({"name": "a", "flows": [{"src": "h1.p2", "dst": "h2.p2", "bytes": 100}]})
    traffic = combine([expand(fabric, job)])
    assert on_live_planes(fabric, traffic) is traffic
    assert len(make_plan(fabric, traffic, policy="fair", clock=time.perf_counter).unroutable) == traffic.n_flows
