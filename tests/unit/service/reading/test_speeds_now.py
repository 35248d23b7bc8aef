"""No document, metric or series shows a speed above what the rules that switches hold give; unknown is no number."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from controller.core.ports.api import UNCONDITIONAL
from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.tolerances import TOLERANCE
from controller.rest import schemas
from controller.routing.objective.fairness import evaluate
from controller.southbound.enforcement.flow_packets import packet_of
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rollout.drift import CookieRule, Deviation, foreign_rules
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.priorities import FLOW
from controller.southbound.rules.rule import ETH_MPLS, Output, Rule, match
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from tests.unit.laws import examples
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(2, 3, 2)
NARROW = clos(1, 2, 2, parallel=2)
ROUNDING = 0.005  # of stored samples
STRANGE = ["address", "labels", "port", "any"]
HOSTS = {FABRIC: [host.name for host in FABRIC.hosts], NARROW: [host.name for host in NARROW.hosts]}


def report(dpid: int, name: str, epoch: int) -> SimpleNamespace:
    return SimpleNamespace(key=dpid, name=name, epoch=epoch, error="", missing=(), connected=True, waits_for=())


def confirm(
    world: World, fabric: Fabric, *, without: frozenset[str] = frozenset(), late: frozenset[str] = frozenset()
) -> None:
    """All switches but some are connected; all but ``late`` ones confirm the newest rules."""
    world.planned()
    epoch = world.service.state.enforced
    world.southbound.reports = [
        report(switch.dpid, switch.name, epoch - (switch.name in late))
        for switch in fabric.switches
        if switch.name not in without
    ]
    world.switches_changed()


def with_foreign(rules: RuleSet, foreign: dict[int, tuple[Rule, ...]]) -> RuleSet:
    held = dict(rules.switches)
    for dpid, more in foreign.items():
        held[dpid] = SwitchRules({**held[dpid].rules, **{rule.key: rule for rule in more}}, held[dpid].groups)
    return RuleSet(held)


def walked(world: World, held: RuleSet) -> dict[str, float | None]:
    """The speed of each job if packets go where the interpreter leads them by these rules; ``None``: hashed."""
    state = world.service.state
    assert state.fabric is not None
    assert state.candidate is not None
    assert state.encoding is not None
    fabric, traffic, wire = state.fabric, state.candidate.traffic, state.encoding
    walker = RuleInterpreter(fabric)
    paths, stopped, hashed = [], set(), False
    for row in range(len(wire.flow)):
        number = int(wire.flow[row])
        src, dst = int(traffic.src[number]), int(traffic.dst[number])
        source, target = fabric.hosts[src], fabric.hosts[dst]
        packet = packet_of(source, target, int(wire.udp_src[row]))
        walks = list(walker.every_walk(held, packet, source=source.name)) if source.up and target.up else []
        arriving = [walk for walk in walks if walk.host == target.name]
        if not arriving:
            stopped.add(traffic.collectives[traffic.collective[number]].job)
        hashed |= len(walks) > 1
        paths.append(UNROUTABLE if not arriving else path_of(fabric, src, dst, arriving[0].hops))
    assignment = Assignment(wire.flow, np.array(paths, dtype=np.int32), wire.share)
    # A speed is relative to the time alone on the cables in use; in mode frozen, drained ones still are.
    used = fabric if state.desired.mode == "frozen" else state.candidate.planned_on
    routed = assignment.path >= 0
    leaf_src, leaf_dst = (fabric.host_leaf[end[wire.flow[routed]]] for end in (traffic.src, traffic.dst))
    # Of packets on other cables no speed is known.
    hashed |= not bool(used.live_ways.joined(leaf_src, leaf_dst, assignment.path[routed]).all())
    speed = np.zeros(len(traffic.collectives)) if hashed else np.nan_to_num(evaluate(used, traffic, assignment).speed)
    of = {
        row.job: [k for k, each in enumerate(traffic.collectives) if each.job == row.job] for row in traffic.collectives
    }
    return {job: 0.0 if job in stopped else None if hashed else float(speed[rows].min()) for job, rows in of.items()}


def path_of(fabric: Fabric, src: int, dst: int, hops: Any) -> int:
    """The number of the path that these hops are; where they are none, any: then no speed may be shown."""
    at = [(hop.switch, hop.out_port) for hop in hops]
    leaf_src, leaf_dst = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    if leaf_src == leaf_dst:
        return LOCAL
    ends = {
        (cable.lower, cable.lower_port): fabric.first_cable_link + 2 * c for c, cable in enumerate(fabric.cables)
    } | {(cable.upper, cable.upper_port): fabric.first_cable_link + 2 * c + 1 for c, cable in enumerate(fabric.cables)}
    links = tuple(ends[each] for each in at if each in ends)
    for path in range(fabric.n_paths):
        if tuple(fabric.flow_links(src, dst, path)[1:-1]) == links:
            return path
    return 0


def shown(world: World) -> dict[str, dict[str, float | None]]:
    """Every present speed, by place and job (empty name: of the slowest job)."""
    read = world.read
    listed = {row["name"]: row["speed"] for row in read(lambda service: service.jobs())["jobs"]}
    alone = {name: orjson.loads(world.service.job(name).document)["speed"] for name in listed}  # type: ignore[arg-type]
    health = schemas.Health.model_validate(world.health)
    samples = list(text_string_to_metric_families(world.service.metrics("").body.decode()))
    metrics: dict[str, float | None] = {}
    slowest: dict[str, float | None] = {"": health.slowest_job.speed}
    for family in samples:
        if family.name == "fairspine_job_speed_ratio":
            metrics = {sample.labels["job"]: sample.value for sample in family.samples}
        if family.name == "fairspine_slowest_job_speed_ratio":
            assert [sample.value for sample in family.samples] == [v for v in slowest.values() if v is not None]
    if health.slowest_job.speed is None:
        assert health.slowest_job.job is None
        assert bool(health.slowest_job.unknown) or not any(row["flows"] for row in read(lambda s: s.jobs())["jobs"])
    return {"list": listed, "job": alone, "metrics": metrics, "health": slowest}


def recorded(world: World) -> dict[str, float | None]:
    """The only sample of each job in the history of the last minutes."""
    world.service.recorder.sample()
    names = [job.name for job in world.service.state.jobs]
    documents = {name: orjson.loads(world.service.job_history(name)) for name in names}  # type: ignore[arg-type]
    return {
        name: max((v for v in told["series"][0]["mean"] if v is not None), default=None)
        for name, told in documents.items()
    }


def check_planned(world: World) -> None:
    """A plan is planned as fast as its slowest job, in documents and metrics; 0 if it has no path for some flow."""
    rows = world.read(lambda service: service.jobs())["jobs"]
    jobs = [row["min_speed"] for row in rows if row["min_speed"] is not None]
    (newest,) = world.read(lambda service: service.plans(None, 1))["plans"]
    lines = world.service.metrics("").body.decode().splitlines()
    metric = [float(line.split()[1]) for line in lines if line.startswith("fairspine_plan_min_speed_ratio ")]
    wanted = min(jobs, default=1.0)
    assert metric == pytest.approx([wanted])
    # In mode frozen, plans that no switch follows are not recorded.
    if newest["epoch"] == world.service.state.epoch:
        assert newest["min_speed"] == pytest.approx(wanted)
        assert newest["unroutable"] == 0 or wanted == 0


def check(world: World, held: RuleSet, *, history: bool = False) -> None:
    real = walked(world, held)
    places = {**shown(world), **({"history": recorded(world)} if history else {})}
    for place, speeds in places.items():
        for job, speed in speeds.items():
            if speed is None or speed == 0:
                continue
            limits = [real[job]] if job else list(real.values())
            assert None not in limits, f"{place} shows {speed} of {job or 'the slowest job'}, which is hashed"
            assert speed <= min(limit for limit in limits if limit is not None) + (
                ROUNDING if place == "history" else TOLERANCE
            ), (place, job, speed, real)


@st.composite
def situations(draw: st.DrawFn) -> dict[str, Any]:
    fabric = draw(st.sampled_from([FABRIC, FABRIC, NARROW]))
    pair = st.lists(st.sampled_from(HOSTS[fabric]), min_size=2, max_size=2, unique=True)
    parts = [*fabric.cable_names, *(switch.name for switch in fabric.leaves), fabric.hosts[0].name + "-leaf1"]
    return {
        "fabric": fabric,
        "jobs": draw(st.lists(st.lists(pair, min_size=1, max_size=4, unique_by=tuple), min_size=1, max_size=2)),
        "down": draw(st.sets(st.sampled_from(parts), max_size=3)),
        "drained": draw(st.sets(st.sampled_from(fabric.cable_names), max_size=2)),
        "mode": draw(st.sampled_from(["planned", "planned", "planned", "ecmp", "frozen"])),
        "enforcement": draw(st.sampled_from(rule_enforcements())),
        "without": draw(st.sampled_from([frozenset(), frozenset(), frozenset({"spine1"}), frozenset({"leaf2"})])),
        "late": draw(st.sampled_from([frozenset(), frozenset(), frozenset({"leaf1"})])),
        # A rule of a stranger that drops, and where: at the first leaf of a flow, or at any switch.
        "foreign": draw(st.none() | st.tuples(st.sampled_from(STRANGE), st.none() | st.integers(0, 9))),
    }


@settings(max_examples=examples(12, 300), deadline=None)
@given(situations())
def test_no_speed_is_above_that_of_the_rules_that_switches_hold(case: dict[str, Any]) -> None:
    fabric = case["fabric"]
    world = World(fabric, seen(fabric), enforcement=case["enforcement"]).planned()
    try:
        for number, pairs in enumerate(case["jobs"]):
            world.put(f"job{number}", [flow(a, b, 10**9) for a, b in pairs])
        for name in case["drained"]:
            world.service.drain(name, True, ANN)
        confirm(world, fabric)
        if case["mode"] != "planned":
            world.service.set_mode(case["mode"], None, ANN)
        confirm(world, fabric)
        before = world.installed[-1][0]
        if case["down"]:
            network = seen(fabric.without_links(case["down"]))
            world.show(network, lambda state: state.network == network)
        confirm(world, fabric, without=case["without"], late=case["late"])
        newest = world.installed[-1][0]
        names = {switch.name: switch.dpid for switch in fabric.switches}
        old = {names[name] for name in case["late"] | case["without"] if name in names}
        held = RuleSet({dpid: (before if dpid in old else newest)[dpid] for dpid in names.values()})
        if case["foreign"]:
            src, dst = case["jobs"][0][0]
            kind, number = case["foreign"]
            leaf = names[fabric.hosts[fabric.host_index[src]].leaf]
            at = leaf if number is None else list(names.values())[number % len(names)]
            fields = {"eth_type": 0x800, "ipv4_dst": fabric.hosts[fabric.host_index[dst]].ip}
            fields = {"address": fields, "labels": {"eth_type": ETH_MPLS}, "port": {"in_port": 1}, "any": {}}[kind]
            rule = Rule(0, FLOW + 100, match(**fields), ())
            # What the controller learns by reading back: only rules that catch packets of its own ones.
            learned = foreign_rules([CookieRule(0x77, rule)], held[at])
            held = with_foreign(held, {at: (rule,)})
            world.southbound.deviating = {} if learned is None else {at: Deviation(False, learned.rules)}
        check(world, held)
        world.until(lambda: "being examined" not in str(world.health["slowest_job"]["unknown"]))
        check(world, held, history=True)
        world.settle()
        check_planned(world)
    finally:
        world.close()


def told(world: World) -> tuple[Any, ...]:
    """The slowest job, its speed, those of all jobs, and the metric of the slowest."""
    slowest = world.health["slowest_job"]
    rows = {row["name"]: row["speed"] for row in world.read(lambda service: service.jobs())["jobs"]}
    lines = world.service.metrics("").body.decode().splitlines()
    metric = [float(line.split()[1]) for line in lines if line.startswith("fairspine_slowest_job_speed_ratio ")]
    return slowest["job"], slowest["speed"], rows, metric


def cut_off(mode: str) -> World:
    """Both uplinks of leaf1 are down; job a needs them, job b does not."""
    world = World(FABRIC, seen(FABRIC)).planned()
    world.put("a", [flow("h1", "h3"), flow("h3", "h5")])
    world.put("b", [flow("h4", "h6")])
    if mode != "planned":
        world.service.set_mode(mode, None, ANN)  # type: ignore[arg-type]
    network = seen(FABRIC.without_links(["leaf1-spine1", "leaf1-spine2"]))
    world.show(network, lambda state: state.network == network)
    confirm(world, FABRIC)
    return world


def test_a_job_that_is_cut_off_is_at_speed_0_everywhere_and_so_is_the_plan() -> None:
    world = cut_off("planned")
    assert told(world) == ("a", 0.0, {"a": 0.0, "b": 1.0}, [0.0])
    world.settle()
    (newest,) = world.read(lambda service: service.plans(None, 1))["plans"]
    assert (newest["min_speed"], newest["slowest"], newest["unroutable"]) == (0.0, 0.0, 1)
    assert recorded(world) == {"a": 0.0, "b": 1.0}
    world.close()


def test_in_mode_ecmp_what_is_cut_off_is_at_speed_0_and_the_rest_is_not_known() -> None:
    world = cut_off("ecmp")
    assert told(world) == ("a", 0.0, {"a": 0.0, "b": None}, [0.0])
    world.close()


def test_without_a_switch_nothing_is_known() -> None:
    world = cut_off("planned")
    world.southbound.reports = []
    world.switches_changed()
    assert told(world) == (None, None, {"a": None, "b": None}, [])
    assert world.health["slowest_job"]["unknown"] == "no switch is connected"
    world.close()


def test_when_all_switches_are_lost_the_health_is_degraded_once_it_has_been_up() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    assert world.health["status"] == "starting"
    confirm(world, FABRIC)
    assert world.health["status"] == "ok"
    world.southbound.reports = []
    world.switches_changed()
    assert (world.health["status"], world.health["reasons"]) == ("degraded", ["no switch is connected"])
    world.close()


def test_rules_of_others_stop_the_job_whose_flow_they_drop_and_change_no_other() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    world.put("a", [flow("h1", "h3")])
    world.put("b", [flow("h4", "h6")])
    confirm(world, FABRIC)
    assert told(world) == ("a", 1.0, {"a": 1.0, "b": 1.0}, [1.0])
    for actions, speeds in (((), {"a": 0.0, "b": 1.0}), ((Output(99),), {"a": 0.0, "b": None})):
        address = FABRIC.hosts[FABRIC.host_index["h3"]].ip
        rule = Rule(0, FLOW + 100, match(eth_type=0x800, ipv4_dst=address), actions)
        world.southbound.deviating = {FABRIC.leaves[0].dpid: Deviation(False, (rule,))}
        world.until(lambda: "being examined" not in str(world.health["slowest_job"]["unknown"]))
        assert told(world) == ("a", 0.0, speeds, [0.0])
        active = {row["name"]: row["active"] for row in world.read(lambda service: service.jobs())["jobs"]}
        assert active == {"a": False, "b": True}
    world.southbound.deviating = {FABRIC.leaves[0].dpid: Deviation(True, ())}
    assert told(world) == (None, None, {"a": None, "b": None}, [])
    world.close()


def test_of_a_job_without_flows_is_said_that_nothing_is_routed() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    job = {"hosts": ["h1"], "collectives": [{"name": "c", "op": "all_reduce", "ranks": [0], "bytes": 10}]}
    world.service.put_job("one", orjson.dumps(job), UNCONDITIONAL, ANN)
    confirm(world, FABRIC)
    (row,) = world.read(lambda service: service.jobs())["jobs"]
    assert (row["active"], row["speed"]) == (False, None)
    assert "nothing will be routed" in row["left_out"]
    assert world.health["slowest_job"] == {"job": None, "speed": None, "unknown": None}
    world.close()


def test_links_of_switches_that_are_not_connected_are_not_known_to_be_up() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    network = seen(FABRIC.without_links(["leaf1-spine1"]))
    world.show(network, lambda state: state.network == network)
    confirm(world, FABRIC, without=frozenset({"leaf1"}))
    cables = {row["id"]: (row["up"], row["known"]) for row in world.read(lambda service: service.fabric())["links"]}
    links = {row["id"]: (row["up"], row["known"]) for row in world.read(lambda service: service.links())["links"]}
    assert (cables["leaf1-spine1"], cables["leaf1-spine2"], cables["leaf2-spine1"]) == (
        *((False, True), (True, False)),
        (True, True),
    )
    assert (links["leaf1->spine1"], links["leaf1->spine2"], links["spine1->leaf2"]) == tuple(
        cables[name] for name in ("leaf1-spine1", "leaf1-spine2", "leaf2-spine1")
    )
    assert (links["h1->leaf1"], links["h3->leaf2"]) == ((True, False), (True, True))
    up = {
        re.search('link="([^"]*)"', line)[1]: float(line.split()[-1])  # type: ignore[index]
        for line in world.service.metrics("").body.decode().splitlines()
        if line.startswith("fairspine_link_up{")
    }
    assert up == {name: float(is_up) for name, (is_up, known) in links.items() if known}
    world.close()


def test_a_rule_of_another_program_for_labelled_packets_stops_the_jobs_whose_labels_it_sees() -> None:
    world = World(FABRIC, seen(FABRIC), enforcement="segment_routing").planned()
    world.put("a", [flow("h1", "h3")])
    confirm(world, FABRIC)
    assert told(world) == ("a", 1.0, {"a": 1.0}, [1.0])
    for fields in ({"eth_type": ETH_MPLS}, {"eth_type": ETH_MPLS, "mpls_bos": 0}, {"in_port": 1}, {}):
        rule = Rule(0, FLOW + 100, match(**fields), ())
        world.southbound.deviating = {switch.dpid: Deviation(False, (rule,)) for switch in FABRIC.spines}
        world.until(lambda: "being examined" not in str(world.health["slowest_job"]["unknown"]))
        assert told(world) == ("a", 0.0, {"a": 0.0}, [0.0]), fields
        world.southbound.deviating = {}
        assert told(world) == ("a", 1.0, {"a": 1.0}, [1.0])
    world.close()
