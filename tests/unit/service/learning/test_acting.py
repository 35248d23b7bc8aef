"""With ``learning = act`` learned jobs are planned beside pushed ones, which keep what they have."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import Settings
from controller.core.desired_state import DesiredState, without_pushed
from controller.core.plan_candidate import PlanCandidate, make_candidate
from controller.learning.learned_job import LearnedPhase
from controller.model.choices.enforcement import Mode
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import ANY_PORT, unit_key
from controller.routing.validate import validate_assignment
from controller.service.learning.learned_planning import MOST_SPARE
from controller.service.reconciling.admission import admit
from controller.service.service import Service
from tests.unit.laws import examples
from tests.unit.service.learning.admitted_jobs import FLOWS, admitted, traffic, without_ports
from tests.unit.service.learning.by_hand import by_hand, look, step
from tests.unit.service.learning.learned_ring import FABRIC, RING, body, learned
from tests.unit.service.lives import rules_equal
from tests.unit.service.world import ANN, FakeStore, World, flow, rules_of
from tests.unit.southbound.cabling.networks import seen
from tests.unit.strategies import fabrics


def candidate(
    fabric: Fabric, desired: DesiredState, before: PlanCandidate | None = None, **options: Any
) -> PlanCandidate:
    return make_candidate(Settings(**options), fabric, fabric, desired, None, lambda: 0.0, before=before)


@settings(max_examples=examples(30, 180), deadline=None)
@given(fabrics(min_leaves=1), FLOWS, FLOWS, st.sampled_from(["fair", "greedy", "ecmp", "split"]), st.booleans())
def test_learned_jobs_change_neither_the_paths_nor_the_levels_of_pushed_ones(
    fabric: Fabric, pushed: list[Any], found: list[Any], policy: str, again: bool
) -> None:
    if fabric.n_hosts < 2:
        return
    jobs = (admitted(traffic("a", fabric, pushed, 50000), 0),)
    some = (traffic("learned-1", fabric, found[:6], 50000), traffic("learned-2", fabric, found, 60000))
    alone = candidate(fabric, DesiredState(jobs), policy=policy)
    before = alone if again else None
    both = candidate(fabric, DesiredState(jobs, learned=some), before, policy=policy)
    flows, collectives = alone.traffic.n_flows, len(alone.traffic.collectives)
    mine = both.plan.assignment.flow < flows
    for name in ("flow", "path", "share"):
        assert np.array_equal(getattr(both.plan.assignment, name)[mine], getattr(alone.plan.assignment, name))
    assert np.array_equal(both.plan.objective.speed[:collectives], alone.plan.objective.speed, equal_nan=True)
    assert both.inputs == alone.inputs
    assert both.traffic.collectives[:collectives] == alone.traffic.collectives
    validate_assignment(fabric, both.traffic, both.plan.assignment, enforceable=policy != "split")
    # A switch sends each 5-tuple by one rule.
    key = unit_key(both.traffic.src, both.traffic.dst, both.traffic.udp_src)
    of_learned = np.unique(key[flows:])
    assert not np.isin(of_learned, key[:flows]).any()
    # Hosts are told nothing of pieces of learned flows.
    theirs = both.plan.assignment.flow[~mine]
    assert len(np.unique(theirs)) == len(theirs)
    assert 0 <= both.plan.objective.min_level <= alone.plan.objective.min_level * (1 + 1e-6)
    back = candidate(fabric, DesiredState(jobs), both, policy=policy)
    assert np.array_equal(back.plan.assignment.path, alone.plan.assignment.path)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning="act").planned()
    yield made
    made.close()


def act(world: World) -> None:
    world.service.see(body(world.runtime.now()))
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    world.planned()


def test_a_learned_job_gets_rules_and_says_what_they_are_worth(world: World) -> None:
    before = world.installed[-1][0]
    act(world)
    assert not rules_equal(before, world.installed[-1][0])
    state = world.service.state
    assert sorted(state.traffic.udp_src.tolist()) == sorted(key.udp_src for key in RING.keys)
    assert state.desired.jobs == ()
    world.until(lambda: learned(world).jobs[0].planned_speed is not None)
    (job,) = learned(world).jobs
    assert job.planned_speed == pytest.approx(1.0)
    assert job.hashed_speed is not None
    assert 0 < job.hashed_speed <= 1
    world.until(lambda: state.epoch in world.store.records)
    assert "learned" in world.store.records[state.epoch].cause


def test_every_document_can_be_read_while_learned_jobs_are_planned(world: World) -> None:
    world.put("a", [flow("h1", "h3"), flow("h2", "h6")])
    act(world)
    world.settle()
    name = learned(world).jobs[0].name
    calls: list[Callable[[Service], Any]] = [
        lambda service: service.jobs(),
        lambda service: service.job("a"),
        lambda service: service.plan(),
        lambda service: service.plan("ecmp"),
        lambda service: service.links(),
        lambda service: service.routes("h1"),
        lambda service: service.trace(None, "ecmp"),
        lambda service: service.schedule(),
        lambda service: service.fabric(),
        lambda service: service.job_shift("a"),
        lambda service: service.learned_job(name),
        lambda service: service.plans(None, 50),
        lambda service: service.plan_record(service.state.epoch),
        lambda service: service.preview(b'{"drain": ["spine1"]}'),
        lambda service: service.health(),
        lambda service: service.survive(b"{}", lambda: False),
    ]
    for call in calls:
        answer = call(world.service)
        assert answer.document if hasattr(answer, "document") else answer
    told = world.read(lambda service: service.plan())["plan"]
    assert {row["job"] for row in told["collectives"]} == {"a", name}
    assert [job["name"] for job in world.read(lambda service: service.jobs())["jobs"]] == ["a"]
    assert world.service.metrics("").body
    modes: tuple[Mode, ...] = ("frozen", "ecmp")
    for mode in modes:
        world.service.set_mode(mode, None, ANN)
        assert world.read(lambda service: service.jobs())
        assert world.health


def test_the_same_traffic_again_writes_nothing(world: World) -> None:
    act(world)
    by_hand(world)
    epoch, installations = world.service.state.epoch, len(world.installed)
    for _ in range(20):
        world.service.see(body(world.runtime.now()))
        look(world)
        step(world)
    assert (world.service.state.epoch, len(world.installed)) == (epoch, installations)


@pytest.mark.parametrize(
    ("seconds", "period", "part", "waits"),
    [
        (20.0, 10.0, 0.3, 3.3 + MOST_SPARE),
        (20.0, 2.0, 0.3, 1.1),
        (3.0, 10.0, 0.3, None),
        (20.0, 10.0, 0.7, MOST_SPARE),
        (20.0, 2.0, 0.7, 0.37),
        # Even without waiting for an idle time, one that has begun is used.
        (0.0, 10.0, 0.3, None),
        (0.0, 10.0, 0.7, 0.0),
    ],
)
def test_rules_are_written_amid_the_next_pause_if_it_is_near_enough(
    seconds: float, period: float, part: float, waits: float | None
) -> None:
    world = World(FABRIC, seen(FABRIC), learning="observe", learning_wait_seconds=seconds).planned()
    try:
        world.service.see(body(world.runtime.now()))
        world.until(lambda: bool(learned(world).jobs))
        (job,), now, slept = world.service._learner.jobs, 1000.0, list[float]()
        # It sends from a fifth to three fifths of the period; now is at ``part`` of it.
        job = dataclasses.replace(
            job, period_seconds=period, begun=now - part * period, phases=(LearnedPhase(0.2 * period, 0.6 * period),)
        )
        planning = world.service._acting.learned
        planning._runtime = Stopped(now, slept)  # type: ignore[assignment]
        planning.wait_for_idle([job])
        # With a period of 2 s, the pause is expected from 1.26 to 2.34 s after its begin, and writing takes 0.2 s.
        assert slept == ([] if waits is None else [pytest.approx(waits)])
        planning.wait_for_idle([])
        assert len(slept) == (waits is not None)
    finally:
        world.close()


@dataclasses.dataclass
class Stopped:
    """A clock that stands still, and what was waited for."""

    at: float
    slept: list[float]

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def test_what_is_learned_already_is_planned_when_acting_begins_without_another_look() -> None:
    world = World(FABRIC, seen(FABRIC), learning="observe").planned()
    try:
        world.service.see(body(world.runtime.now()))
        world.until(lambda: bool(learned(world).jobs))
        world.settle()
        world.service.set_learning("act", ANN)
        world.until(lambda: all(job.planned for job in learned(world).jobs))
    finally:
        world.close()


def test_observing_changes_no_rule_and_off_forgets_everything(world: World) -> None:
    before = world.installed[-1][0]
    act(world)
    world.service.set_learning("observe", ANN)
    world.planned()
    assert rules_equal(before, world.installed[-1][0])
    assert len(learned(world).jobs) == 1
    by_hand(world)
    epoch = world.service.state.epoch
    step(world)
    assert world.service.state.epoch == epoch
    world.service.set_learning("off", ANN)
    assert (learned(world).qps, learned(world).jobs) == (0, [])
    assert world.service.state.epoch == epoch


def test_a_pushed_job_takes_over_its_flows(world: World) -> None:
    act(world)
    mine = [flow("h1", "h2", 10**9) | {"udp_src": RING.keys[0].udp_src}, flow("h3", "h6")]
    world.put("a", mine)
    state = world.service.state
    assert state.desired.learned_traffic[0].n_flows == len(RING.keys) - 1
    assert state.candidate is not None
    assert state.candidate.pushed.traffic.n_flows == 2
    key = unit_key(state.traffic.src, state.traffic.dst, state.traffic.udp_src)
    assert len(np.unique(key)) == len(key) == len(RING.keys) + 1
    world.delete("a")
    world.put("b", [flow("h1", "h2", 10**9)])
    assert world.service.state.candidate is not None
    assert world.service.state.candidate.pushed.traffic.n_flows == 1


def test_adopting_a_planned_job_moves_no_flow(world: World) -> None:
    act(world)
    before = world.service.state.candidate
    world.service.adopt(learned(world).jobs[0].name, ANN)
    world.planned()
    after = world.service.state.candidate
    assert before is not None
    assert after is not None
    assert np.array_equal(np.sort(before.paths.key), np.sort(after.paths.key))
    assert np.array_equal(before.paths.path, after.paths.path)
    assert after.of_learned is None


def test_a_silent_job_loses_its_rules(world: World) -> None:
    before = world.installed[-1][0]
    act(world)
    by_hand(world)
    for _ in range(60):
        look(world)
    world.until(lambda: not learned(world).jobs)
    step(world)
    world.planned()
    assert rules_equal(before, world.installed[-1][0])


def test_no_learned_job_is_planned_where_ports_select_paths() -> None:
    world = World(FABRIC, seen(FABRIC), learning="act", enforcement="source_port").planned()
    try:
        world.service.see(body(world.runtime.now()))
        world.until(lambda: bool(learned(world).jobs))
        by_hand(world)
        step(world)
        assert world.service.state.traffic.n_flows == 0
        assert not learned(world).jobs[0].planned
    finally:
        world.close()


@pytest.mark.parametrize(("option", "then"), [("observe", "act"), ("off", "off")])
def test_the_setting_survives_a_restart_until_the_option_changes(option: str, then: str) -> None:
    fabric, store = clos(2, 2, 2), FakeStore()
    first = World(fabric, seen(fabric), store, learning="observe").planned()
    first.service.set_learning("act", ANN)
    assert dict(first.service.learning())["by"] == "ann"  # type: ignore[arg-type]
    first.close()
    second = World(fabric, seen(fabric), store, learning=option).planned()
    try:
        assert dict(second.service.learning())["learning"] == then  # type: ignore[arg-type]
    finally:
        second.close()


def test_flows_whose_ports_are_not_known_get_rules_for_their_hosts(world: World) -> None:
    world.service.see(without_ports(body(world.runtime.now())))
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    world.planned()
    state = world.service.state
    assert state.traffic.udp_src.tolist() == [ANY_PORT] * len(RING.keys)
    assert state.plan is not None
    ends = {(FABRIC.hosts[key.src].ip, FABRIC.hosts[key.dst].ip) for key in RING.keys}
    rules = [dict(rule.match) for held in rules_of(state).switches.values() for rule in held.rules.values()]
    of_hosts = [rule for rule in rules if "ipv4_src" in rule and "ipv4_dst" in rule and "udp_dst" in rule]
    # Flows within a leaf need none.
    assert (
        {(rule["ipv4_src"], rule["ipv4_dst"]) for rule in of_hosts}
        == {
            (FABRIC.hosts[a].ip, FABRIC.hosts[b].ip)
            for a, b in ((key.src, key.dst) for key in RING.keys)
            if FABRIC.hosts[a].leaf != FABRIC.hosts[b].leaf
        }
        <= ends
    )
    assert all("udp_src" not in rule for rule in of_hosts)


def test_a_pushed_job_has_the_flows_of_its_hosts_whose_ports_are_not_known(world: World) -> None:
    flows = [flow(f"h{key.src + 1}", f"h{key.dst + 1}") | {"udp_src": 50000 + i} for i, key in enumerate(RING.keys)]
    world.put("pushed", flows)
    world.service.see(without_ports(body(world.runtime.now())))
    world.service._learner.look(world.service.state)
    assert learned(world).jobs == []
    found = admit("learned-1", json.dumps({"flows": bare(flows), "ports": "unknown"}).encode(), FABRIC, [], 100)
    pushed = [job.traffic for job in world.service.state.desired.jobs if job.traffic is not None]
    assert without_pushed([found], pushed) == []
    assert without_pushed([found], [traffic("other", FABRIC, [(0, 2, 9)], 60000)])[0].n_flows == len(flows)


def bare(flows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return flows without ports."""
    return [{name: value for name, value in row.items() if name != "udp_src"} for row in flows]
