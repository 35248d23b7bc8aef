"""``fair`` for jobs that say how they compute, where paths have several choices: three layers, and planes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.timing import JobTiming
from controller.model.traffic import Collective, Traffic
from controller.routing import POLICIES, Options, PreviousPlan, assign
from controller.routing.policies import timed as timed_plans
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import flow_slowdowns, plan_times
from controller.routing.times.stages import Stages
from controller.routing.validate import validate_assignment
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from tests.unit.laws import examples
from tests.unit.routing.instances import random_traffic, traffic_of
from tests.unit.routing.pod_fabrics import fat_tree, random_pods
from tests.unit.strategies import nic_fabrics

TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s
SEEDS = st.integers(0, 2**32 - 1)
ROUNDS = 3000


def timed(traffic: Traffic, seconds: float) -> Traffic:
    rows = tuple(dataclasses.replace(row, timing=JobTiming(((row.phase, seconds),))) for row in traffic.collectives)
    return dataclasses.replace(traffic, collectives=rows)


def slowdowns(fabric: Fabric, traffic: Traffic, *plans: object) -> list[float]:
    found = flow_slowdowns(Stages.of(Demand.of(fabric, traffic)), plans)  # type: ignore[arg-type]
    assert found is not None
    return found


@given(SEEDS, st.sampled_from([0.0, 0.02, 0.3]))
@settings(max_examples=examples(20, 120))
def test_it_is_never_slower_than_the_plan_without_times_or_the_simple_ones(seed: int, seconds: float) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng)
    traffic = timed(random_traffic(rng, fabric), seconds)
    ours = assign("fair", fabric, traffic, options=Options(rounds=ROUNDS)).assignment
    validate_assignment(fabric, traffic, ours)
    ignoring = assign("fair", fabric, traffic, options=Options(rounds=ROUNDS, times="ignore")).assignment
    simple = [assign(policy, fabric, traffic).assignment for policy in ("greedy", "coloring", "first_fit")]
    found = slowdowns(fabric, traffic, ours, ignoring, *simple)
    assert found[0] <= min(found) * (1 + 1e-6)


@given(SEEDS)
# A flow of whose loads one is none shares its unit with a flow that has some.
@example(299)
@settings(max_examples=examples(10, 60))
def test_of_every_policy_iteration_times_are_told_and_none_is_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng)
    traffic = timed(random_traffic(rng, fabric), 0.05)
    demand = Demand.of(fabric, traffic)
    for policy in POLICIES:
        options = Options(rounds=200, annealing_rounds=20, nodes=1, max_splits=5)
        made = assign(policy, fabric, traffic, options=options).assignment
        validate_assignment(fabric, traffic, made, enforceable=POLICIES[policy].enforceable)
        found = plan_times(demand, made)
        assert found is not None
        assert all(row.slowdown >= 1.0 - 1e-9 for row in found.jobs)
        # The estimate is of finitely many iterations.
        assert found.slowdown >= found.bound * 0.97


@given(SEEDS, st.floats(0, 0.5))
@settings(max_examples=examples(12, 75))
def test_after_a_failure_plans_are_valid_and_flows_stay_unless_it_is_faster(seed: int, price: float) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng)
    traffic = timed(random_traffic(rng, fabric), 0.05)
    first = assign("fair", fabric, traffic, options=Options(rounds=ROUNDS)).assignment
    failed = fabric.without_links([fabric.cable_names[int(rng.integers(len(fabric.cables)))]])
    previous = PreviousPlan.of(fabric, traffic, first)
    again = assign("fair", failed, traffic, previous=previous, options=Options(rounds=ROUNDS, churn_price=price))
    validate_assignment(failed, traffic, again.assignment)
    kept = assign("fair", failed, traffic, previous=previous, options=Options(rounds=ROUNDS, churn_price=1e6))
    moved, stayed = slowdowns(failed, traffic, again.assignment, kept.assignment)
    assert moved <= stayed * (1 + 1e-6)
    # At such a price only flows without a path move.
    (routed,) = np.nonzero(kept.assignment.path >= 0)
    leaves = failed.host_leaf[traffic.src[routed]], failed.host_leaf[traffic.dst[routed]]
    whole = routed[failed.live_ways.joined(*leaves, first.path[routed])]
    assert (first.path[whole] == kept.assignment.path[whole]).all()


@given(SEEDS)
@settings(max_examples=examples(8, 45))
def test_with_shifts_plans_are_valid_and_no_schedule_is_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng)
    traffic = timed(random_traffic(rng, fabric), float(rng.choice([0.02, 0.3])))
    made = assign("fair", fabric, traffic, options=Options(rounds=ROUNDS, shifts="advise"))
    validate_assignment(fabric, traffic, made.assignment)
    assert made.schedule is not None
    assert made.schedule.slowdown >= made.schedule.bound * (1 - 1e-9)


@given(nic_fabrics(), SEEDS)
@settings(max_examples=examples(8, 45))
def test_stripes_over_planes_are_planned_by_times_too(fabric: Fabric, seed: int) -> None:
    names, rng = list(fabric.nic_names), np.random.default_rng(seed)
    half = max(1, len(names) // 2)
    jobs = []
    for name, hosts in (("a", names[:half]), ("b", names[half:])):
        ranks = rng.permutation(len(hosts)).tolist()
        call = {"name": "c", "op": "all_reduce", "ranks": ranks, "bytes": 10**9}
        if len(hosts) > 1:
            jobs.append(expand(fabric, parse_job({"name": name, "hosts": hosts, "collectives": [call]})))
    traffic = timed(combine(jobs), 0.02)
    options = Options(rounds=ROUNDS)
    ours = assign("fair", fabric, traffic, options=options).assignment
    validate_assignment(fabric, traffic, ours)
    ignoring = assign("fair", fabric, traffic, options=dataclasses.replace(options, times="ignore")).assignment
    one, other = slowdowns(fabric, traffic, ours, ignoring)
    assert one <= other * (1 + 1e-6)


@pytest.mark.parametrize("order", ["abcd", "acbd", "cabd"])
def test_jobs_that_always_send_are_kept_apart_above_the_pods(order: str) -> None:
    # Two cores, all links of leaves are wide. a and b send all the time, c and d a tenth of it: levels cannot tell any
    # two and two apart.
    fabric = pod_clos(2, 1, 1, 2, 4, uplink_gbps=400.0)
    seconds = {"a": 0.0, "b": 0.0, "c": 0.9, "d": 0.9}
    rows = [Collective(name, "c", timing=JobTiming(((0, seconds[name]),))) for name in order]
    traffic = traffic_of([(i, 4 + i, TENTH, i) for i in range(4)], rows)
    path = dict(zip(order, assign("fair", fabric, traffic).assignment.path.tolist(), strict=True))
    assert path["a"] != path["b"]
    assert path["c"] != path["d"]


@pytest.mark.parametrize("k", [4, 8])
def test_on_fat_trees_where_every_flow_has_a_link_of_its_own_no_job_is_slowed_down(k: int) -> None:
    fabric = fat_tree(k)
    order, n = np.random.default_rng(k).permutation(fabric.n_hosts).tolist(), fabric.n_hosts // 4
    rows = [Collective(f"job{j}", "ring", timing=JobTiming(((0, 0.05 * (j + 1)),))) for j in range(4)]
    flows = [(order[j * n + i], order[j * n + (i + 1) % n], TENTH, j) for j in range(4) for i in range(n)]
    traffic = traffic_of(flows, rows)
    made = assign("fair", fabric, traffic)
    found = plan_times(Demand.of(fabric, traffic), made.assignment)
    assert found is not None
    assert found.slowdown == pytest.approx(1.0)
    assert found.gap == pytest.approx(0.0, abs=1e-9)


def test_where_a_search_needs_too_much_memory_the_best_of_the_simple_plans_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timed_plans, "MOST_BYTES", 0)
    rng = np.random.default_rng(3)
    fabric = fat_tree(4)
    traffic = timed(random_traffic(rng, fabric), 0.05)
    ours = assign("fair", fabric, traffic).assignment
    simple = [assign(policy, fabric, traffic).assignment for policy in ("greedy", "coloring", "first_fit")]
    found = slowdowns(fabric, traffic, ours, *simple)
    assert found[0] <= min(found) * (1 + 1e-6)


def test_equal_arguments_give_equal_plans() -> None:
    rng = np.random.default_rng(6)
    fabric = random_pods(rng)
    traffic = timed(random_traffic(rng, fabric), 0.05)
    one, two = (assign("fair", fabric, traffic, seed=4).assignment for _ in range(2))
    assert (one.path == two.path).all()
