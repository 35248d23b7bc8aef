"""Plans and their documents, on any fabric and traffic."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from itertools import count, pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.packets.flow_ports import FlowPorts, protocol_fields, udp_source
from controller.model.plan import Plan
from controller.model.traffic import Collective, Traffic
from controller.planning.compare import compare
from controller.planning.make_plan import make_plan
from controller.planning.plan_document import flow_rows, job_parts, plan_document, routes_document
from controller.rest import schemas
from controller.routing import Options, assign
from controller.southbound.enforcement.registry import encode_flows
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from tests.unit.routing.instances import instances, traffic_of


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-6, abs=1e-9)


POLICY = st.sampled_from(["ecmp", "greedy", "split"])
OPTIONS = Options(max_splits=None)


def ticks() -> float:
    return 0.0


def plan_of(fabric: Fabric, traffic: Traffic, policy: str = "greedy", **more: Any) -> Plan:
    return make_plan(fabric, traffic, policy=policy, options=OPTIONS, clock=ticks, **more)


def document_of(fabric: Fabric, traffic: Traffic, plan: Plan) -> dict[str, Any]:
    text = orjson.dumps(plan_document(fabric, traffic, plan))
    schemas.Plan.model_validate_json(text)
    document: dict[str, Any] = orjson.loads(text)
    return document


@given(instances(), POLICY)
def test_a_plans_document_has_the_declared_shape_and_every_flow_in_order(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    document = document_of(fabric, traffic, plan_of(fabric, traffic, policy))
    assert [row["id"] for row in document["flows"]] == [traffic.flow_id(f) for f in range(traffic.n_flows)]
    assert [row["bytes"] for row in document["flows"]] == traffic.bytes.tolist()
    assert [(row["job"], row["name"]) for row in document["collectives"]] == [
        (row.job, row.name) for row in traffic.collectives
    ]
    assert [row["id"] for row in document["links"]] == list(fabric.link_ids)


@given(instances(), POLICY)
def test_each_flow_has_unbroken_live_paths_from_source_to_destination_or_is_unroutable(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    document = document_of(fabric, traffic, plan_of(fabric, traffic, policy))
    for row in document["flows"]:
        assert (not row["paths"]) == (row["id"] in document["unroutable"])
        if row["paths"]:
            assert sum(path["share"] for path in row["paths"]) == close(1)
        for path in row["paths"]:
            ends = [link.split(":")[0].split("->") for link in path["links"]]
            assert [ends[0][0], ends[-1][1]] == [row["src"], row["dst"]]
            assert all(one[1] == other[0] for one, other in pairwise(ends))
            assert all(fabric.link_up[fabric.link_index[link]] for link in path["links"])


@given(instances(phases=False), POLICY)
def test_the_rates_reported_to_hosts_add_up_to_the_load_of_every_link(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    plan = plan_of(fabric, traffic, policy)
    document = document_of(fabric, traffic, plan)
    wire = encode_flows(fabric, traffic, plan.assignment, "per_flow")
    load: dict[str, float] = defaultdict(float)
    told = []
    for host in fabric.hosts:
        told_to = routes_document(fabric, traffic, plan, wire, host.name)
        how = {"mode": "planned", "enforcement": "per_flow", "epoch": 1}
        text = orjson.dumps({**told_to, **how})
        routes = schemas.Routes.model_validate_json(text)
        assert routes.ip == host.ip
        told += [flow.id for flow in routes.flows]
        for flow in routes.flows:
            for piece in flow.pieces:
                for link in piece.links:
                    load[link] += piece.rate_gbps
    assert Counter(told) == Counter(row["id"] for row in document["flows"])
    for row in document["links"]:
        assert load[row["id"]] == close(row["load_gbps"])


@given(instances())
def test_hosts_get_the_port_of_each_flow_and_the_class_of_its_path(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    plan = plan_of(fabric, traffic)
    wire = encode_flows(fabric, traffic, plan.assignment, "per_flow")
    codes = {traffic.flow_id(f): int(traffic.udp_src[f]) for f in range(traffic.n_flows)}
    for host in fabric.hosts:
        for flow in routes_document(fabric, traffic, plan, wire, host.name)["flows"]:
            code = codes[flow["id"]]
            assert {name: flow[name] for name in flow if name in FlowPorts._fields} == protocol_fields(code)
            for piece in flow["pieces"]:
                assert piece["udp_src"] == udp_source(code)
                assert (piece["path"] is None) == (len(piece["links"]) == 2)
                if piece["path"] is not None:
                    assert piece["path"].split(":")[0] == piece["links"][1].split(":")[0].split("->")[1]


@given(instances(), POLICY)
def test_collectives_take_their_ideal_time_over_their_speed_and_are_never_faster_than_on_the_healthy_fabric(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    document = document_of(fabric, traffic, plan_of(fabric, traffic, policy))
    on_network = set(traffic.collective.tolist())
    for k, row in enumerate(document["collectives"]):
        assert (row["speed"] is None) == (k not in on_network)
        assert (row["seconds"] is None) == (not row["speed"])
        if row["seconds"] is not None:
            assert row["seconds"] * row["speed"] == close(row["ideal_seconds"])
            assert row["slowdown"] >= 1 - 1e-6


@given(instances(), POLICY)
def test_the_jobs_parts_are_the_plan(instance: tuple[Fabric, Traffic], policy: str) -> None:
    fabric, traffic = instance
    plan = plan_of(fabric, traffic, policy)
    document = document_of(fabric, traffic, plan)
    parts = {job: orjson.loads(orjson.dumps(job_parts(fabric, traffic, plan, job))) for job in traffic.jobs}
    for key in ("flows", "collectives", "unroutable"):
        together = [row for part in parts.values() for row in part[key]]
        assert sorted(together, key=str) == sorted(document[key], key=str)
    for job, part in parts.items():
        assert all(row["job"] == job for row in (*part["flows"], *part["collectives"]))
        assert part["bytes"] == sum(row["bytes"] for row in part["flows"])
        speeds = [row["speed"] for row in part["collectives"] if row["speed"] is not None]
        assert part["min_speed"] == min(speeds, default=None)


def test_documents_of_many_flows_are_those_of_each_flow() -> None:
    rows = [(i % 3, 3 + i % 6, 1 + i, 0) for i in range(2500)]
    fabric, traffic = clos(2, 3, 3), traffic_of(rows, [Collective("a", "c")])
    plan = plan_of(fabric, traffic)
    document = document_of(fabric, traffic, plan)
    assert document["flows"] == flow_rows(fabric, traffic, plan, np.arange(2500))
    some = np.array([3, 999, 1000, 2499])
    assert flow_rows(fabric, traffic, plan, some) == [document["flows"][f] for f in some.tolist()]


def test_an_empty_traffic_has_a_plan_without_anything_in_it() -> None:
    fabric = clos(2, 2, 2)
    document = document_of(fabric, Traffic.empty(), plan_of(fabric, Traffic.empty()))
    assert (document["flows"], document["collectives"], document["levels"]) == ([], [], [])
    assert (document["min_speed"], document["gap"]) == (1.0, 0.0)
    assert {row["load_gbps"] for row in document["links"]} == {0.0}


@given(instances(), POLICY, st.integers(0, 3))
def test_a_plan_is_what_the_policy_answers_and_no_better_than_its_bound(
    instance: tuple[Fabric, Traffic], policy: str, seed: int
) -> None:
    fabric, traffic = instance
    plan = plan_of(fabric, traffic, policy, seed=seed)
    answer = assign(policy, fabric, traffic, seed=seed, options=OPTIONS).assignment
    assert plan.assignment.path.tolist() == answer.path.tolist()
    assert plan.traffic_version == traffic.version
    assert plan.gap is None or plan.gap >= 0
    assert plan.bound.split is not None
    assert plan.objective.min_level <= plan.bound.split * (1 + 1e-6)


def test_the_reported_time_is_the_measured_time_of_the_policy() -> None:
    clock = count(10.0, 2.5)
    fabric, traffic = clos(2, 2, 2), traffic_of([(0, 2, 1, 0)], [Collective("a", "c")])
    assert make_plan(fabric, traffic, policy="ecmp", clock=lambda: next(clock)).seconds == 2.5


def test_slowdown_is_relative_to_the_intended_fabric() -> None:
    fabric, traffic = clos(2, 2, 2, host_gbps=50), traffic_of([(0, 2, 10**9, 0)], [Collective("a", "c")])
    intended = clos(2, 2, 2, host_gbps=100)

    def slowdown(wanted: Fabric | None) -> float:
        found = document_of(fabric, traffic, plan_of(fabric, traffic, intended=wanted))["collectives"][0]["slowdown"]
        assert isinstance(found, float)
        return found

    assert slowdown(intended) == pytest.approx(2)
    assert slowdown(fabric) == slowdown(None) == 1
    broken = dataclasses.replace(intended, hosts=tuple(dataclasses.replace(h, up=False) for h in intended.hosts))
    assert slowdown(broken) == pytest.approx(2)
    with pytest.raises(ValueError, match="the hosts of the intended fabric differ"):
        plan_of(fabric, traffic, intended=clos(2, 2, 3))


def test_a_policy_that_does_not_exist_is_bad_input() -> None:
    with pytest.raises(InputError) as caught:
        plan_of(clos(2, 2, 2), Traffic.empty(), "best")
    assert (caught.value.field, caught.value.value) == ("policy", "best")


def test_what_a_policy_proves_counts_as_bound() -> None:
    # Three equal flows from each of two leaves to the third, over two spines: its two downlinks take six flows.
    rows = [(i, 6 + i % 3, 10**9, i) for i in range(6)]
    fabric = clos(2, 3, 3)
    traffic = traffic_of(rows, [Collective("a", f"c{i}") for i in range(6)])
    proved = assign("ilp", fabric, traffic).bound.single
    plan = make_plan(fabric, traffic, policy="ilp", clock=ticks)
    assert proved is not None
    assert plan.bound.single is not None
    assert plan.bound.single <= proved
    assert plan.gap == pytest.approx(0, abs=1e-6)


@given(instances(phases=False))
def test_policies_stand_side_by_side_with_their_plans_and_their_busiest_link(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    assume((traffic.weight == 1).all())
    names = ["greedy", "ecmp", "greedy"]
    standings = compare(fabric, traffic, names, options=OPTIONS, clock=ticks)
    assert [standing.plan.policy for standing in standings] == names
    for standing in standings:
        plan = plan_of(fabric, traffic, standing.plan.policy)
        assert standing.plan.assignment.path.tolist() == plan.assignment.path.tolist()
        assert standing.pieces == plan.assignment.n_rows
        assert (standing.busiest_link is None) == (standing.pressure == 0)
        assert standing.plan.objective.min_speed * standing.pressure <= 1 + 1e-6
        if standing.busiest_link is not None:
            busiest = fabric.link_index[standing.busiest_link]
            assert busiest >= fabric.first_cable_link


def test_hosts_get_each_qp_with_its_flow_number_port_and_path() -> None:
    fabric = clos(2, 2, 1)
    job = parse_job({"name": "a", "qps": 3, "flows": [{"src": "h1", "dst": "h2", "bytes": 9}]})
    traffic = combine([expand(fabric, job)])
    plan = plan_of(fabric, traffic)
    wire = encode_flows(fabric, traffic, plan.assignment, "per_flow")
    rows = routes_document(fabric, traffic, plan, wire, "h1")["flows"]
    told = [(row["id"], row["flow"], row["qp"], row["qps"], row["qp_mode"], row["bytes"]) for row in rows]
    assert told == [(f"a/all/0.{qp}", "a/all/0", qp, 3, "split", 3) for qp in range(3)]
    assert [row["pieces"][0]["udp_src"] for row in rows] == traffic.udp_src.tolist()
    assert [row["pieces"][0]["path"] for row in rows] == [fabric.path_names[path] for path in plan.assignment.path]
