from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing import PreviousPlan, Result, assign
from emulation.fluid.movers import Allocation
from emulation.fluid.records import Results
from emulation.fluid.replanning import BUCKETS, in_hash_order, merged, without_path
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import LinkChange, Question, Simulation, simulate
from tests.unit.emulation.fluid.simulated import GB, by, job, run
from tests.unit.routing.instances import traffic_of

SENDING = {"planned": "sending", "triggers": frozenset({"epoch", "epoch_end", "failure"})}


def _two_jobs() -> tuple[SimulatedJob, SimulatedJob]:
    """Return jobs that send for 1 s each, alone; the second one begins half a second later."""
    first = traffic_of([(0, 2, 125 * GB // 10, 0)], [Collective("a", "c")])
    second = traffic_of([(1, 3, 125 * GB // 10, 0)], [Collective("b", "c")])
    return job(first, "a", epochs=2, compute_seconds=1.0), job(second, "b", compute_seconds=1.5)


def test_a_plan_is_for_the_flows_that_send_or_begin_and_is_made_again_when_an_epoch_ends() -> None:
    results = run(clos(2, 2, 2), *_two_jobs(), **SENDING)
    assert [(p.at, p.cause, p.flows) for p in results.plannings] == [
        (1.0, "epoch", 1),
        (1.5, "epoch", 2),
        (2.0, "epoch_end", 1),  # that of b
        (3.0, "epoch", 1),
    ]
    assert [(epoch.job, epoch.seconds) for epoch in results.epochs] == [("a", 1.0), ("b", 1.0), ("a", 1.0)]


@pytest.mark.parametrize(("triggers", "last"), [({"arrival"}, 2.0), ({"arrival", "end"}, 1.5)])
def test_a_plan_for_the_jobs_that_are_left_uses_what_one_that_ended_leaves(triggers: set[str], last: float) -> None:
    """Three flows of one second each on two spines: two of them share one until the third has ended, at 1 s."""
    jobs = [
        job(traffic_of([(i, i + 3, 125 * GB // 10, 0)], [Collective(name, "c")]), name) for i, name in enumerate("abc")
    ]
    results = run(clos(2, 2, 3), *jobs, planner=by("fair"), triggers=frozenset(triggers))
    assert sorted(epoch.ended for epoch in results.epochs) == pytest.approx([1.0, last, last])
    assert [p.at for p in results.plannings if p.cause == "end"] == pytest.approx([1.0] if "end" in triggers else [])


@pytest.mark.parametrize("allocation", Allocation)
def test_changes_of_paths_are_counted_apart_where_the_flow_sends(allocation: Allocation) -> None:
    calls = 0

    def alternating(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        nonlocal calls
        calls += 1
        return Result(Assignment.single(np.full(traffic.n_flows, calls % 2, dtype=np.int32)))

    jobs = _two_jobs()
    results = run(clos(2, 2, 2), *jobs, planner=alternating, allocation=allocation, **SENDING)
    # The flow of a moves when b begins; both share the new path, so that they end together. Then a begins again.
    assert [(p.moved, p.moved_sending) for p in results.plannings][:2] == [(0, 0), (1, 1)]
    assert [p.moved_sending for p in results.plannings if p.cause == "epoch"] == [0, 1, 0]


@pytest.mark.parametrize("policy", ["ecmp", "greedy", "annealing", "ilp", "fair"])
def test_a_question_that_is_asked_again_is_answered_as_before(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def planner(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        asked.append(traffic.n_flows)
        return assign(policy, fabric, traffic, seed=1, previous=previous)

    ring = traffic_of([(i, (i + 2) % 6, 5 * GB, 0) for i in range(6)], [Collective("a", "c")])
    other = traffic_of([(6, 8, 5 * GB, 0), (7, 9, 5 * GB, 0)], [Collective("b", "c")])
    jobs = (job(ring, "a", epochs=9, compute_seconds=0.1), job(other, "b", epochs=4, start=0.3))
    changes = [LinkChange(1.5, ("spine1",)), LinkChange(2.0, ("spine1",), up=True)]
    results = run(clos(2, 5, 2), *jobs, planner=planner, changes=changes)
    few = len(asked)
    monkeypatch.setattr(Question, "is_same", lambda self, other: False)
    always = run(clos(2, 5, 2), *jobs, planner=planner, changes=changes)
    assert few == len(results.plannings) < len(asked) - few == len(always.plannings)
    assert results.epochs == always.epochs
    np.testing.assert_array_equal(results.flows.ended, always.flows.ended)
    assert sum(p.moved for p in results.plannings) == sum(p.moved for p in always.plannings)
    assert {p.cause for p in results.plannings} >= {"arrival", "epoch", "failure"}


def test_a_plan_after_a_failure_is_for_all_flows_so_that_a_later_phase_has_a_live_path() -> None:
    phases = [Collective("a", "c0"), Collective("a", "c1", phase=1)]
    traffic = traffic_of([(0, 2, 25 * GB, 0), (1, 3, 25 * GB, 1)], phases)
    for gone in ("spine1", "spine2"):
        results = run(clos(2, 2, 2), job(traffic, "a"), changes=[LinkChange(1.0, (gone,))], **SENDING)
        assert not results.stalled
        assert [epoch.seconds for epoch in results.epochs] == [pytest.approx(4.0)]


def _rings(fabric: Fabric, **more: object) -> Results:
    """Simulate six jobs of rings of two on two leaves of which one spine is down: five uplinks for six flows."""
    jobs = []
    for j in range(6):
        flows = [(j, 6 + j, GB, 0), (6 + j, j, GB, 0)]
        traffic = traffic_of(flows, [Collective(f"j{j}", "ring")])
        jobs.append(job(traffic, f"j{j}", epochs=6, compute_seconds=0.1 + 0.03 * j, repeat=np.array([2])))
    return simulate(Simulation(fabric.without_links(["spine6"]), jobs, by("greedy"), **more))  # type: ignore[arg-type]


def test_plans_for_the_flows_that_send_give_idle_uplinks_to_those_that_would_share_one() -> None:
    fabric = clos(6, 2, 6)
    mean = [float(np.mean([epoch.seconds for epoch in _rings(fabric, **more).epochs])) for more in ({}, SENDING)]
    assert mean[1] < mean[0] * 0.99


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 300)), min_size=1, max_size=80), st.integers(0, 200))
def test_flows_are_listed_by_the_number_of_their_transfer_in_its_hash_table(
    drawn: list[tuple[int, int]], earlier: int
) -> None:
    begun = np.array([float(at) for at, _ in drawn])
    flows = np.arange(len(drawn)) * 3
    order = in_hash_order(flows, begun, np.full(earlier, -1.0))
    assert sorted(order.tolist()) == flows.tolist()
    by_begin = sorted(flows.tolist(), key=lambda flow: (begun[flow // 3], flow))
    number = {flow: earlier + k for k, flow in enumerate(by_begin)}
    buckets = [number[flow] % BUCKETS for flow in order.tolist()]
    assert buckets == sorted(buckets)


@given(st.data())
def test_a_merged_assignment_has_the_new_rows_of_planned_flows_and_the_old_ones_of_the_others(
    data: st.DataObject,
) -> None:
    n = data.draw(st.integers(1, 12))
    pieces = data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    base = Assignment(
        np.repeat(np.arange(n, dtype=np.int32), pieces),
        np.arange(sum(pieces), dtype=np.int32),
        np.concatenate([np.full(k, 1 / k) for k in pieces]),
    )
    flows = np.array(data.draw(st.lists(st.integers(0, n - 1), unique=True)), dtype=np.int64)
    made = Assignment.single(np.arange(len(flows), dtype=np.int32) + 1000)
    whole = merged(base, made, flows)
    assert (np.diff(whole.flow) >= 0).all()
    for flow in range(n):
        rows = whole.flow == flow
        if flow in flows:
            assert whole.path[rows].tolist() == [1000 + flows.tolist().index(flow)]
        else:
            assert whole.path[rows].tolist() == base.path[base.flow == flow].tolist()
        assert whole.share[rows].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("policy", ["ecmp", "fair", "coloring", "split", "spray"])
def test_every_byte_arrives_whatever_policy_plans_for_the_flows_that_send(policy: str) -> None:
    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy, fabric, traffic, previous=previous)

    jobs = _two_jobs()
    results = run(clos(2, 2, 2), *jobs, planner=plan, bins=0.25, **SENDING)
    assert not results.stalled
    sent = 2 * jobs[0].traffic.bytes.sum() + jobs[1].traffic.bytes.sum()
    assert results.carried[: results.fabric.n_hosts].sum() == pytest.approx(sent * 8e-9)


def everything_on(spine: int) -> Callable[..., Result]:
    """Return a planner that gives all flows the path over one spine, unless something has failed."""

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        if not fabric.link_up.all():
            return assign("greedy", fabric, traffic)
        return Result(Assignment.single(np.full(traffic.n_flows, spine, dtype=np.int32)))

    return plan


PERIODIC = {
    "planned": "sending",
    "triggers": frozenset({"arrival", "failure", "period"}),
    "period": 0.5,
    "first": everything_on(0),
}


def test_flows_keep_their_first_path_until_they_send_at_the_end_of_a_period() -> None:
    flows = [(0, 2, 125 * GB // 10, 0), (1, 3, 125 * GB // 10, 0)]
    results = run(clos(2, 2, 2), job(traffic_of(flows, [Collective("a", "c")]), "a"), **PERIODIC)
    # They share a spine for half a second, and have one each from then on.
    assert [(p.at, p.cause, p.flows, p.moved) for p in results.plannings][:2] == [
        (0.0, "arrival", 2, 0),
        (0.5, "period", 2, 1),
    ]
    assert results.flows.ended == pytest.approx([1.25, 1.25])


def test_a_job_that_arrives_changes_no_path_of_another() -> None:
    first, second = _two_jobs()
    results = run(clos(2, 2, 2), first, dataclasses.replace(second, start=0.7), planner=everything_on(1), **PERIODIC)
    assert [(p.at, p.cause, p.flows, p.moved) for p in results.plannings if p.cause == "arrival"] == [
        (0.0, "arrival", 1, 0),
        (0.7, "arrival", 1, 0),
    ]
    # Each moves once: at the first end of a period at which it sends.
    assert sum(p.moved for p in results.plannings) == 2


def test_a_job_that_arrives_at_the_end_of_a_period_has_a_path_at_once() -> None:
    first, second = _two_jobs()
    late = dataclasses.replace(second, start=0.5, compute_seconds=0.1)
    results = run(clos(2, 2, 2), first, late, **PERIODIC)
    assert [(p.cause, p.flows) for p in results.plannings if p.at == 0.5] == [("arrival", 1)]
    assert [epoch.seconds for epoch in results.epochs if epoch.job == "b"] == [pytest.approx(1.0)]


def test_flows_whose_path_fails_get_a_first_path_again_at_once() -> None:
    flows = [(0, 2, 25 * GB, 0), (1, 3, 25 * GB, 0)]
    changes = [LinkChange(0.75, ("spine2",))]
    results = run(clos(2, 2, 2), job(traffic_of(flows, [Collective("a", "c")]), "a"), changes=changes, **PERIODIC)
    assert [(p.at, p.flows, p.moved) for p in results.plannings if p.cause == "failure"] == [(0.75, 1, 0)]
    assert not results.stalled


@given(st.lists(st.booleans(), min_size=8, max_size=8), st.integers(0, 1))
def test_flows_without_a_path_are_those_whose_links_have_failed(drawn: list[bool], spine: int) -> None:
    fabric = clos(2, 4, 2)
    traffic = traffic_of([(i, (i + 2) % 8, GB, 0) for i in range(8)], [Collective("a", "c")])
    flows = np.flatnonzero(drawn)
    before = PreviousPlan.of(fabric, traffic, Assignment.single(np.arange(8, dtype=np.int32) % 2))
    failed = fabric.without_links([f"spine{spine + 1}"])
    assert without_path(None, fabric, traffic, flows).tolist() == flows.tolist()
    assert without_path(before, fabric, traffic, flows).tolist() == []
    assert without_path(before, failed, traffic, flows).tolist() == [flow for flow in flows if flow % 2 == spine]
