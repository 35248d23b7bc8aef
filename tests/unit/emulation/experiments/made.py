"""Experiments that were never run: plans as the controller makes them, and counters as honest switches would show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import yaml

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from controller.model.paces import Paces, PacketSize
from controller.planning.make_plan import make_plan
from controller.planning.plan_document import plan_document, routes_document
from controller.routing.pacing.paces import wire_paces
from controller.southbound.enforcement.labels import LABEL_BYTES
from controller.southbound.enforcement.registry import ENFORCEMENTS, encode_flows
from emulation.experiments.counters import GroupCount, RuleCount, Snapshot
from emulation.experiments.evidence import Planned, judge, planned_units
from emulation.experiments.request import Draw, EmulatedScenario, ExperimentRequest, load
from emulation.experiments.results import CollectiveMeasured, ExperimentOutcome, JobMeasured, MeasuredDraw
from emulation.experiments.scale import Scale
from tests.unit.strategies import with_routers

PACKETS, FRAME = 100, 4154
UPLINK_PORT = 10


def scenario_of(folder: Path, clos: str, jobs: list[dict[str, Any]], **options: Any) -> EmulatedScenario:
    """Return a scenario whose files are in a folder."""
    (folder / "fabric.yaml").write_text(f"clos: {clos}\n")
    return scenario_on(folder / "fabric.yaml", jobs, **options)


def scenario_of_routers(fabric: Fabric, folder: Path, jobs: list[dict[str, Any]], **options: Any) -> EmulatedScenario:
    """Return a scenario on a fabric with routers in place of its switches, whose files are in a folder."""
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric_document(with_routers(fabric))))
    return scenario_on(folder / "fabric.yaml", jobs, enforcement="srv6", **options)


def scenario_on(fabric: Path, jobs: list[dict[str, Any]], **options: Any) -> EmulatedScenario:
    """Return a scenario on a fabric; the files of its jobs are beside that of the fabric."""
    folder, paths = fabric.parent, []
    for number, job in enumerate(jobs):
        paths.append(folder / f"job{number}.json")
        paths[-1].write_text(json.dumps(job))
    return load(ExperimentRequest(fabric, tuple(paths), out=folder / "out", **options))


def ring(name: str, hosts: list[str], size: int = 10**9) -> dict[str, Any]:
    """Return a job with one ring all-reduce."""
    call = {"name": "dp0", "op": "all_reduce", "algorithm": "ring", "ranks": list(range(len(hosts))), "bytes": size}
    return {"name": name, "hosts": hosts, "collectives": [call]}


def told(scenario: EmulatedScenario, draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``GET /v1/plan`` and, for each host, ``GET /v1/routes`` would say."""
    fabric, traffic = scenario.fabric, scenario.traffic
    plan = make_plan(fabric, traffic, policy=draw.routing, seed=draw.seed, clock=lambda: 0.0)
    document = orjson.loads(orjson.dumps(plan_document(fabric, traffic, plan)))
    wire = encode_flows(fabric, traffic, plan.assignment, scenario.request.enforcement)
    stack = ENFORCEMENTS[scenario.request.enforcement].labels

    def labels(src_leaf: int, dst_leaf: int, path: int) -> tuple[int, ...]:
        return stack(fabric, src_leaf, dst_leaf, path, {})

    rows = Assignment(wire.flow, wire.path, wire.share)
    paces = Paces(wire_paces(fabric, traffic, rows), PacketSize())
    routes = {
        host.name: routes_document(fabric, traffic, plan, wire, host.name, labels=labels, paces=paces)
        for host in fabric.hosts
    }
    return document, routes


def units(scenario: EmulatedScenario, draw: Draw) -> list[Planned]:
    """Return the planned units of a draw, with ``PACKETS`` packets each."""
    _, routes = told(scenario, draw)
    every = {
        (host, flow["dst"], piece["udp_src"]): PACKETS * 4096
        for host, document in routes.items()
        for flow in document["flows"]
        for piece in flow["pieces"]
    }
    rule_port = ENFORCEMENTS[scenario.request.enforcement].rule_port
    ips = {host.name: host.ip for host in scenario.fabric.hosts}
    return planned_units(ips, routes, every, None if rule_port is None else partial(rule_port, scenario.fabric))


def ports(scenario: EmulatedScenario) -> dict[str, int]:
    """Return a port number for each uplink."""
    fabric = scenario.fabric
    return {link: UPLINK_PORT + i for i, link in enumerate(fabric.link_ids[fabric.first_cable_link :: 2])}


def counters(scenario: EmulatedScenario, planned: list[Planned], *, packets: int) -> Snapshot:
    """What honest switches show when each unit has had so many packets: a group for each uplink, two buckets."""
    fabric, port = scenario.fabric, ports(scenario)
    rules: dict[str, dict[Any, RuleCount]] = {leaf.name: {} for leaf in fabric.leaves}
    groups: dict[str, dict[int, GroupCount]] = {leaf.name: {} for leaf in fabric.leaves}
    sent = dict.fromkeys(fabric.link_ids[fabric.first_cable_link :], 0)
    for one in planned:
        number = port[one.links[0]]
        sum_before = rules[one.leaf].get(one.rule, RuleCount(0, 0, number))
        every = sum_before.packets + packets
        rules[one.leaf][one.rule] = RuleCount(every, every * FRAME, number)
        before = groups[one.leaf].get(number, GroupCount(number, (0, 0)))
        groups[one.leaf][number] = replace(before, packets=(before.packets[0] + packets, 0))
        sent[one.links[0]] += packets * (FRAME + one.labels * LABEL_BYTES)
        sent[one.links[1]] += packets * FRAME
    return Snapshot(rules, groups, sent)


def run_of(
    scenario: EmulatedScenario, draw: Draw, seconds: Mapping[str, float], *, wrong: tuple[str, ...] = ()
) -> MeasuredDraw:
    """A run in which each job's collective took so long, and every packet went as planned."""
    plan, _ = told(scenario, draw)
    planned = units(scenario, draw)
    evidence = judge(
        planned,
        ports(scenario),
        counters(scenario, planned, packets=0),
        counters(scenario, planned, packets=PACKETS),
        retransmissions=0,
    )
    rows = tuple(
        CollectiveMeasured(row["job"], row["name"], seconds[row["job"]], row["seconds"], 1000, 0, 0, wrong)
        for row in plan["collectives"]
    )
    jobs = tuple(JobMeasured(row.job, (row.seconds,), row.predicted) for row in rows if row.predicted is not None)
    return MeasuredDraw(draw, plan, rows, evidence, jobs)


def outcome_of(
    scenario: EmulatedScenario, seconds: Mapping[str, Mapping[str, float]], **options: Any
) -> ExperimentOutcome:
    """An outcome: ``seconds[policy][job]``, a little more in each further draw."""
    runs = []
    for i, draw in enumerate(scenario.draws):
        times = {job: value + 0.01 * i for job, value in seconds[draw.policy].items()}
        runs.append(run_of(scenario, draw, times, **options))
    return ExperimentOutcome(scenario, Scale(0.15, 0.005), tuple(runs), 90.0)
