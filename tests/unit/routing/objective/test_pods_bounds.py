"""Ideal times, levels and bounds on fabrics of three tiers of switches, against linear programs over whole paths."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Collective, Traffic
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.relaxation.whole_planes import reached_on_whole
from tests.unit.laws import examples
from tests.unit.routing import oracle
from tests.unit.routing.instances import traffic_of
from tests.unit.routing.objective.least_times import least_seconds
from tests.unit.routing.pod_fabrics import fat_tree, pod_instances

THREE = [Collective("a", "three of four hosts"), Collective("a", "the others"), Collective("a", "all")]


def one_phase(traffic: Traffic) -> Traffic:
    rows = tuple(dataclasses.replace(row, phase=0) for row in traffic.collectives)
    return dataclasses.replace(traffic, collectives=rows)


@settings(max_examples=examples(75, 450), deadline=None)
@given(pod_instances(phases=False))
def test_ideal_times_and_the_bound_for_splitting_are_those_of_the_program_over_paths(
    instance: tuple[Fabric, Traffic],
) -> None:
    fabric, traffic = instance
    demand = Demand.of(fabric, one_phase(traffic))
    for k in np.flatnonzero(demand.in_game).tolist():
        flows = np.flatnonzero(traffic.collective == k)
        wanted = least_seconds(fabric, demand, flows, traffic.bytes[flows] * 8e-9)
        assert demand.ideal_seconds[k] == pytest.approx(wanted, rel=1e-6)
    flows = np.flatnonzero(demand.load > 0)
    if len(flows):
        found = bound(fabric, demand.traffic).split
        assert found == pytest.approx(1 / least_seconds(fabric, demand, flows, demand.load[flows]), rel=1e-6)


@settings(max_examples=examples(50, 300), deadline=None)
@given(pod_instances(), st.integers(0, 2**32 - 1))
def test_speeds_are_those_of_progressive_filling_in_exact_numbers(instance: tuple[Fabric, Traffic], seed: int) -> None:
    fabric, traffic = instance
    rng = np.random.default_rng(seed)
    demand = Demand.of(fabric, traffic)
    path = demand.fixed.copy()
    for f in np.flatnonzero(path == NETWORK).tolist():
        path[f] = rng.choice(fabric.live_paths(int(demand.leaf_src[f]), int(demand.leaf_dst[f])))
    assignment = Assignment.single(path)
    result = evaluate(fabric, traffic, assignment)
    ideal = {k: Fraction(float(demand.ideal_seconds[k])) for k in np.flatnonzero(demand.in_game).tolist()}
    for k, speed in oracle.speeds(fabric, traffic, assignment, ideal).items():
        assert result.speed[k] == pytest.approx(float(speed), rel=1e-9)
    limit = bound(fabric, traffic)
    assert limit.split is not None
    assert result.min_level <= limit.split * (1 + 1e-9)


@settings(max_examples=examples(30, 180), deadline=None)
@given(pod_instances(phases=False), st.integers(0, 2**32 - 1))
def test_no_choice_of_whole_paths_exceeds_the_bound_for_single_paths(
    instance: tuple[Fabric, Traffic], seed: int
) -> None:
    fabric, traffic = instance
    demand = Demand.of(fabric, traffic)
    limit = bound(fabric, traffic).single
    assert limit is not None
    paths = [fabric.live_paths(a, b) for a, b in zip(demand.unit_src.tolist(), demand.unit_dst.tolist(), strict=True)]
    rng = np.random.default_rng(seed)
    for _ in range(20):
        unit_path = np.array([rng.choice(some) for some in paths], dtype=np.int32)
        assert evaluate(fabric, traffic, demand.assignment(unit_path)).min_level <= limit * (1 + 1e-9)
        if not demand.n_units:
            break


@pytest.mark.parametrize("dead", [0, 1, 4])
def test_dead_cores_bound_the_traffic_between_pods_by_the_capacity_that_is_left(dead: int) -> None:
    healthy = fat_tree(8)
    fabric = healthy.without_links([f"core{n + 1}" for n in range(dead)])
    hosts = np.arange(128, dtype=np.int32)
    traffic = traffic_of([(h, (h + 16) % 128, 10**9, 0) for h in hosts.tolist()], [Collective("a", "c")])
    assert Demand.of(healthy, traffic).ideal_seconds[0] == pytest.approx(0.08)
    assert Demand.of(fabric, traffic).ideal_seconds[0] == pytest.approx(0.08 * 16 / (16 - dead), rel=1e-9)


def test_aggregation_switches_dead_in_different_planes_and_pods_need_more_than_the_cuts() -> None:
    """Pod 1 has planes 2 and 3, pod 2 planes 1 and 3: only plane 3 is left between them, though each cut has two."""
    fabric = pod_clos(2, 3, 3, 3, 3).without_links(["agg1", "agg5"])
    flows = [(h, h + 9, 10**9, 0) for h in range(9)]
    demand = Demand.of(fabric, traffic_of(flows, [Collective("a", "c")]))
    assert demand.ideal_seconds[0] == pytest.approx(0.08 * 3, rel=1e-9)


@pytest.mark.parametrize(
    ("dead", "reached"),
    [([], True), (["core1"], False), (["core1", "core5"], False), (["agg1"], False), (["leaf1-agg1"], False)],
)
def test_planes_that_failures_left_whole_carry_what_needs_no_more_than_them(dead: list[str], reached: bool) -> None:
    """With the plane of a failure left out, a leaf has three of four uplinks: enough for three of its four hosts."""
    fabric = fat_tree(8).without_links(dead)
    flows = [(h, (h + 16) % 128, 10**9, int(h % 4 == 3)) for h in range(128)]
    demand = Demand.of(fabric, traffic_of([*flows, *((h, d, b, 2) for h, d, b, _ in flows)], THREE))
    ends = demand.leaf_src, demand.leaf_dst, demand.fixed
    known = reached_on_whole(fabric, demand.traffic, *ends, np.array([0.08, 0.08, 0.08]))
    assert known.tolist() == [True, True, reached]
