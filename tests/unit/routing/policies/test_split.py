from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.routing import Options, assign
from controller.routing.kernels.placing import splitting
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.placing.pieces import Pieces
from controller.routing.problem.demand import Demand
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import instances, random_fabric, random_traffic, traffic_of


def permutation(fabric: Fabric, seed: int, sizes: np.ndarray | None = None) -> Traffic:  # type: ignore[type-arg]
    """Every host sends to one host of another leaf and receives from one."""
    hosts = np.random.default_rng(seed).permutation(fabric.n_hosts)
    per_leaf = fabric.n_hosts // fabric.n_leaves
    order = np.argsort(fabric.host_leaf[hosts], kind="stable")
    ring = hosts[order]
    flows = [(int(a), int(b), 10**9, 0) for a, b in zip(ring, np.roll(ring, -per_leaf), strict=True)]
    if sizes is not None:
        flows = [(a, b, int(s), k) for (a, b, _, k), s in zip(flows, sizes, strict=True)]
    return traffic_of(flows, [Collective("a", "c")])


@pytest.mark.parametrize("spines", [5, 6, 7, 9, 12, 13])
def test_busy_leaves_with_too_few_spines_get_what_free_splitting_allows_in_equal_shapes(spines: int) -> None:
    fabric = clos(spines, 6, 14)
    traffic = permutation(fabric, spines)
    assignment = assign("split", fabric, traffic).assignment
    limit = bound(fabric, traffic).split
    assert limit is not None
    assert evaluate(fabric, traffic, assignment).min_level >= 0.99 * limit
    assert assignment.n_rows - traffic.n_flows <= fabric.n_leaves * spines
    # All links of a spine carry pieces of the same sizes: they run and finish together whoever shares a flow at a time.
    for leaf_of in (fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]):
        for k in range(spines):
            rows = assignment.path == k
            shapes = {
                tuple(np.sort(np.round(assignment.share[rows & (leaf_of[assignment.flow] == leaf)], 6)))
                for leaf in range(fabric.n_leaves)
            }
            assert len(shapes) == 1


def test_no_flow_is_cut_where_whole_flows_reach_the_bound() -> None:
    fabric = clos(4, 4, 4)
    assert not assign("split", fabric, permutation(fabric, 1)).assignment.is_split()


@pytest.mark.parametrize("seed", range(60))
def test_unequal_loads_capacities_and_missing_paths_come_within_one_percent_of_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric, most_flows=40, unknown_ports=False)
    assignment = assign("split", fabric, traffic).assignment
    validate_assignment(fabric, traffic, assignment)
    limit = bound(fabric, traffic).split
    assert limit is not None
    assert evaluate(fabric, traffic, assignment).min_level >= 0.99 * limit
    assert assignment.n_rows - traffic.n_flows <= fabric.n_leaves * fabric.n_paths


def test_a_large_fabric_with_unequal_flows_and_failed_links_is_split_as_well() -> None:
    fabric = clos(12, 16, 16).without_links(["leaf1-spine1", "leaf3-spine2", "leaf9-spine1"])
    sizes = np.random.default_rng(2).integers(5 * 10**8, 10**9, fabric.n_hosts)
    traffic = permutation(fabric, 3, sizes)
    assignment = assign("split", fabric, traffic).assignment
    limit = bound(fabric, traffic).split
    assert limit is not None
    assert evaluate(fabric, traffic, assignment).min_level >= 0.99 * limit
    assert assignment.n_rows - traffic.n_flows <= fabric.n_leaves * fabric.n_spines


def test_flows_with_unknown_ports_are_not_split() -> None:
    fabric = clos(3, 2, 4)
    flows = [(i, 4 + i, 10**9, 0) for i in range(4)]
    traffic = traffic_of(flows, [Collective("a", "c")], [ANY_PORT] * 4)
    assert not assign("split", fabric, traffic).assignment.is_split()
    assert not assign("ethereal", fabric, traffic).assignment.is_split()
    assert not assign("fair", fabric, traffic, options=Options(max_splits=6)).assignment.is_split()


@settings(max_examples=examples(30, 180), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_search_for_better_places_keeps_together_what_no_switch_can_distinguish(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = clos(3, 2, 4)
    # Pairs of flows between the same hosts, some with one unknown port for both.
    flows = [(int(a), int(b), int(rng.integers(1, 9)) * 10**8, 0) for a, b in rng.integers([0, 4], [4, 8], (6, 2))]
    ports = [ANY_PORT if rng.random() < 0.6 else 50000 + n for n in range(len(flows))]
    demand = Demand.of(fabric, traffic_of(flows, [Collective("a", "c")], ports))
    unit = np.repeat(np.arange(demand.n_units), np.diff(demand.part_ptr))
    path = rng.integers(0, 3, demand.n_units)
    everything = Pieces(np.arange(len(unit)), path[unit], demand.load[demand.part_flow])
    moved, _ = everything.searched(demand, 2.0, 3000, seed)
    assert all(len(np.unique(moved.path[unit[moved.part] == u])) == 1 for u in range(demand.n_units))


@settings(max_examples=examples(50, 300), deadline=None)
@given(instances(), st.integers(0, 2**32 - 1))
def test_flows_without_load_have_the_path_of_the_flows_that_share_their_unit(
    instance: tuple[Fabric, Traffic], seed: int
) -> None:
    fabric, traffic = instance
    demand, rng = Demand.of(fabric, traffic), np.random.default_rng(seed)
    parts = np.flatnonzero((demand.load[demand.part_flow] > 0) & (rng.random(len(demand.part_flow)) < 0.6))
    flow = demand.part_flow[parts]
    ends = zip(demand.leaf_src[flow].tolist(), demand.leaf_dst[flow].tolist(), strict=True)
    path = np.array([rng.choice(fabric.live_paths(*pair)) for pair in ends], dtype=np.int64)
    pieces = Pieces(parts, path, demand.load[flow].astype(np.float64)).enforceable(demand)
    assert (pieces.load > 0).all()
    validate_assignment(fabric, traffic, pieces.assignment(demand))


@settings(max_examples=examples(50, 300), deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 0.9))
def test_dividing_between_two_sets_of_spines_keeps_every_leafs_sums_and_cuts_a_forest(seed: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    n_leaves, n_flows = int(rng.integers(2, 7)), int(rng.integers(1, 60))
    src, dst = rng.integers(0, n_leaves, (2, n_flows)).astype(np.int32)
    amount = rng.uniform(0.1, 5, n_flows)
    part = splitting.divide(src, dst, amount, n_leaves, ratio, np.zeros(2 * n_leaves), np.zeros(2 * n_leaves))
    assert (part >= 0).all()
    assert (part <= amount).all()
    for end in (src, dst):
        total = np.bincount(end, weights=amount, minlength=n_leaves)
        np.testing.assert_allclose(np.bincount(end, weights=part, minlength=n_leaves), ratio * total, atol=1e-6)
    divided = (part > 1e-9 * amount) & (part < (1 - 1e-9) * amount)
    assert divided.sum() < 2 * n_leaves


@settings(max_examples=examples(20, 120), deadline=None)
@given(instances())
def test_shares_follow_from_loads_for_flows_of_every_collective(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    assignment = assign("split", fabric, traffic).assignment
    total = np.bincount(assignment.flow, weights=assignment.share, minlength=traffic.n_flows)
    np.testing.assert_allclose(total, 1.0, atol=1e-9)
