"""Expected iterations, and ``fair`` for jobs that say how they compute."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.timing import JobTiming, PlanTimes
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.kernels.times.iterations import speeds
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand
from controller.routing.times.expected import iterations_of
from controller.routing.times.flow_estimate import flow_slowdowns, plan_times
from controller.routing.times.stages import Stages
from tests.unit.laws import examples
from tests.unit.routing.instances import one_path, random_fabric, random_traffic, traffic_of

GB = 10**9
TENTH = 10 * GB // 8  # bytes of 0.1 s at 100 Gbit/s


def computing(seconds: float, phase: int = 0) -> JobTiming:
    return JobTiming(((phase, seconds),))


def timed(traffic: Traffic, seconds: float) -> Traffic:
    rows = tuple(dataclasses.replace(row, timing=computing(seconds, row.phase)) for row in traffic.collectives)
    return dataclasses.replace(traffic, collectives=rows)


def times(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> PlanTimes:
    found = plan_times(Demand.of(fabric, traffic), assignment)
    assert found is not None
    return found


def pair(*compute: float) -> Traffic:
    """Jobs a, b, ... of one flow each of 0.1 s, from hosts of their own on one leaf to another."""
    n = len(compute)
    rows = [Collective("abc"[i], "c", timing=computing(seconds)) for i, seconds in enumerate(compute)]
    return traffic_of([(i, n + i, TENTH, i) for i in range(n)], rows)


# -- the expected time ----------------------------------------------------------------------------------------------


def test_alone_an_iteration_is_computing_and_sending() -> None:
    found = times(clos(1, 2, 1), pair(0.3), one_path(1))
    (row,) = found.jobs
    assert (row.compute_seconds, row.alone_seconds, row.duty) == pytest.approx((0.3, 0.4, 0.25))
    assert (row.iteration_seconds, found.slowdown, found.bound, found.gap) == pytest.approx((0.4, 1.0, 1.0, 0.0))


def test_two_equal_jobs_on_one_link_keep_the_offset_that_they_were_drawn_with() -> None:
    # With 0.1 s each of computing and sending, an offset of x (up to 0.1) makes the sending last 0.2 - x: on the
    # average over offsets 0.15. The mean over 16 draws is near that.
    found = times(clos(1, 2, 2), pair(0.1, 0.1), one_path(2))
    for row in found.jobs:
        assert row.iteration_seconds == pytest.approx(0.25, rel=0.06)
    assert found.bound == 1.0


def test_who_always_sends_slows_the_other_down_by_half_while_that_sends() -> None:
    traffic = pair(0.3, 0.0)
    traffic = dataclasses.replace(
        traffic, collectives=(traffic.collectives[0], dataclasses.replace(traffic.collectives[1], timing=None))
    )
    first, second = times(clos(1, 2, 2), traffic, one_path(2)).jobs
    assert first.iteration_seconds == pytest.approx(0.3 + 0.2)
    # Of 0.5 s the second has 0.2 s half the link: in 0.4 s of a whole link it sends four times.
    assert second.iteration_seconds == pytest.approx(0.125, rel=0.03)
    assert second.duty == 1.0


def test_a_link_that_two_would_overfill_has_a_bound_and_always_sending_jobs_reach_it() -> None:
    found = times(clos(1, 2, 2), pair(0.0, 0.0), one_path(2))
    assert (found.slowdown, found.bound) == pytest.approx((2.0, 2.0))


def test_phases_follow_each_other_with_what_is_computed_before_each() -> None:
    timing = JobTiming(((0, 0.2), (1, 0.1)))
    rows = [Collective("a", "c", timing=timing), Collective("a", "d", phase=1, timing=timing)]
    traffic = traffic_of([(0, 1, TENTH, 0), (0, 1, 2 * TENTH, 1)], rows)
    (row,) = times(clos(1, 2, 1), traffic, one_path(2)).jobs
    assert (row.compute_seconds, row.iteration_seconds) == pytest.approx((0.3, 0.6))


def test_of_a_period_what_sending_leaves_is_computing() -> None:
    rows = [Collective("a", "c", timing=JobTiming(period_seconds=0.5))]
    (row,) = times(clos(1, 2, 1), traffic_of([(0, 1, TENTH, 0)], rows), one_path(1)).jobs
    assert (row.compute_seconds, row.alone_seconds) == pytest.approx((0.4, 0.5))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 1.0]))
@settings(max_examples=examples(30, 180), deadline=None)
def test_no_plan_is_faster_than_alone_or_than_the_bound(seed: int, seconds: float) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = timed(random_traffic(rng, fabric), seconds)
    for policy in ("random", "spray"):
        found = times(fabric, traffic, assign(policy, fabric, traffic, seed=seed).assignment)
        assert all(row.slowdown >= 1.0 - 1e-9 for row in found.jobs)
        assert all(0.0 <= row.duty <= 1.0 for row in found.jobs)
        # The estimate is of finitely many iterations.
        assert found.slowdown >= found.bound * 0.97


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(30, 180), deadline=None)
def test_speeds_of_stages_that_send_together_are_those_of_progressive_filling_over_all_links(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = timed(random_traffic(rng, fabric), 0.1)
    demand = Demand.of(fabric, traffic)
    stages = Stages.of(demand)
    assignment = assign("spray" if rng.random() < 0.3 else "random", fabric, traffic, seed=seed).assignment
    drawn = [rng.integers(*stages.first[j : j + 2]) if rng.random() < 0.7 else -1 for j in range(len(stages.names))]
    at = np.array(drawn, dtype=np.int64)
    problem, cache = iterations_of(stages, assignment)
    found = np.zeros(len(at))
    speeds(problem, cache, at, found)
    rows = stages.demand.traffic.collectives
    active = np.zeros(len(rows), dtype=np.bool_)
    active[stages.row[at[at >= 0]]] = True
    incidence = Incidence.of(stages.demand, assignment)
    weight = np.ones(len(rows))
    weight[stages.row] = problem.weight
    zero = np.zeros(len(rows), dtype=np.int32)
    level = incidence._fill(weight, np.full(len(rows), -1.0), active, zero, zero[:1])
    for j, stage in enumerate(at):
        row = stages.row[stage]
        assert found[j] == pytest.approx(level[row] * weight[row] if stage >= 0 else 0.0, rel=1e-6)


def test_flows_of_two_jobs_that_share_a_link_have_equal_rates() -> None:
    # Host 0 sends one flow for a, hosts 1 and 2 two flows each for b, at half of the rate each: on one uplink each of
    # the five has a fifth of it. So a has a fifth of its speed, and b two fifths, until its end.
    rows = [Collective(name, "c", timing=computing(10.0)) for name in "ab"]
    ends = [(0, 3, 0), (1, 4, 1), (1, 5, 1), (2, 4, 1), (2, 5, 1)]
    traffic = traffic_of([(a, b, TENTH if k == 0 else TENTH // 2, k) for a, b, k in ends], rows)
    demand = Demand.of(clos(2, 2, 3), traffic)
    problem, cache = iterations_of(Stages.of(demand), one_path(5))
    found = np.zeros(2)
    speeds(problem, cache, np.array([0, 1]), found)
    assert found == pytest.approx([0.2, 0.4])


# -- the policy -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.02, 0.3]))
@settings(max_examples=examples(20, 120), deadline=None)
def test_it_is_never_worse_than_the_plans_that_it_starts_from(seed: int, seconds: float) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = timed(random_traffic(rng, fabric), seconds)
    ours = assign("fair", fabric, traffic, options=Options(rounds=3000)).assignment
    simple = [assign(policy, fabric, traffic).assignment for policy in ("greedy", "coloring", "first_fit")]
    slowdowns = flow_slowdowns(Stages.of(Demand.of(fabric, traffic)), [ours, *simple])
    assert slowdowns is not None
    assert slowdowns[0] <= min(slowdowns) * (1 + 1e-6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(12, 75), deadline=None)
def test_without_times_or_ignoring_them_plans_are_those_of_the_levels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    plain = assign("fair", fabric, traffic).assignment
    ignored = assign("fair", fabric, timed(traffic, 0.1), options=Options(times="ignore")).assignment
    assert (plain.path == ignored.path).all()
    assert plan_times(Demand.of(fabric, traffic), plain) is None


def test_a_job_that_seldom_sends_shares_with_others_and_not_with_itself() -> None:
    # Two uplinks; a has two flows, b and c one each, all equal. The levels cannot tell any two and two apart; but a
    # meets itself always, and b or c a tenth of the time.
    seldom = computing(0.9)
    rows = [Collective(name, "c", timing=seldom) for name in "abc"]
    traffic = traffic_of([(0, 4, TENTH, 0), (1, 5, TENTH, 0), (2, 6, TENTH, 1), (3, 7, TENTH, 2)], rows)
    path = assign("fair", clos(2, 2, 4), traffic).assignment.path
    assert path[0] != path[1]
    assert path[2] != path[3]


def test_with_a_previous_plan_flows_move_only_for_a_sufficient_gain() -> None:
    rng = np.random.default_rng(3)
    fabric = clos(2, 3, 6)
    flows = [(int(a), int(b), TENTH, i % 3) for i, (a, b) in enumerate(rng.permutation(18).reshape(9, 2))]
    flows.sort(key=lambda row: row[3])
    traffic = traffic_of(flows, [Collective(name, "c", timing=computing(0.2)) for name in "abc"])
    first = assign("fair", fabric, traffic).assignment
    again = assign("fair", fabric, traffic, previous=PreviousPlan.of(fabric, traffic, first)).assignment
    assert (again.path == first.path).all()
    scattered = assign("random", fabric, traffic, seed=1).assignment
    before = PreviousPlan.of(fabric, traffic, scattered)
    dear = assign("fair", fabric, traffic, previous=before, options=Options(churn_price=1e6)).assignment
    assert (dear.path == scattered.path).all()
    cheap = assign("fair", fabric, traffic, previous=before).assignment
    assert times(fabric, traffic, cheap).slowdown < times(fabric, traffic, scattered).slowdown


def test_stranded_flows_find_a_way_and_the_others_stay() -> None:
    fabric = clos(3, 2, 4)
    rows = [Collective(name, "c", timing=computing(0.2)) for name in "ab"]
    traffic = traffic_of([(0, 4, TENTH, 0), (1, 5, TENTH, 0), (2, 6, TENTH, 1), (3, 7, TENTH, 1)], rows)
    first = assign("fair", fabric, traffic).assignment
    failed = fabric.without_links(["spine1"])
    options = Options(churn_price=1e6)
    after = assign(
        "fair", failed, traffic, previous=PreviousPlan.of(fabric, traffic, first), options=options
    ).assignment
    assert (after.path[first.path != 0] == first.path[first.path != 0]).all()
    assert (after.path != 0).all()
    assert (first.path == 0).any()


def test_equal_arguments_give_equal_plans() -> None:
    rng = np.random.default_rng(5)
    fabric = random_fabric(rng)
    traffic = timed(random_traffic(rng, fabric), 0.05)
    one, two = (assign("fair", fabric, traffic, seed=4).assignment for _ in range(2))
    assert (one.path == two.path).all()


def test_times_are_part_of_what_makes_traffic_another() -> None:
    rows = [Collective("a", "c")]
    plain = traffic_of([(0, 1, TENTH, 0)], rows)
    one, two = (timed(plain, seconds) for seconds in (0.1, 0.2))
    assert len({plain.version, one.version, two.version}) == 3
    assert timed(plain, 0.1).version == one.version
