"""Weights of paths, for flows whose packets may take several at once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.routing import Options, assign
from controller.routing.objective.bounds import split_bound
from controller.routing.objective.fairness import evaluate
from controller.routing.placing import path_weights
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import instances, traffic_of
from tests.unit.routing.pod_fabrics import pod_instances

QUICK = Options(rounds=2000)
everywhere = st.one_of(instances(), pod_instances())


def in_any_order(traffic: Traffic, jobs: set[str]) -> Traffic:
    """The same flows, of which these jobs take packets in any order."""
    rows = tuple(dataclasses.replace(row, any_order=row.job in jobs) for row in traffic.collectives)
    return dataclasses.replace(traffic, collectives=rows)


@settings(max_examples=examples(60, 1000), deadline=None)
@given(everywhere, st.sets(st.sampled_from(["job0", "job1", "job2"])), st.sampled_from(["fair", "ecmp", "split"]))
def test_weights_add_up_on_live_paths_and_flows_that_need_order_are_planned_as_alone(
    instance: tuple[Fabric, Traffic], jobs: set[str], policy: str
) -> None:
    fabric, traffic = instance[0], in_any_order(instance[1], jobs)
    assignment = assign(policy, fabric, traffic, options=QUICK).assignment
    validate_assignment(fabric, traffic, assignment)
    strict = np.flatnonzero(~traffic.spreadable)
    alone = assign(policy, fabric, traffic.of_flows(strict), options=QUICK).assignment
    rows = np.isin(assignment.flow, strict)
    np.testing.assert_array_equal(assignment.path[rows], alone.path)
    np.testing.assert_array_equal(assignment.share[rows], alone.share)


@settings(max_examples=examples(60, 1000), deadline=None)
@given(instances(phases=False))
def test_where_all_take_any_order_the_lowest_level_is_that_of_free_splitting(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance[0], in_any_order(instance[1], {"job0", "job1", "job2"})
    demand = Demand.of(fabric, traffic)
    level = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_level
    if demand.in_game.any():
        # Small weights are left out.
        assert level >= split_bound(demand, exact=True).level * (1 - 0.001)


@settings(max_examples=examples(20, 300), deadline=None)
@given(everywhere)
def test_without_programs_weights_are_never_worse_than_even_ones(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance[0], in_any_order(instance[1], {"job0", "job1", "job2"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_weights, "MOST_ROWS", 0)
        moved = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_level
        patch.setattr(path_weights, "STEPS", 0)
        even = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_level
    assert moved >= even * (1 - TOLERANCE)


def test_on_equal_paths_all_have_the_same_weight_and_after_a_failure_those_of_one_pair_still_add_up() -> None:
    fabric = clos(4, 3, 2)
    flows = [(src, (src + 2) % 6, 10**9, 0) for src in range(6)]
    traffic = traffic_of(flows, [Collective("a", "c", any_order=True)], [ANY_PORT] * 6)
    even = assign("fair", fabric, traffic).assignment
    np.testing.assert_allclose(even.share, 1 / 4)
    failed = fabric.without_links([fabric.cable_names[0]])
    demand = Demand.of(failed, traffic)
    after = assign("fair", failed, traffic).assignment
    assert evaluate(failed, traffic, after).min_level >= 0.999 * split_bound(demand).level
    assert (np.bincount(after.flow[demand.fixed[after.flow] == NETWORK]) >= 3).all()


def test_flows_that_no_packet_tells_apart_are_spread_only_if_all_allow_it() -> None:
    table = [Collective("a", "c", any_order=True), Collective("b", "c")]
    traffic = traffic_of([(0, 2, 10**9, 0), (1, 3, 10**9, 0), (0, 2, 10**9, 1)], table, [ANY_PORT] * 3)
    assert traffic.spreadable.tolist() == [False, True, False]
    assignment = assign("fair", clos(2, 2, 2), traffic).assignment
    # The others fill one path of two, so the third takes the other one.
    assert assignment.flow.tolist() == [0, 1, 2]
    assert assignment.path[0] == assignment.path[2] != assignment.path[1]


def test_jobs_in_any_order_are_another_traffic() -> None:
    traffic = traffic_of([(0, 2, 10**9, 0)], [Collective("a", "c")])
    assert in_any_order(traffic, {"a"}).version != traffic.version
