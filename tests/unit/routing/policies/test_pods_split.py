"""Split flows on fabrics of three layers: as good as free splitting, with few pieces."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, assign
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.placing.split_by_tier import divided_by_tier
from controller.routing.policies.split import budget
from controller.routing.problem.demand import Demand
from controller.routing.relaxation import concurrent
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import random_traffic, traffic_of
from tests.unit.routing.pod_fabrics import fat_tree, random_pods


def between_pods(fabric: Fabric, pods: int, seed: int = 0) -> Traffic:
    """Every host sends to one host of the next pod, and receives from one."""
    rng, each = np.random.default_rng(seed), fabric.n_hosts // pods
    order = np.concatenate([rng.permutation(each) + each * ((p + 1) % pods) for p in range(pods)])
    return traffic_of([(a, b, 10**9, 0) for a, b in enumerate(order.tolist())], [Collective("a", "c")])


@settings(deadline=None, max_examples=examples(30, 180))
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_any_loads_and_missing_cables_come_within_one_percent_of_the_bound(seed: int, healthy: bool) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng, healthy=healthy)
    traffic = random_traffic(rng, fabric, most_flows=40, unknown_ports=False)
    made = assign("split", fabric, traffic).assignment
    validate_assignment(fabric, traffic, made)
    limit = bound(fabric, traffic).split
    assert limit is not None
    assert evaluate(fabric, traffic, made).min_level >= 0.99 * limit
    assert made.n_rows - traffic.n_flows <= budget(Demand.of(fabric, traffic), Options())


@pytest.mark.parametrize("dead", [[], ["core1"], ["core1", "core2", "core6", "core11"], ["agg1"], ["agg1", "agg6"]])
@pytest.mark.parametrize("name", ["split", "fair"])
def test_with_dead_cores_and_aggregation_switches_the_bound_is_reached(dead: list[str], name: str) -> None:
    fabric = fat_tree(8).without_links(dead)
    traffic = between_pods(fabric, 8)
    made = assign(name, fabric, traffic, options=Options(max_splits=10**6)).assignment
    validate_assignment(fabric, traffic, made)
    limit = bound(fabric, traffic).split
    assert limit is not None
    assert evaluate(fabric, traffic, made).min_level >= 0.99 * limit
    if all(switch.startswith("core") for switch in dead):
        # Without one of its four cores, a plane's whole flows would double the load of a link.
        assert made.is_split() == bool(dead)


def test_no_flow_is_cut_where_whole_flows_reach_the_bound() -> None:
    fabric = fat_tree(6)
    assert not assign("split", fabric, between_pods(fabric, 6)).assignment.is_split()


@settings(deadline=None, max_examples=examples(50, 300))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0]), st.booleans())
def test_pieces_of_each_flow_carry_it_over_live_paths(seed: int, level: float, solved: bool) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_pods(rng)
    demand = Demand.of(fabric, random_traffic(rng, fabric))
    load = demand.load[demand.part_flow]
    if not (load > 0).any():
        return
    most = concurrent.MOST_VARIABLES if solved else 0
    with mock.patch.object(concurrent, "MOST_VARIABLES", most):
        pieces = divided_by_tier(demand, level, seed % 100)
    flow = demand.part_flow[pieces.part]
    assert fabric.live_ways.joined(demand.leaf_src[flow], demand.leaf_dst[flow], pieces.path).all()
    assert np.bincount(pieces.part, weights=pieces.load, minlength=len(load)) == pytest.approx(load)
