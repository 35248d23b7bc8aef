"""Traces of a running service: of whichever plan, mode and job, made from what switches say they hold."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from typing import Any

import pytest

from controller.core.ports.api import UNCONDITIONAL
from controller.model.errors import NotFoundError, UnavailableError
from controller.model.files.clos import clos
from controller.model.network_state import NetworkState
from controller.rest import schemas
from controller.service.service import Service
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.southbound.rules.rule import Rule, match
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from controller.telemetry.counters import RuleCounters, SwitchCounters
from controller.telemetry.trace_summary import is_without_path
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen
from tests.unit.telemetry.readings import reading

FABRIC = clos(3, 3, 2)
RING = {
    "hosts": ["h1", "h3", "h5"],
    "collectives": [{"name": "dp", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2], "bytes": 10**6}],
}


@pytest.fixture
def world() -> World:
    """Switches hold what was installed last."""
    made = World(FABRIC, seen(FABRIC)).planned()
    made.southbound.held = lambda: reading(FABRIC, made.installed[-1][0])
    made.service.put_job("ring", json.dumps(RING).encode(), UNCONDITIONAL, ANN)
    made.put("single", [flow("h2", "h4"), flow("h1", "h2")])
    return made.planned()


def traced(world: World, job: str | None = None, compare: str | None = None) -> dict[str, Any]:
    told = world.read(lambda service: service.trace(job, compare))
    schemas.TraceDocument.model_validate(told)
    return told


def test_in_every_enforcement_flows_are_on_the_paths_in_the_routes_of_hosts(world: World) -> None:
    for enforcement in rule_enforcements():
        world.service.set_mode("planned", enforcement, ANN)
        told = traced(world.planned())
        assert (told["enforcement"], told["mode"], told["silent"]) == (enforcement, "planned", [])
        real = {(flow["id"], flow["piece"]): flow["real"] for flow in told["flows"]}
        hosts = [world.read(partial(Service.routes, host=host.name)) for host in FABRIC.hosts]
        assert real == {
            (one["id"], n): piece["links"]
            for host in hosts
            for one in host["flows"]
            for n, piece in enumerate(one["pieces"])
        }
        assert not any(flow["differs"] or flow["why"] for flow in told["flows"])


def test_a_trace_of_one_job_has_only_its_flows_with_ranks(world: World) -> None:
    told = traced(world, "ring")
    assert {(f["src_rank"], f["dst_rank"], f["job"], f["collective"]) for f in told["flows"]} == {
        (0, 1, "ring", "dp"),
        (1, 2, "ring", "dp"),
        (2, 0, "ring", "dp"),
    }
    assert {row["flows"] for row in told["links"]} <= {0, 1}
    assert {f["src_rank"] for f in traced(world, "single")["flows"]} == {None}
    with pytest.raises(NotFoundError, match="nobody"):
        world.service.trace("nobody", None)


def test_ecmp_is_compared_with_the_plan_where_that_is_asked_for(world: World) -> None:
    assert traced(world)["compare"] is None
    compared = traced(world, None, "ecmp")["compare"]
    assert compared["plan_min_speed"] == world.service.state.plan.objective.min_speed  # type: ignore[union-attr]
    assert compared["min_speed"]["max"] <= 1


def test_in_mode_ecmp_flows_are_hashed_and_frozen_they_are_where_they_were(world: World) -> None:
    planned = {flow["id"]: flow["planned"] for flow in traced(world)["flows"]}
    frozen_at = world.service.set_mode("frozen", None, ANN)["epoch"]  # type: ignore[index, call-overload]
    world.put("later", [flow("h6", "h3")])
    told = {flow["id"]: flow for flow in traced(world)["flows"]}
    assert {id_: told[id_]["real"] for id_ in planned} == planned
    late = told["later/all/0"]
    assert late["how"] == "none"
    assert "leaf3 has no rule for it" in late["why"]
    assert f"mode is frozen; plan {frozen_at + 1} waits" in late["why"]
    world.service.set_mode("ecmp", None, ANN)
    told = {flow["id"]: flow for flow in traced(world.planned())["flows"]}
    across = [one for one in told.values() if len(one["planned"]) == 4]
    assert {one["how"] for one in across} == {"none"}
    assert all(one["why"].startswith("mode is ecmp: hashed over ") for one in across)


def test_a_plan_that_is_not_installed_yet_is_the_reason(world: World) -> None:
    before = reading(FABRIC, world.installed[-1][0])
    world.southbound.held = lambda: before
    world.put("later", [flow("h6", "h3")])
    world.switches[0].key, world.switches[0].epoch = 3, world.service.state.epoch - 1
    (late,) = (flow for flow in traced(world)["flows"] if flow["job"] == "later")
    assert late["why"].startswith("leaf3 has no rule for it: hashed over")
    assert f"plan {world.service.state.epoch} is computed, leaf3 has not confirmed it yet" in late["why"]


def test_switches_that_were_not_read_are_named(world: World) -> None:
    world.southbound.held = lambda: reading(FABRIC, world.installed[-1][0], without=["spine2", "leaf1"])
    assert traced(world)["silent"] == ["leaf1", "spine2"]


def test_before_the_fabric_is_known_there_is_no_trace() -> None:
    with pytest.raises(UnavailableError):
        World(None, NetworkState(starting=True)).service.trace(None, None)


def test_rates_of_flows_are_those_that_the_poller_knows(world: World) -> None:
    assert {flow["rate_gbps"] for flow in traced(world)["flows"]} == {None}
    readings, rules = world.readings, world.installed[-1][0]
    for at in (0, 2):
        for dpid in rules:
            planned = (key for key in rules[dpid].rules if FLOW <= key[1] < DISCOVERY)
            counts = {key: RuleCounters(at, at * (n + 1) * 10**9) for n, key in enumerate(sorted(planned, key=str))}
            readings.add(SwitchCounters(dpid, at, rules=counts))
    # Two flows begin at leaf1, one each at the others; nobody counts what stays within a leaf.
    rates = {flow["id"]: flow["rate_gbps"] for flow in traced(world)["flows"]}
    local = rates.pop("single/all/1")
    assert local is None
    assert sorted(rates.values()) == [8, 8, 8, 16]


def test_a_flow_without_a_path_is_told_from_one_that_is_on_its_planned_path(world: World) -> None:
    network = seen(FABRIC.without_links([f"leaf1-spine{n}" for n in (1, 2, 3)]))
    world.show(network, lambda state: state.network == network)
    fabric = world.service.state.fabric
    assert fabric is not None
    world.southbound.held = lambda: reading(fabric, world.installed[-1][0])
    flows = traced(world)["flows"]
    without = [flow for flow in flows if is_without_path(flow)]
    assert {flow["src"] for flow in without} | {flow["dst"] for flow in without} >= {"h1"}
    assert {(flow["arrives"], flow["differs"]) for flow in without} == {(False, False)}
    assert {flow["arrives"] for flow in flows if flow not in without} == {True}


def test_a_rule_of_others_is_blamed_wherever_it_drops_a_planned_flow(world: World) -> None:
    rules = world.installed[-1][0]
    (flow_before,) = (flow for flow in traced(world)["flows"] if flow["job"] == "single" and flow["dst"] == "h4")
    spine = flow_before["planned"][1].split("->")[1].split(":")[0]
    address = FABRIC.hosts[FABRIC.host_index["h4"]].ip
    foreign = Rule(0, FLOW + 100, match(eth_type=0x800, ipv4_dst=address))
    for name in ("leaf1", spine):
        dpid = {switch.name: switch.dpid for switch in FABRIC.switches}[name]
        held = rules[dpid]
        changed = RuleSet({**rules.switches, dpid: SwitchRules({**held.rules, foreign.key: foreign}, held.groups)})
        snapshot = reading(FABRIC, changed)
        one = dataclasses.replace(snapshot.switches[dpid], foreign={foreign.key: 0x77})
        world.southbound.held = partial(dataclasses.replace, snapshot, switches={**snapshot.switches, dpid: one})
        (told,) = (flow for flow in traced(world)["flows"] if flow["job"] == "single" and flow["dst"] == "h4")
        assert (told["real"], told["differs"], told["arrives"]) == (None, True, False)
        assert told["why"].startswith(f"{name}: a rule not installed by fairspine (cookie 0x77, table 0, priority ")
        assert told["why"].endswith(f"matches it before the rules of fairspine; {name} drops it")
