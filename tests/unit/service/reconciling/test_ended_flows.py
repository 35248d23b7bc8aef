"""Flows that have ended leave the plan and the switches, and nothing else changes there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import Settings
from controller.core.desired_state import DesiredState
from controller.core.enforcement_tasks import flow_encoding_for, task_for_mode
from controller.core.plan_candidate import PlanCandidate, make_candidate
from controller.core.saved.applied_plan import AppliedPlan
from controller.learning.life import LEAST_SILENCE
from controller.learning.sightings import QpKey
from controller.model.fabric import Fabric
from controller.model.traffic import Int64Array, unit_key
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.rules.rule_set import RuleSet
from controller.workload.expand import JobTraffic
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Transfers, edges
from tests.unit.service.learning.admitted_jobs import FLOWS, admitted, traffic
from tests.unit.service.learning.by_hand import by_hand, look, step
from tests.unit.service.learning.iterations import Iterations
from tests.unit.service.learning.learned_ring import FABRIC, GB, RING, body, learned
from tests.unit.service.world import World, flow, rules_of
from tests.unit.southbound.cabling.networks import seen
from tests.unit.southbound.plans import KEEPING
from tests.unit.strategies import fabrics

COMPILER = OpenFlowCompiler("bundle", Settings())


def some_of(job: JobTraffic, chosen: list[bool]) -> JobTraffic:
    rows = np.flatnonzero(np.resize(np.array(chosen), job.n_flows))
    columns = ("src", "dst", "bytes", "collective", "number", "udp_src")
    return dataclasses.replace(job, **{name: getattr(job, name)[rows] for name in columns})


def apart(job: JobTraffic) -> JobTraffic:
    """Return a job with every second port: one rule is for a block of ports, so others would be merged and parted."""
    return dataclasses.replace(job, udp_src=job.udp_src[0] + 2 * (job.udp_src - job.udp_src[0]))


def applied(candidate: PlanCandidate, enforcement: str) -> AppliedPlan:
    return AppliedPlan(1, candidate.inputs, candidate.paths, candidate.plan.bound, (), frozenset(), True, enforcement)


def rules(fabric: Fabric, desired: DesiredState, candidate: PlanCandidate) -> RuleSet:
    encoding = flow_encoding_for(fabric, desired, candidate, None)
    return COMPILER(task_for_mode(fabric, desired, candidate, encoding, frozenset(), False))


def paths(candidate: PlanCandidate) -> dict[tuple[int, int], float]:
    """Return the share of each path of each flow that has one."""
    told = candidate.paths
    return dict(zip(zip(told.key.tolist(), told.path.tolist(), strict=True), told.share.tolist(), strict=True))


def keys(jobs: list[JobTraffic]) -> Int64Array:
    return np.concatenate([unit_key(job.src, job.dst, job.udp_src) for job in jobs] or [np.zeros(0, dtype=np.int64)])


@settings(max_examples=examples(30, 180), deadline=None)
@given(
    fabrics(min_leaves=1),
    FLOWS,
    FLOWS,
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.sampled_from(["fair", "greedy", "ecmp", "split"]),
    st.sampled_from(KEEPING),
)
def test_a_plan_without_some_learned_flows_changes_no_other_rule(
    fabric: Fabric, pushed: list[Any], found: list[Any], left: list[bool], policy: str, enforcement: str
) -> None:
    if fabric.n_hosts < 2:
        return
    jobs = (admitted(traffic("a", fabric, pushed, 50000), 0),)
    every = (apart(traffic("learned-1", fabric, found[:6], 55000)), apart(traffic("learned-2", fabric, found, 60000)))
    before = DesiredState(jobs, enforcement=enforcement, learned=every)
    after = dataclasses.replace(before, learned=tuple(some_of(job, left) for job in every))
    options = Settings(policy=policy)
    old = make_candidate(options, fabric, fabric, before, None, lambda: 0.0)
    new = make_candidate(
        options, fabric, fabric, after, applied(old, enforcement), lambda: 0.0, before=old, keep_learned=True
    )
    gone = set(keys(before.learned_traffic).tolist()) - set(keys(after.learned_traffic).tolist())
    assert paths(new) == {unit: share for unit, share in paths(old).items() if unit[0] not in gone}
    # The plan of pushed jobs is the very same one, with its levels, bounds and shifts.
    assert new.pushed.plan is old.pushed.plan
    had, has = rules(fabric, before, old), rules(fabric, after, new)
    assert has.switches.keys() == had.switches.keys()
    for dpid, kept in has.switches.items():
        assert kept.rules.items() <= had[dpid].rules.items()
        assert kept.groups.items() <= had[dpid].groups.items()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning="act").planned()
    yield made
    made.close()


class Counters(Iterations):
    """Iterations whose QPs keep their counters when other ones begin."""

    def begin(self, transfers: Transfers, iterations: int) -> None:
        """Send by these transfers from now on; QPs that have sent before go on counting."""
        had: dict[QpKey, int] = {}
        if hasattr(self, "sent"):
            told = self.sent.at < self.told
            rows = zip(self.sent.qp[told].tolist(), self.sent.sent[told].tolist(), strict=True)
            had = {self.sent.keys[qp]: sent for qp, sent in rows}
        super().begin(transfers, iterations)
        first = np.array([had.get(key, 0) for key in transfers.keys], dtype=np.int64)
        self.sent = self.sent._replace(sent=self.sent.sent + first[self.sent.qp])


def planned_edges(world: World) -> set[tuple[int, int]]:
    flows = world.service.state.traffic
    return set(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))


def test_a_flow_of_a_job_that_goes_on_loses_its_rules_after_the_silence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("pushed", [flow("h1", "h4"), flow("h2", "h6")])
    iterations = Counters(world, monkeypatch)
    iterations.begin(RING, 9)
    iterations.go_on(8)
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    by_hand(world)
    before, told = world.service.state, len(world.installed)
    # Not h1 -> h2, which no rule is for: they share a leaf.
    rest = tuple(key for key in RING.keys if key.src != 1)
    pairs = [(key.src, key.dst) for key in rest]
    iterations.begin(dataclasses.replace(edges(pairs, GB, 0.3, 0.7), keys=rest), 100)
    silent = iterations.now
    while iterations.now < silent + LEAST_SILENCE - 3 * iterations.PERIOD:
        iterations.go_on(2)
        iterations.look()
        assert (world.service.state.epoch, len(world.installed)) == (before.epoch, told)
    (job,) = learned(world).jobs
    assert (job.flows, job.planned, job.planned_flows) == (5, True, 5)
    while iterations.now < silent + LEAST_SILENCE + 8 * iterations.PERIOD:
        iterations.go_on(2)
        iterations.look()
    after = world.planned().service.state
    assert after.epoch == before.epoch + 1
    assert planned_edges(world) == {*pairs, (0, 3), (1, 5)}
    assert before.candidate is not None
    assert after.candidate is not None
    assert paths(after.candidate).items() < paths(before.candidate).items()
    assert after.candidate.pushed.plan is before.candidate.pushed.plan
    world.until(lambda: after.epoch in world.store.records)
    record = world.store.records[after.epoch]
    assert record.moved == 0
    assert "1 flow ended" in record.cause
    changed = 0
    for dpid, kept in rules_of(after).switches.items():
        assert kept.rules.items() <= rules_of(before)[dpid].rules.items()
        changed += len(rules_of(before)[dpid].rules) - len(kept.rules)
    assert changed > 0


def test_a_job_that_ends_leaves_another_one_where_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    two = edges([(0, 2), (2, 0)], GB, 0.3, 0.7), edges([(1, 4), (4, 1)], GB, 0.3, 0.7, first_qp=10)
    both = edges([(0, 2), (2, 0), (1, 4), (4, 1)], GB, 0.3, 0.7)
    keys = (*two[0].keys, *two[1].keys)
    iterations = Counters(world, monkeypatch)
    iterations.begin(dataclasses.replace(both, keys=keys), 9)
    iterations.go_on(8)
    world.until(lambda: len(learned(world).jobs) == 2 and all(job.planned for job in learned(world).jobs))
    by_hand(world)
    before = world.service.state
    iterations.begin(two[1], 100)
    begun = iterations.now
    while iterations.now < begun + LEAST_SILENCE + 8 * iterations.PERIOD:
        iterations.go_on(2)
        iterations.look()
    after = world.planned().service.state
    assert planned_edges(world) == {(1, 4), (4, 1)}
    assert before.candidate is not None
    assert after.candidate is not None
    assert paths(after.candidate).items() <= paths(before.candidate).items()
    assert after.epoch == before.epoch + 1


def test_a_job_that_is_forgotten_loses_its_rules_at_once(world: World) -> None:
    world.service.see(body(world.runtime.now()))
    world.until(lambda: any(job.planned for job in learned(world).jobs))
    world.planned()
    world.service.forget_learned(learned(world).jobs[0].name)
    world.until(lambda: world.service.state.traffic.n_flows == 0)
    assert world.service.state.desired.learned == ()


def test_a_job_that_cannot_be_planned_opens_no_epoch_again_and_again() -> None:
    world = World(FABRIC, seen(FABRIC), learning="act", max_flows=4).planned()
    try:
        world.service.see(body(world.runtime.now()))
        world.until(lambda: bool(learned(world).jobs))
        by_hand(world)
        epoch = world.service.state.epoch
        for _ in range(5):
            world.service.see(body(world.runtime.now()))
            look(world)
            step(world)
        assert world.service.state.epoch == epoch
        assert json.loads(world.service.learned())["jobs"][0]["planned_flows"] == 0  # type: ignore[arg-type]
    finally:
        world.close()
