from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing import POLICIES, Options, assign
from controller.routing.objective import incidence
from controller.routing.objective.bounds import bound, gap
from controller.routing.objective.fairness import compare_levels, evaluate, merged_levels
from controller.routing.problem.demand import Demand
from tests.unit.laws import examples
from tests.unit.routing import oracle
from tests.unit.routing.instances import instance_of, instances, traffic_of

FAST = [name for name in POLICIES if name not in ("ilp", "fair", "annealing")]
policies = st.sampled_from(FAST)


@settings(max_examples=examples(75, 450), deadline=None)
@given(instances(symmetric=True), policies)
def test_speeds_on_a_symmetric_fabric_equal_those_in_exact_fractions(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    assignment = assign(policy, fabric, traffic).assignment
    ideal = oracle.symmetric_ideal_seconds(fabric, traffic)
    objective = evaluate(fabric, traffic, assignment)
    expected = oracle.speeds(fabric, traffic, assignment, ideal)
    for k in range(len(traffic.collectives)):
        if k in expected:
            assert objective.ideal_seconds[k] == pytest.approx(float(ideal[k]), rel=1e-9)
            assert objective.speed[k] == pytest.approx(float(expected[k]), rel=1e-9)
        else:
            assert math.isnan(objective.speed[k])


@settings(max_examples=examples(75, 450), deadline=None)
@given(instances(symmetric=False), policies)
def test_speeds_on_any_fabric_equal_those_in_exact_fractions_given_the_ideal_times(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    assignment = assign(policy, fabric, traffic).assignment
    objective = evaluate(fabric, traffic, assignment)
    ideal = {k: Fraction(s) for k, s in enumerate(objective.ideal_seconds.tolist()) if not math.isnan(s)}
    expected = oracle.speeds(fabric, traffic, assignment, ideal)
    for k, speed in expected.items():
        assert objective.speed[k] == pytest.approx(min(1.0, float(speed)), rel=1e-9)


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), policies, st.integers(2, 1000))
def test_scaling_all_bytes_changes_no_speed(instance: tuple[Fabric, Traffic], policy: str, factor: int) -> None:
    fabric, traffic = instance
    bigger = dataclasses.replace(traffic, bytes=traffic.bytes * factor)
    assignment = assign(policy, fabric, traffic).assignment
    one, other = evaluate(fabric, traffic, assignment), evaluate(fabric, bigger, assignment)
    np.testing.assert_allclose(one.speed, other.speed, rtol=1e-7)
    np.testing.assert_allclose(one.ideal_seconds * factor, other.ideal_seconds, rtol=1e-7)


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), policies)
def test_speeds_lie_in_zero_to_one_and_no_link_is_overloaded(instance: tuple[Fabric, Traffic], policy: str) -> None:
    fabric, traffic = instance
    objective = evaluate(fabric, traffic, assign(policy, fabric, traffic).assignment)
    speed = objective.speed[~np.isnan(objective.speed)]
    assert (speed >= 0).all()
    assert (speed <= 1).all()
    assert (objective.link_load <= fabric.link_gbps * (1 + 1e-9)).all()
    in_game = ~np.isnan(objective.ideal_seconds)
    assert (objective.speed[in_game] > 0).all()


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), st.floats(1.0, 4.0))
def test_with_the_ideal_times_held_more_capacity_never_lowers_the_best(
    instance: tuple[Fabric, Traffic], factor: float
) -> None:
    fabric, traffic = instance
    demand = Demand.of(fabric, traffic)
    wider = dataclasses.replace(
        fabric,
        cables=tuple(dataclasses.replace(c, gbps=c.gbps * factor) for c in fabric.cables[::2]) + fabric.cables[1::2],
    )
    wider = dataclasses.replace(wider, cables=_in_order(fabric, wider))
    held = dataclasses.replace(demand, fabric=wider)
    before, after = bound(fabric, traffic, demand=demand), bound(wider, traffic, demand=held)
    assert before.split is not None
    assert after.split is not None
    assert after.split >= before.split * (1 - 1e-7)


def _in_order(fabric: Fabric, shuffled: Fabric) -> tuple:  # type: ignore[type-arg]
    by_ports = {(c.lower, c.lower_port): c for c in shuffled.cables}
    return tuple(by_ports[c.lower, c.lower_port] for c in fabric.cables)


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), policies)
def test_no_plan_beats_the_bounds_and_the_gap_says_how_far_it_is(instance: tuple[Fabric, Traffic], policy: str) -> None:
    fabric, traffic = instance
    assignment = assign(policy, fabric, traffic).assignment
    objective, limit = evaluate(fabric, traffic, assignment), bound(fabric, traffic)
    applies = limit.split if assignment.is_split() else limit.single
    assert applies is not None
    assert objective.min_level <= applies * (1 + 1e-6)
    distance = gap(objective, limit, assignment)
    assert distance is not None
    assert objective.min_level * (1 + distance) == pytest.approx(max(applies, objective.min_level), rel=1e-9)


@settings(max_examples=examples(75, 2_000), deadline=None)
@given(instances(), policies)
def test_rounding_makes_no_level_and_no_bound_higher_than_a_speed_of_1(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    objective = evaluate(fabric, traffic, assign(policy, fabric, traffic).assignment)
    limit, demand = bound(fabric, traffic), Demand.of(fabric, traffic)
    most = 1 / traffic.weight[demand.in_game]
    for lowest in (objective.min_level, limit.split, limit.single):
        assert lowest is not None
        assert lowest <= most.min(initial=1.0)
    for step in objective.levels:
        assert step.level <= most.max()
        assert step.bound is None or step.bound <= most.max()
    assert (objective.speed[~np.isnan(objective.speed)] <= 1).all()


def test_weights_divide_a_shared_link_in_their_proportion() -> None:
    # Two hosts of leaf 1 to two of leaf 2 over the only spine: 100 Gbit/s shared 3 : 1, levels equal.
    fabric = clos(1, 2, 2)
    traffic = traffic_of([(0, 2, 10**9, 0), (1, 3, 10**9, 1)], [Collective("a", "c", 3.0), Collective("b", "c", 1.0)])
    objective = evaluate(fabric, traffic, Assignment.single(np.array([0, 0])))
    assert objective.speed.tolist() == pytest.approx([0.75, 0.25])
    assert [(step.level, step.collectives) for step in objective.levels] == [(pytest.approx(0.25), 2)]
    assert objective.min_speed == pytest.approx(0.25)


def test_phases_of_one_job_do_not_compete_but_those_of_two_jobs_do() -> None:
    fabric = clos(1, 2, 2)
    flows = [(0, 2, 10**9, 0), (1, 3, 10**9, 1)]
    together = traffic_of(flows, [Collective("a", "c"), Collective("a", "d")])
    apart = traffic_of(flows, [Collective("a", "c", phase=0), Collective("a", "d", phase=1)])
    others = traffic_of(flows, [Collective("a", "c", phase=0), Collective("b", "d", phase=1)])
    paths = Assignment.single(np.array([0, 0]))
    assert evaluate(fabric, together, paths).speed.tolist() == pytest.approx([0.5, 0.5])
    assert evaluate(fabric, apart, paths).speed.tolist() == pytest.approx([1.0, 1.0])
    assert evaluate(fabric, others, paths).speed.tolist() == pytest.approx([0.5, 0.5])


@settings(max_examples=examples(20, 120), deadline=None)
@given(instances(phases=True), policies)
def test_the_estimate_for_many_phases_is_never_faster_than_the_exact_combinations(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    assignment = assign(policy, fabric, traffic).assignment
    exact = evaluate(fabric, traffic, assignment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidence, "MAX_COMBINATIONS", 0)
        estimate = evaluate(fabric, traffic, assignment)
    assert exact.exact_phases
    assert not estimate.exact_phases
    assert estimate.min_level <= exact.min_level * (1 + 1e-9)
    assert (estimate.link_load <= fabric.link_gbps * (1 + 1e-9)).all()


def test_an_unroutable_collective_has_speed_zero_and_does_not_affect_others() -> None:
    fabric = clos(2, 3, 1).without_links(["leaf3-spine1", "leaf3-spine2"])
    traffic = traffic_of([(0, 1, 10**9, 0), (0, 2, 10**9, 1)], [Collective("a", "c"), Collective("b", "c")])
    result = assign("fair", fabric, traffic)
    objective = evaluate(fabric, traffic, result.assignment)
    assert result.assignment.path[1] == UNROUTABLE
    assert objective.speed.tolist() == [1.0, 0.0]
    assert (objective.min_speed, objective.min_level) == (0.0, 1.0)
    assert bound(fabric, traffic).single == pytest.approx(1.0)


def test_without_any_collective_on_the_network_speeds_and_bounds_are_one() -> None:
    fabric = clos(2, 2, 1)
    objective = evaluate(fabric, Traffic.empty(), assign("fair", fabric, Traffic.empty()).assignment)
    limit = bound(fabric, Traffic.empty())
    assert (objective.min_speed, objective.min_level, limit.split, limit.single) == (1.0, 1.0, 1.0, 1.0)
    assert objective.levels == ()


def test_slowdown_is_relative_to_the_intended_fabric() -> None:
    fabric = clos(2, 2, 2)
    traffic = traffic_of([(0, 2, 10**9, 0), (1, 3, 10**9, 0)], [Collective("a", "c")])
    failed = fabric.without_links(["spine2"])
    objective = evaluate(failed, traffic, assign("fair", failed, traffic).assignment)
    assert objective.speed.tolist() == [1.0]
    assert objective.ideal_seconds[0] == pytest.approx(2 * objective.healthy_seconds[0])


def test_levels_carry_the_bound_at_their_place() -> None:
    steps = merged_levels(np.array([0.5, 1.0, np.nan, 0.5 + 1e-12]), np.array([0.5, 0.75, np.nan, 1.0]))
    assert [(s.level, s.bound, s.collectives) for s in steps] == [(0.5, 0.5, 2), (1.0, 1.0, 1)]


def test_after_a_collective_below_its_bound_only_the_speeds_limit_the_levels() -> None:
    # The second collective leaves half of its level, which the third may take.
    steps = merged_levels(np.array([0.25, 0.25, 0.75]), np.array([0.25, 0.5, 0.5]), np.array([1.0, 2.0, 1.0]))
    assert [(s.level, s.bound, s.collectives) for s in steps] == [(0.25, 0.25, 2), (0.75, 1.0, 1)]


@settings(max_examples=examples(50, 300), deadline=None)
@given(instances(symmetric=True), policies)
@example(instance_of(903_641, symmetric=True), "ecmp").via("some collectives of the lowest step are below their bounds")
def test_no_level_beats_its_bound_while_all_lower_ones_reach_theirs(
    instance: tuple[Fabric, Traffic], policy: str
) -> None:
    fabric, traffic = instance
    for step in evaluate(fabric, traffic, assign(policy, fabric, traffic).assignment).levels:
        assert step.bound is not None
        assert step.level <= step.bound * (1 + 1e-6)
        if step.level < step.bound * (1 - 1e-6):
            break


def test_levels_compare_lexicographically_from_the_lowest_with_one_tolerance() -> None:
    assert compare_levels(np.array([1.0, 0.5]), np.array([0.5, 0.9])) == 1
    assert compare_levels(np.array([0.4, 1.0]), np.array([0.5, 0.5])) == -1
    assert compare_levels(np.array([0.5, np.nan]), np.array([0.5 + 1e-9, np.nan])) == 0


@settings(max_examples=examples(15, 90), deadline=None)
@given(instances())
def test_options_that_bound_the_effort_never_bring_the_search_below_its_start(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    lazy = evaluate(fabric, traffic, assign("fair", fabric, traffic, options=Options(rounds=0)).assignment)
    eager = evaluate(fabric, traffic, assign("fair", fabric, traffic, options=Options(rounds=20_000)).assignment)
    assert compare_levels(eager.speed / traffic.weight, lazy.speed / traffic.weight) >= 0
