"""The contract of ``fair``, point by point (docs/explanation/policies.md)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.plans import contract_draws
from controller.model.assignment import UNROUTABLE
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.objective.bounds import bound, gap
from controller.routing.objective.fairness import compare_levels, evaluate
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import instances, random_fabric, random_traffic, traffic_of


def levels(fabric: Fabric, traffic: Traffic, policy: str, options: Options = Options()) -> np.ndarray:  # type: ignore[type-arg]  # noqa: B008
    demand = Demand.of(fabric, traffic)
    return Incidence.of(demand, assign(policy, fabric, traffic, options=options).assignment).levels(demand)[0]


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), st.sampled_from([0, 3000]))
def test_it_is_lexicographically_no_worse_than_the_simple_placements(
    instance: tuple[Fabric, Traffic], rounds: int
) -> None:
    fabric, traffic = instance
    fair = levels(fabric, traffic, "fair", Options(rounds=rounds))
    for other in ("greedy", "coloring", "first_fit"):
        assert compare_levels(fair, levels(fabric, traffic, other)) >= 0


@settings(max_examples=examples(40, 240), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equal_loads_on_a_healthy_symmetric_fabric_leave_no_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spines, leaves, hosts = (int(n) for n in rng.integers(2, 9, 3))
    fabric = clos(
        spines, leaves, hosts, uplink_gbps=float(rng.choice([50, 100, 400])), parallel=int(rng.integers(1, 3))
    )
    size = int(rng.integers(2, min(8, fabric.n_hosts) + 1))
    rings = rng.permutation(fabric.n_hosts)[: fabric.n_hosts // size * size].reshape(-1, size)
    # Bytes differ from ring to ring, loads do not: each ring is as fast alone as its host links.
    scale = [int(s) for s in rng.integers(10**6, 10**9, len(rings))]
    flows = [(int(a), int(b), scale[k], k) for k, r in enumerate(rings) for a, b in zip(r, np.roll(r, -1), strict=True)]
    traffic = traffic_of(flows, [Collective(f"j{k}", "ring") for k in range(len(rings))])
    loads = Demand.of(fabric, traffic).gbps
    if not np.allclose(loads, loads[0]):
        return
    assignment = assign("fair", fabric, traffic).assignment
    assert not assignment.is_split()
    assert gap(evaluate(fabric, traffic, assignment), bound(fabric, traffic), assignment) == pytest.approx(0, abs=1e-6)


@settings(max_examples=examples(30, 180), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_phases_of_equal_loads_each_leave_no_gap_either(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spines, leaves, hosts = (int(n) for n in rng.integers(2, 9, 3))
    fabric = clos(spines, leaves, hosts, parallel=int(rng.integers(1, 3)))
    n_phases = int(rng.integers(2, 5))
    flows = []
    for phase in range(n_phases):
        ring = rng.permutation(fabric.n_hosts)[: int(rng.integers(2, fabric.n_hosts + 1))]
        flows += [(int(a), int(b), 10**6 * (phase + 1), phase) for a, b in zip(ring, np.roll(ring, -1), strict=True)]
    traffic = traffic_of(flows, [Collective("j", f"c{p}", phase=p) for p in range(n_phases)])
    assignment = assign("fair", fabric, traffic).assignment
    assert not assignment.is_split()
    assert gap(evaluate(fabric, traffic, assignment), bound(fabric, traffic), assignment) == pytest.approx(0, abs=1e-6)


def test_each_round_of_halving_and_doubling_is_shared_out_evenly() -> None:
    # 16 ranks, one a host, all on different leaves but for two a leaf; round r joins ranks that differ in bit r.
    fabric = clos(4, 4, 4)
    host = np.random.default_rng(3).permutation(16)
    flows = [(int(host[i]), int(host[i ^ (1 << r)]), 2**20 >> r, 0) for r in range(4) for i in range(16)]
    traffic = traffic_of(flows, [Collective("j", "all_reduce")])
    assignment = assign("fair", fabric, traffic).assignment
    leaf = fabric.host_leaf[traffic.src]
    for r in range(4):
        crossing = (np.arange(64) // 16 == r) & (assignment.path >= 0)
        used = np.bincount(leaf[crossing] * 4 + assignment.path[crossing], minlength=16)
        assert used.max(initial=0) <= 1


@pytest.mark.parametrize("seed", range(40))
def test_unequal_loads_on_odd_fabrics_come_within_one_percent_of_the_proven_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, symmetric=seed % 4 == 0)
    traffic = random_traffic(rng, fabric, most_flows=25)
    traffic = dataclasses.replace(
        traffic, collectives=tuple(dataclasses.replace(c, weight=1.0) for c in traffic.collectives)
    )
    best = assign("ilp", fabric, traffic, options=Options(nodes=300))
    if best.status == "optimal":
        fair = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment)
        assert fair.min_speed >= 0.99 * evaluate(fabric, traffic, best.assignment).min_speed


# In each of these draws, the level depended on the order once.
@pytest.mark.parametrize("number", [108, 112, 278])
def test_another_order_of_jobs_and_flows_leaves_the_lowest_level_as_it_is(number: int) -> None:
    rng = np.random.default_rng([0, 7, number])
    kind = contract_draws.KINDS[number % len(contract_draws.KINDS)]
    healthy = contract_draws.fabric_of(kind, int(rng.integers(2, 4)), rng, oversubscribed=True)
    fabric = contract_draws.worn(healthy, rng)
    traffic = contract_draws.mixed(fabric, rng)
    reached = [
        evaluate(fabric, each, assign("fair", fabric, each).assignment).min_level
        for each in (traffic, contract_draws.reordered(traffic, rng))
    ]
    assert reached[0] == pytest.approx(reached[1], rel=1e-6)


def test_units_that_are_put_in_another_order_keep_their_paths() -> None:
    rng = np.random.default_rng(0)
    fabric = contract_draws.fabric_of("planes", 2, rng, oversubscribed=True)
    demand = Demand.of(fabric, contract_draws.mixed(fabric, rng))
    order = demand.order_of_ends()
    there = demand.in_order(order)
    path = np.arange(demand.n_units, dtype=np.int32)
    assert there.n_units == demand.n_units > 5
    moved = there.from_order(demand, np.argsort(order).astype(np.int32), path)
    assert (moved != path).any()
    np.testing.assert_array_equal(demand.from_order(there, order, moved), path)
    np.testing.assert_allclose(there.unit_load, demand.unit_load[moved])


@pytest.mark.parametrize("seed", range(60))
def test_with_splitting_it_reaches_the_split_bound_with_few_pieces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric, most_flows=40, unknown_ports=False)
    allowed = fabric.n_leaves * fabric.n_paths
    assignment = assign("fair", fabric, traffic, options=Options(max_splits=allowed)).assignment
    validate_assignment(fabric, traffic, assignment)
    limit = bound(fabric, traffic).split
    assert limit is not None
    assert evaluate(fabric, traffic, assignment).min_level >= 0.99 * limit
    assert assignment.n_rows <= traffic.n_flows + allowed


@settings(max_examples=examples(20, 120), deadline=None)
@given(instances(), st.integers(0, 5))
def test_the_allowed_number_of_extra_pieces_is_kept(instance: tuple[Fabric, Traffic], allowed: int) -> None:
    fabric, traffic = instance
    for policy in ("fair", "split"):
        assignment = assign(policy, fabric, traffic, options=Options(max_splits=allowed, rounds=1000)).assignment
        validate_assignment(fabric, traffic, assignment)
        assert assignment.n_rows <= traffic.n_flows + allowed


def test_an_isolated_leaf_makes_only_its_own_flows_unroutable() -> None:
    fabric = clos(3, 4, 2).without_links(["leaf2-spine1", "leaf2-spine2", "leaf2-spine3"])
    pairs = [(a, b) for a in range(8) for b in range(8) if a // 2 != b // 2]
    traffic = traffic_of(
        [(a, b, 10**8, i) for i, (a, b) in enumerate(pairs)], [Collective("j", str(i)) for i in range(len(pairs))]
    )
    path = assign("fair", fabric, traffic).assignment.path
    touches = [2 in (a, b) or 3 in (a, b) for a, b in pairs]
    assert [p == UNROUTABLE for p in path.tolist()] == touches


def test_more_effort_is_spent_only_while_a_level_is_open() -> None:
    fabric = clos(4, 4, 4)
    traffic = traffic_of([(i, (i + 4) % 16, 10**9, 0) for i in range(16)], [Collective("a", "ring")])
    one, other = (assign("fair", fabric, traffic, options=Options(rounds=r)) for r in (0, 10**9))
    assert one.status == other.status == "optimal"
    np.testing.assert_array_equal(one.assignment.path, other.assignment.path)


def moves(fabric: Fabric, traffic: Traffic, previous: PreviousPlan, path: np.ndarray) -> int:  # type: ignore[type-arg]
    """How many flows left a path that they could have kept."""
    old = previous.on(fabric).single_paths(traffic)
    a, b = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    live = fabric.live_ways.joined(a, b, old)
    return int((live & (path != old)).sum())


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), st.integers(0, 2**16))
def test_near_a_plan_in_force_it_stays_within_five_percent_of_planning_afresh(
    instance: tuple[Fabric, Traffic], pick: int
) -> None:
    fabric, traffic = instance
    options = Options(rounds=20_000)
    before = assign("fair", fabric, traffic, options=options).assignment
    failed = fabric.without_links([fabric.cable_names[pick % len(fabric.cables)]])
    previous = PreviousPlan.of(fabric, traffic, before)
    kept = assign("fair", failed, traffic, previous=previous, options=options).assignment
    fresh = assign("fair", failed, traffic, options=options).assignment
    assert evaluate(failed, traffic, kept).min_speed >= 0.95 * evaluate(failed, traffic, fresh).min_speed * (
        1 - 1e-9
    ) or (evaluate(failed, traffic, kept).min_level >= 0.95 * evaluate(failed, traffic, fresh).min_level * (1 - 1e-9))


@settings(max_examples=examples(20, 120), deadline=None)
@given(instances(), st.integers(0, 100))
def test_nothing_moves_when_nothing_has_changed_unless_that_is_better(
    instance: tuple[Fabric, Traffic], seed: int
) -> None:
    fabric, traffic = instance
    before = assign("fair", fabric, traffic, options=Options(rounds=3000)).assignment
    previous = PreviousPlan.of(fabric, traffic, before)
    after = assign("fair", fabric, traffic, seed=seed, previous=previous, options=Options(rounds=3000)).assignment
    demand = Demand.of(fabric, traffic)
    old, new = (Incidence.of(demand, a).levels(demand)[0] for a in (before, after))
    assert compare_levels(new, old) > 0 or (before.path == after.path).all()


def test_a_failed_link_moves_the_flow_that_lost_its_path_and_keeps_the_rest() -> None:
    fabric = clos(4, 4, 4, uplink_gbps=400)
    traffic = traffic_of([(i, (i + 4) % 16, 10**9, 0) for i in range(16)], [Collective("a", "ring")])
    before = assign("fair", fabric, traffic).assignment
    previous = PreviousPlan.of(fabric, traffic, before)
    failed = fabric.without_links(["leaf1-spine1"])
    after = assign("fair", failed, traffic, previous=previous).assignment.path
    stranded = [
        f
        for f in range(16)
        if before.path[f] == 0 and "leaf1" in (fabric.hosts[traffic.src[f]].leaf, fabric.hosts[traffic.dst[f]].leaf)
    ]
    assert stranded
    assert np.flatnonzero(after != before.path).tolist() == stranded


def test_a_high_churn_price_keeps_an_uneven_plan_and_a_low_one_improves_it() -> None:
    # Loads 5, 5, 5, 5 over two spines as 3 + 1 (level 2/3 of the best): mending moves one flow of four.
    fabric = clos(2, 2, 4, uplink_gbps=200)
    traffic = traffic_of([(i, 4 + i, 10**9, i) for i in range(4)], [Collective("a", str(i)) for i in range(4)])
    uneven = assign("ecmp", fabric, traffic).assignment
    object.__setattr__(uneven, "path", np.array([0, 0, 0, 1], dtype=np.int32))
    previous = PreviousPlan.of(fabric, traffic, uneven)
    cheap = assign("fair", fabric, traffic, previous=previous, options=Options(churn_price=0.05)).assignment
    assert moves(fabric, traffic, previous, cheap.path) == 1
    # Even a price that no gain can pay does not take the plan further than 5 % from planning afresh.
    dear = assign("fair", fabric, traffic, previous=previous, options=Options(churn_price=1e9)).assignment
    assert evaluate(fabric, traffic, dear).min_speed >= 0.95


def test_a_new_job_leaves_the_old_jobs_flows_where_they_are_if_there_is_room() -> None:
    fabric = clos(4, 4, 8)
    old = traffic_of([(i, 8 + i, 10**9, 0) for i in range(3)], [Collective("a", "c")])
    both = traffic_of(
        [(i, 8 + i, 10**9, 0) for i in range(3)] + [(3, 11, 10**9, 1)], [Collective("a", "c"), Collective("b", "c")]
    )
    before = assign("fair", fabric, old).assignment
    after = assign("fair", fabric, both, previous=PreviousPlan.of(fabric, old, before)).assignment
    np.testing.assert_array_equal(after.path[:3], before.path)
    assert evaluate(fabric, both, after).min_speed == 1.0


def test_split_flows_keep_their_pieces_when_nothing_has_changed() -> None:
    fabric = clos(3, 2, 4)
    traffic = traffic_of([(i, 4 + i, 10**9, 0) for i in range(4)], [Collective("a", "c")])
    options = Options(max_splits=6)
    before = assign("fair", fabric, traffic, options=options).assignment
    assert before.is_split()
    previous = PreviousPlan.of(fabric, traffic, before)
    after = assign("fair", fabric, traffic, seed=5, previous=previous, options=options).assignment
    np.testing.assert_array_equal(after.path, before.path)
    np.testing.assert_allclose(after.share, before.share)
