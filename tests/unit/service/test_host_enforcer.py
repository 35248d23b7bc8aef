"""The enforcer by hosts: it hands out plans, and claims nothing that agents have not confirmed."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.host_table import read_table
from controller import host_enforcer
from controller.core.errors import ConflictError
from controller.core.ports.host_agents import (
    AgentHas,
    Bypass,
    DeadPath,
    FlowPort,
    HostReport,
    PathEvidence,
    PlanId,
    PortlessPaths,
    PortReport,
    RoundTrips,
    StrangeAnswers,
)
from controller.host_enforcer import SILENT_SECONDS
from controller.model.errors import UnavailableError
from controller.model.files.clos import clos
from controller.model.network_state import PortlessPath
from controller.southbound.enforcement.learned_ports import LearnedPort
from tests.rig.routers.answering_routers import addressed
from tests.unit.service.host_world import FABRIC, GoneError, World

HOSTS = FABRIC.host_names


FLOW = (0, 2, 0)  # h1 to h3


class PortsWorld(World):
    """Hosts that find source ports."""

    enforcement, fabric = "probed_port", addressed(clos(2, 3, 2))


def test_a_router_holds_a_plan_when_its_hosts_that_take_part_have_confirmed_it() -> None:
    world = World()
    assert world.enforcer.switches() == []
    world.install(7, [FLOW])
    assert world.epochs() == {"leaf1": -1, "leaf2": -1, "leaf3": 7, "spine1": 7, "spine2": 7}
    assert world.waiting() == ["h1", "h3"]
    world.follow("h1")
    assert world.epochs()["leaf1"] == 7
    assert world.waiting() == ["h3"]
    world.follow("h3")
    assert set(world.epochs().values()) == {7}
    counts = world.enforcer.agents
    assert counts is not None
    assert (counts.expected, counts.heard, counts.confirmed) == (2, 2, 2)


@given(
    st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(["nothing", "older", "this", "destinations"]))),
    st.booleans(),
)
def test_plans_that_are_asked_for_together_are_those_of_each_alone(
    asked: list[tuple[str, str]], by_table: bool
) -> None:
    worlds = World(), World()
    newest = {}
    for world in worlds:
        world.install(1, [FLOW])
        older = {host: world.follow(host) for host in HOSTS}
        world.install(2, [FLOW, (1, 4, 1)])
        newest = {host: world.ask(host) for host in HOSTS}
    has = []
    for host, what in asked:
        plan = newest[host]
        assert plan is not None
        known = {"older": older[host], "this": PlanId(2, plan["digest"])}.get(what)
        has.append(AgentHas(known, plan["destinations_digest"] if what == "destinations" else "", by_table))
    rows = [(host, each) for (host, _), each in zip(asked, has, strict=True)]
    together = worlds[0].enforcer.plans(rows).answers
    assert together == [worlds[1].enforcer.plan(host, each, 0.0, bool) for host, each in rows]
    assert [answer is None for answer in together] == [what == "this" for _, what in asked]
    assert worlds[0].waiting() == worlds[1].waiting()


def test_plans_have_another_version_whenever_there_is_something_new_to_ask_for() -> None:
    world = World()
    enforcer, runtime = world.enforcer, world.runtime
    before = enforcer.plans([("h1", AgentHas())])
    assert before.answers == [None]
    runtime.then.append(lambda: world.install(1, [FLOW]))
    version = enforcer.version(before.version, 60.0, bool)
    assert version != before.version
    assert enforcer.plans([]).version == version
    assert enforcer.version(version, 5.0, bool) == version
    assert runtime.at >= 5.0
    runtime.then.append(lambda: enforcer.withhold_changes("the store has another leader"))
    withheld = enforcer.version(version, 60.0, bool)
    assert withheld != version
    assert enforcer.plans([("h1", AgentHas())]).answers == [None]
    at = runtime.at
    assert enforcer.version(withheld, 60.0, lambda: True) == withheld
    assert runtime.at == at
    assert World().enforcer.plans([]).version != World().enforcer.plans([]).version


def test_plans_that_hosts_cannot_have_are_refused_one_by_one() -> None:
    world = World()
    world.install(1, [FLOW])
    refused, given_ = world.enforcer.plans([("h1", AgentHas(form="ports")), ("h1", AgentHas())]).answers
    assert isinstance(refused, ConflictError)
    assert isinstance(given_, bytes)
    (refused,) = World(by_hosts=False).enforcer.plans([("h1", AgentHas())]).answers
    assert isinstance(refused, ConflictError)


FLOWS = ([FLOW, (1, 4, 0)], [FLOW, (1, 4, 1)], [(0, 2, 1), (1, 4, 1)])
"""Plans of which some say the same to h1 or h2."""

STEPS = ["install", "take", "lose", "confirm", "null", "wrong"]


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(HOSTS), st.integers(0, 2), st.booleans()), max_size=40)
)
def test_nothing_is_claimed_that_no_report_has_confirmed(steps: list[tuple[str, str, int, bool]]) -> None:
    """A plan that says the same as a confirmed one is confirmed; but not after its agent was given another one."""
    world, oracle = World(), World()
    epoch = 0
    has, holds = dict[str, PlanId](), dict[str, str]()
    reported = dict[str, PlanId]()

    def install(flows: int) -> None:
        for each in (world, oracle):
            each.install(epoch, FLOWS[flows])

    install(0)
    for kind, host, flows, changes in steps:
        newest = oracle.ask(host)
        assert newest is not None
        if kind == "install":
            epoch += 1
            install(flows)
        elif kind in ("take", "lose"):
            body = world.enforcer.plan(host, AgentHas(has.get(host), by_table=True, changes=changes), 0.0, bool)
            if body is not None and kind == "take":
                plan = orjson.loads(body)
                has[host] = PlanId(plan["epoch"], plan["digest"])
                # While the kernel changes, it holds neither.
                holds.pop(host, None)
        elif kind == "confirm" and host in has:
            holds[host], reported[host] = has[host].digest, has[host]
            world.enforcer.report(host, HostReport(has[host]))
        elif kind in ("null", "wrong"):
            reported.pop(host, None)
            world.enforcer.report(host, HostReport(None if kind == "null" else PlanId(epoch, "0" * 16)))
        waiting = world.waiting()
        for name in {"h1", "h2", "h3", "h5"} - {*waiting}:
            wanted = oracle.ask(name)
            assert wanted is not None
            assert name in reported
            assert holds.get(name) == wanted["digest"]
        for name in waiting:
            assert reported.get(name, PlanId(-1, "")).epoch != epoch or (name in has and has[name] != reported[name])
        assert {name for name, held in world.epochs().items() if held < epoch} == {
            FABRIC.hosts[FABRIC.host_index[name]].leaf for name in waiting
        }


@given(st.lists(st.tuples(st.just(0), st.sampled_from([2, 4]), st.integers(0, 1)), max_size=3, unique=True))
def test_destinations_that_the_agent_has_are_left_out_and_the_rest_is_that_of_the_whole_plan(
    flows: list[tuple[int, int, int]],
) -> None:
    world = World()
    world.install(1, [FLOW])
    first = world.ask("h1")
    assert first is not None
    world.install(2, flows)
    whole = world.ask("h1")
    assert whole is not None
    body = world.enforcer.plan("h1", AgentHas(None, first["destinations_digest"]), 0.0, lambda: False)
    assert body is not None
    part = orjson.loads(body)
    assert part["destinations"] is None
    assert {**part, "destinations": first["destinations"]} == whole
    other = world.enforcer.plan("h1", AgentHas(None, "0" * 16), 0.0, lambda: False)
    assert other is not None
    assert orjson.loads(other) == whole


def test_a_plan_is_the_same_one_with_a_table_of_hosts_and_with_a_carrier_for_each() -> None:
    world = World()
    world.install(1, [FLOW])
    rows = world.ask("h1")
    body = world.enforcer.plan("h1", AgentHas(by_table=True), 0.0, lambda: False)
    assert rows is not None
    assert body is not None
    plan, table = orjson.loads(body), orjson.loads(world.enforcer.table("h1"))
    assert plan["digest"] == rows["digest"]
    assert plan["table_digest"] == table["digest"]
    usual = read_table(table).rows(plan["number"], plan["paths"])
    assert [*usual, *plan["destinations"]] == rows["destinations"]
    world.enforcer.report("h1", HostReport(PlanId(1, plan["digest"])))
    assert world.waiting() == ["h3"]


def test_there_is_no_table_of_hosts_before_the_first_plan() -> None:
    with pytest.raises(UnavailableError):
        World().enforcer.table("h1")


def test_an_agent_that_has_the_plan_waits_for_another_one() -> None:
    world = World()
    world.install(1, [FLOW])
    held = world.follow("h1")
    assert world.ask("h1", held) is None
    world.runtime.then = [lambda: world.install(2, [(0, 2, 1)])]
    plan = world.ask("h1", held, 30)
    assert plan is not None
    assert plan["epoch"] == 2
    assert world.ask("h1", PlanId(2, plan["digest"]), 30) is None
    assert world.runtime.at == pytest.approx(30.0)


def test_a_plan_of_the_same_number_that_says_something_else_is_another_plan() -> None:
    """A controller whose store has lost changes uses numbers again."""
    one, other = World(), World()
    one.install(5, [FLOW])
    other.install(5, [(0, 2, 1)])
    held = one.follow("h1")
    other.enforcer.report("h1", HostReport(held))
    assert "h1" in other.waiting()
    plan = other.ask("h1", held)
    assert plan is not None
    assert plan["digest"] != held.digest


def test_a_controller_that_starts_again_with_the_same_plan_takes_the_next_report_for_it() -> None:
    one, other = World(), World()
    one.install(5, [FLOW])
    held = one.follow("h1")
    other.install(5, [FLOW])
    assert other.ask("h1", held) is None
    assert "h1" in other.waiting()
    other.enforcer.report("h1", HostReport(held))
    assert "h1" not in other.waiting()


def test_a_report_that_comes_after_a_later_one_of_the_same_run_is_ignored() -> None:
    world = World()
    world.install(1, [FLOW])
    held = world.follow("h1")
    for report, confirmed in (
        (HostReport(held, run="a", number=2), True),
        (HostReport(None, run="a", number=1), True),
        (HostReport(None, run="a", number=3), False),
        (HostReport(held, run="a", number=2), False),
        # The agent has started again.
        (HostReport(held, run="b", number=1), True),
        (HostReport(None), False),
        (HostReport(held), True),
    ):
        world.enforcer.report("h1", report)
        assert ("h1" not in world.waiting()) == confirmed, report


def test_an_agent_that_is_silent_is_an_error_and_its_host_is_still_not_waited_for() -> None:
    world = World()
    world.install(1, [FLOW])
    for host in ("h1", "h3"):
        world.follow(host)
    world.enforcer.start()
    rounds = int(SILENT_SECONDS / host_enforcer.LOOK_SECONDS) + 1
    world.runtime.then = [lambda: None] * (rounds - 1)

    def speak() -> None:
        world.ask("h3")

    world.runtime.then.append(speak)
    with pytest.raises(GoneError):
        world.runtime.tasks[0]()
    errors = {report.name: report.error for report in world.enforcer.switches() if report.error}
    assert errors == {"leaf1": "the agent of h1 is silent: what the kernel holds is not known"}
    assert world.waiting() == []
    world.follow("h1")
    assert not any(report.error for report in world.enforcer.switches())


def test_the_wait_of_an_agent_that_has_gone_ends() -> None:
    world = World()
    world.install(1, [FLOW])
    held = world.follow("h1")
    assert world.enforcer.plan("h1", AgentHas(held), 30, lambda: True) is None
    assert world.runtime.at == 0.0


def test_while_changes_are_withheld_no_plan_is_handed_out() -> None:
    world = World()
    world.install(1, [FLOW])
    world.enforcer.withhold_changes("another program uses the store")
    assert world.ask("h1") is None
    world.enforcer.withhold_changes("")
    assert world.ask("h1") is not None


@pytest.mark.parametrize("by_hosts", [False, True])
def test_where_switches_carry_out_plans_agents_are_refused_and_no_router_is_claimed(by_hosts: bool) -> None:
    world = World(by_hosts=by_hosts)
    world.install(1, [FLOW], enforcement="per_flow")
    assert not any(world.enforcer.enforces(switch) for switch in FABRIC.switches)
    assert world.enforcer.switches() == world.enforcer.states() == []
    assert world.enforcer.agents is None
    for call in (lambda: world.ask("h1"), lambda: world.enforcer.report("h1", HostReport(None))):
        with pytest.raises(ConflictError, match="hosts are given no plans"):
            call()


def test_states_say_what_each_agent_has_reported() -> None:
    world = World()
    world.install(1, [FLOW])
    held = world.follow("h1")
    dead = DeadPath(IPv6Address("fcbb:bb00::1"), 1.0, "probe", None)
    world.enforcer.report("h1", HostReport(held, (dead,)))
    world.runtime.at = 3.0
    states = {state.host: state for state in world.enforcer.states()}
    assert list(states) == list(HOSTS)
    assert (states["h1"].takes_part, states["h1"].confirmed, states["h1"].epoch) == (True, True, 1)
    assert states["h1"].heard_seconds == pytest.approx(3.0)
    assert states["h1"].report is not None
    assert states["h1"].report.dead == (dead,)
    assert (states["h2"].takes_part, states["h2"].heard_seconds, states["h2"].epoch) == (False, None, None)


def uplink_probes(world: World, host: str) -> list[IPv6Address]:
    """The probes of a host that turn around at the first spine, and those that go on to another leaf."""
    plan = world.ask(host)
    assert plan is not None
    return [IPv6Address(probe) for probe in plan["probes"][:2]]


@pytest.mark.parametrize("bypassed", [True, False])
def test_two_hosts_that_lose_probes_take_a_cable_down_and_two_that_get_them_back_bring_it_up(bypassed: bool) -> None:
    """Agents of earlier versions send no bypass probes: then the cable is used again, and it is not known to work."""
    world = World()
    world.install(1, [FLOW])
    cable = FABRIC.cable_names.index("leaf1-spine1")
    turned = {host: uplink_probes(world, host) for host in ("h1", "h2")}
    named = {host: IPv6Address((world.ask(host) or {})["bypass_probes"][0]) for host in turned}

    def report(host: str, *, lost: bool) -> None:
        dead = tuple(DeadPath(probe, 1.0, "probe", None) for probe in turned[host] if lost)
        trips = tuple(RoundTrips(probe, None if lost else 90, int(lost)) for probe in turned[host])
        world.runtime.at += 0.5
        world.enforcer.report(host, HostReport(None, dead, (), trips, bypasses=bypasses(host, False)))

    def bypasses(host: str, back: bool) -> tuple[Bypass, ...]:
        return (Bypass(named[host], back),) if bypassed else ()

    report("h1", lost=True)
    assert (dict(world.verdicts.cables), world.cable_news) == ({}, [])
    report("h2", lost=True)
    assert world.verdicts.cables[cable] == "packets over it are lost, as the agents of h1, h2 report"
    assert world.cable_news == [True]
    report("h1", lost=False)
    assert world.cable_news == [True]
    report("h2", lost=False)
    assert world.verdicts.cables.get(cable) == ("" if bypassed else None)
    assert (cable in world.verdicts.passed_cables) != bypassed
    assert world.cable_news[1:] == [False] * len(world.cable_news[1:])
    for host in ("h1", "h2") if bypassed else ():
        world.enforcer.report(host, HostReport(None, bypasses=bypasses(host, True)))
    assert bool(world.verdicts.cables.get(cable)) == bypassed
    world.install(2, [FLOW], enforcement="per_flow")
    assert dict(world.verdicts.cables) == {}


def port_report(**fields: Any) -> HostReport:
    return HostReport(None, ports=PortReport("searching", **fields))


@pytest.mark.parametrize("evidence", [None, "icmp", "samples"])
def test_what_agents_find_of_ports_is_told_as_old_as_it_is_and_by_what(evidence: PathEvidence | None) -> None:
    world = PortsWorld()
    world.install(3, [FLOW])
    flow = FlowPort("10.0.2.1", 50000, 51000, 0, 1.5, evidence)
    world.enforcer.report("h1", port_report(flows=(flow,)))
    world.runtime.at += 4
    learned = LearnedPort(51000, 0, 5.5, sampled=evidence == "samples")
    assert world.enforcer.learned_ports() == {"h1": {("10.0.2.1", 50000): learned}}
    assert world.waiting() == ["h1"]


def test_paths_without_a_port_are_told_when_they_come_and_go() -> None:
    world = PortsWorld()
    world.install(3, [FLOW])
    unreachable = (PortlessPaths("10.0.2.1", "a" * 16, (1, 2)),)
    world.enforcer.report("h1", port_report(unreachable=unreachable))
    assert world.enforcer.portless() == {PortlessPath("h1", "10.0.2.1", "a" * 16, path) for path in (1, 2)}
    world.enforcer.report("h1", port_report(unreachable=unreachable))
    assert len(world.path_news) == 1
    world.enforcer.report("h1", port_report())
    assert world.enforcer.portless() == frozenset()
    assert len(world.path_news) == 2


def test_silent_routers_and_unknown_ones_are_notices() -> None:
    world = PortsWorld()
    world.install(3, [FLOW])
    strange = StrangeAnswers("10.0.2.1", 50000, ("10.9.9.9",), unreachable=False)
    world.enforcer.report("h1", port_report(silent=("10.0.2.1",), strange=(strange,)))
    silent, unknown = world.enforcer.notices()
    assert "h1: routers do not answer probes to 10.0.2.1" in silent
    assert "h1: 10.9.9.9 answered probes, and no path of the fabric file has that there" in unknown


def test_agents_of_another_form_are_refused() -> None:
    world = PortsWorld()
    world.install(3, [FLOW])
    with pytest.raises(ConflictError, match="the enforcement has those of ports"):
        world.enforcer.plan("h1", AgentHas(), 0.0, lambda: False)
    with pytest.raises(ConflictError, match="the enforcement has those of ports"):
        world.enforcer.table("h1")
    body = world.enforcer.plan("h1", AgentHas(form="ports"), 0.0, lambda: False)
    assert body is not None
    carriers = World()
    carriers.install(3, [FLOW])
    with pytest.raises(ConflictError, match="the enforcement has those of carriers"):
        carriers.enforcer.plan("h1", AgentHas(form="ports"), 0.0, lambda: False)


class CheckedWorld(PortsWorld):
    """Hosts that check what routers do by a static configuration."""

    enforcement = "source_port"


def test_nothing_is_claimed_of_static_configurations_until_agents_check_them() -> None:
    world = CheckedWorld()
    world.install(3, [FLOW])
    assert world.enforcer.switches() == []
    assert world.enforcer.agents is None
    assert world.enforcer.states() == []
    assert not any(world.enforcer.enforces(switch) for switch in world.fabric.switches)
    body = world.enforcer.plan("h1", AgentHas(form="ports"), 0.0, lambda: False)
    assert body is not None
    plan = orjson.loads(body)
    assert plan["given"]
    # Once an agent checks, the plan waits for all hosts that send.
    assert [state.host for state in world.enforcer.states() if state.takes_part] == ["h1"]
    assert world.waiting() == ["h1"]
    assert all(world.enforcer.enforces(switch) for switch in world.fabric.switches)
    world.enforcer.report("h1", HostReport(PlanId(plan["epoch"], plan["digest"]), ports=PortReport("active")))
    assert world.waiting() == []
    (row,) = plan["flows"]
    flow = FlowPort(row["dst"], row["number"], row["number"], 1, 0.5, "icmp", astray=True)
    world.enforcer.report("h1", HostReport(None, ports=PortReport("drifted", flows=(flow,))))
    assert world.waiting() == ["h1"]
    (notice,) = world.enforcer.notices()
    assert f"{row['dst']} from port {row['number']} do not take their planned paths" in notice


def test_where_no_agent_is_heard_any_more_nothing_is_claimed_of_static_configurations() -> None:
    world = CheckedWorld()
    world.install(3, [FLOW])
    world.enforcer.plan("h1", AgentHas(form="ports"), 0.0, lambda: False)
    world.enforcer.start()
    assert world.waiting() == ["h1"]

    def stop() -> None:
        raise GoneError

    world.runtime.at += SILENT_SECONDS + 1
    world.runtime.then = [lambda: None, stop]
    with pytest.raises(GoneError):
        world.runtime.tasks[0]()
    assert world.enforcer.switches() == []
