"""Plans on fabrics of three tiers of switches: valid, optimal where that is known, and near an earlier plan."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.kernels.placing import place
from controller.routing.objective.bounds import bound, gap
from controller.routing.objective.fairness import evaluate
from controller.routing.placing import place_units
from controller.routing.problem.demand import Demand
from controller.routing.validate import InvalidAssignmentError, validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of
from tests.unit.routing.pod_fabrics import fat_tree, pod_instances

POLICIES = (
    "annealing",
    "coloring",
    "ethereal",
    "fair",
    "first_fit",
    "greedy",
    "ilp",
    "path_pinning",
    "random",
    "split",
    "spray",
)
QUICK = Options(rounds=2000, nodes=20, annealing_rounds=500)


@settings(max_examples=examples(75, 450), deadline=None)
@given(pod_instances(), st.sampled_from(POLICIES), st.integers(0, 2**40))
def test_every_policy_gives_a_valid_plan_for_any_instance(
    instance: tuple[Fabric, Traffic], name: str, seed: int
) -> None:
    fabric, traffic = instance
    made = assign(name, fabric, traffic, seed=seed, options=QUICK).assignment
    validate_assignment(fabric, traffic, made, enforceable=name != "spray")
    again = assign(name, fabric, traffic, seed=seed, options=QUICK).assignment
    np.testing.assert_array_equal(made.path, again.path)


def permutation(fabric: Fabric, rng: np.random.Generator, rounds: int) -> Traffic:
    """Every host sends ``rounds`` equal flows and receives as many."""
    flows = [
        (a, b, 10**9, 0)
        for _ in range(rounds)
        for a, b in enumerate(rng.permutation(fabric.n_hosts).tolist())
        if a != b
    ]
    return traffic_of(flows, [Collective("a", "c")])


@settings(max_examples=examples(50, 300), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equal_loads_on_a_healthy_fabric_without_oversubscription_have_gap_0(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pods, leaves, hosts = (int(rng.integers(2, 6)) for _ in range(3))
    aggs = hosts + int(rng.integers(0, 2))
    fabric = pod_clos(pods, leaves, aggs, leaves + int(rng.integers(0, 2)), hosts)
    traffic = permutation(fabric, rng, int(rng.integers(1, 4)))
    result = assign("fair", fabric, traffic, options=Options(rounds=0))
    found = evaluate(fabric, traffic, result.assignment)
    assert gap(found, bound(fabric, traffic), result.assignment) == pytest.approx(0, abs=1e-9)
    assert result.status == "optimal"


@settings(max_examples=examples(25, 150), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_colours_from_above_are_optimal_where_the_links_between_pods_limit(seed: int) -> None:
    """Whole pods send to other pods, over a quarter of the capacity that the leaves have."""
    rng = np.random.default_rng(seed)
    pods, aggs, cores = int(rng.integers(2, 5)), int(rng.integers(2, 5)), int(rng.integers(1, 3))
    leaves = 4 * cores
    fabric = pod_clos(pods, leaves, aggs, cores, aggs)
    each = leaves * aggs
    order = np.concatenate([rng.permutation(each) + each * ((p + 1) % pods) for p in range(pods)])
    traffic = traffic_of([(a, b, 10**9, 0) for a, b in enumerate(order.tolist())], [Collective("a", "c")])
    result = assign("fair", fabric, traffic, options=Options(rounds=0))
    found = evaluate(fabric, traffic, result.assignment)
    assert gap(found, bound(fabric, traffic), result.assignment) == pytest.approx(0, abs=1e-9)


@settings(max_examples=examples(20, 120), deadline=None)
@given(pod_instances(phases=False))
def test_fair_is_within_1_percent_of_what_the_integer_program_proves(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    best = assign("ilp", fabric, traffic, options=Options(nodes=200))
    if best.status != "optimal":
        return
    wanted = evaluate(fabric, traffic, best.assignment).min_level
    found = evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_level
    assert found >= wanted * 0.99


@settings(max_examples=examples(15, 90), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_integer_program_finds_the_best_of_all_choices_of_whole_paths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = pod_clos(2, 2, 2, 1, 2).without_links([f"leaf{rng.integers(1, 3)}-agg{rng.integers(1, 3)}"])
    ends = [rng.choice(fabric.n_hosts, 2, replace=False).tolist() for _ in range(4)]
    sizes = rng.choice([10**9, 3 * 10**9], 4).tolist()
    traffic = traffic_of([(a, b, s, 0) for (a, b), s in zip(ends, sizes, strict=True)], [Collective("a", "c")])
    demand = Demand.of(fabric, traffic)
    choices = [fabric.live_paths(a, b).tolist() for a, b in zip(demand.unit_src, demand.unit_dst, strict=True)]
    if not choices:
        return
    best = max(
        evaluate(fabric, traffic, demand.assignment(np.array(each, dtype=np.int32))).min_level
        for each in itertools.product(*choices)
    )
    result = assign("ilp", fabric, traffic, options=Options(nodes=1000))
    assert result.status == "optimal"
    assert evaluate(fabric, traffic, result.assignment).min_level == pytest.approx(best, rel=1e-6)
    limit = bound(fabric, traffic).single
    assert limit is not None
    assert best <= limit * (1 + 1e-9)


@settings(max_examples=examples(30, 180), deadline=None)
@given(pod_instances(), st.integers(0, 2**32 - 1))
def test_a_plan_made_near_an_earlier_one_is_valid_after_a_failure(instance: tuple[Fabric, Traffic], seed: int) -> None:
    fabric, traffic = instance
    if not fabric.cables:
        return
    before = assign("fair", fabric, traffic, options=QUICK).assignment
    failed = fabric.without_links([fabric.cable_names[seed % len(fabric.cables)]])
    after = assign("fair", failed, traffic, previous=PreviousPlan.of(fabric, traffic, before), options=QUICK)
    validate_assignment(failed, traffic, after.assignment)


def test_after_a_core_link_failed_only_flows_of_its_plane_move() -> None:
    fabric = fat_tree(8)
    hosts = np.arange(fabric.n_hosts)
    # Half of the hosts send, so each plane has room for all its flows on its other cores.
    traffic = traffic_of(
        [(h, (h + 16) % fabric.n_hosts, 10**9, 0) for h in hosts[hosts % 4 < 2].tolist()], [Collective("a", "c")]
    )
    before = assign("fair", fabric, traffic).assignment
    links = fabric.ways.links(fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst], before.path)
    used = int(links[0, 1])
    failed = fabric.without_links([fabric.cable_names[(used - fabric.first_cable_link) // 2]])
    after = assign("fair", failed, traffic, previous=PreviousPlan.of(fabric, traffic, before)).assignment
    validate_assignment(failed, traffic, after)
    assert evaluate(failed, traffic, after).min_level == pytest.approx(1.0)
    moved = np.flatnonzero(after.path != before.path)
    plane = (before.path - 4) // 4
    assert set(plane[moved].tolist()) == {int(plane[0])}
    assert len(moved) <= 3


@settings(max_examples=examples(50, 300), deadline=None)
@given(pod_instances(), st.data())
def test_a_path_that_does_not_join_its_leaves_is_rejected(
    instance: tuple[Fabric, Traffic], data: st.DataObject
) -> None:
    fabric, traffic = instance
    good = assign("greedy", fabric, traffic).assignment
    moving = np.flatnonzero(good.path >= 0)
    if not len(moving):
        return
    flow = int(data.draw(st.sampled_from(moving.tolist())))
    a, b = int(fabric.host_leaf[traffic.src[flow]]), int(fabric.host_leaf[traffic.dst[flow]])
    wrong = np.setdiff1d(np.arange(fabric.n_paths), fabric.live_paths(a, b))
    if not len(wrong):
        return
    path = good.path.copy()
    path[flow] = data.draw(st.sampled_from(wrong.tolist()))
    with pytest.raises(InvalidAssignmentError, match="a path that does not exist or is down"):
        validate_assignment(fabric, traffic, Assignment.single(path))


@settings(max_examples=examples(15, 90), deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
def test_ethereal_loads_all_paths_out_of_a_sender_alike(leaves: int, aggs: int, cores: int, flows: int) -> None:
    fabric = pod_clos(2, leaves, aggs, cores, 3)
    other = 3 * leaves
    traffic = traffic_of([(0, other + f % other, 10**9, 0) for f in range(flows)], [Collective("a", "c")])
    made = assign("ethereal", fabric, traffic).assignment
    validate_assignment(fabric, traffic, made)
    per_path = np.bincount(made.path, weights=made.share, minlength=fabric.n_paths)[fabric.live_paths(0, leaves)]
    assert per_path == pytest.approx(np.full(aggs * cores, flows / (aggs * cores)))


@settings(max_examples=examples(10, 60), deadline=None)
@given(pod_instances(phases=False))
def test_annealing_sends_all_flows_to_a_host_by_one_core_unless_cables_lack(instance: tuple[Fabric, Traffic]) -> None:
    fabric, traffic = instance
    if not all(cable.up for cable in fabric.cables) or fabric.n_paths == 0:
        return
    path = assign("annealing", fabric, traffic, options=Options(annealing_rounds=50)).assignment.path
    first = fabric.live_ways.first[-2]
    leaf = fabric.host_leaf
    over_cores = np.flatnonzero(path >= first)
    for host in np.unique(traffic.dst[over_cores]):
        rows = over_cores[traffic.dst[over_cores] == host]
        lives = [fabric.live_paths(int(a), int(leaf[host])) for a in leaf[traffic.src[rows]]]
        whole = [row for row, live in zip(rows, lives, strict=True) if len(live) == fabric.n_paths - first]
        assert len(np.unique(path[whole])) <= 1


@settings(max_examples=examples(20, 400), deadline=None)
@given(st.integers(2, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_cables_too_slow_for_any_flow_do_no_more_harm_than_failed_ones(half: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = fat_tree(2 * half)
    traffic = permutation(fabric, rng, 1)
    slow = set(rng.choice(len(fabric.cables), count, replace=False).tolist())
    changed = tuple(
        dataclasses.replace(cable, gbps=cable.gbps / 1000) if c in slow else cable
        for c, cable in enumerate(fabric.cables)
    )
    rate = []
    for there in (
        dataclasses.replace(fabric, cables=changed),
        fabric.without_links([fabric.cable_names[c] for c in slow]),
    ):
        plan = assign("fair", there, traffic, options=Options(rounds=0)).assignment
        if (plan.path == UNROUTABLE).any():
            return
        objective = evaluate(there, traffic, plan)
        rate.append(objective.min_level / float(np.nanmax(objective.ideal_seconds)))
    assert rate[0] >= rate[1] * (1 - TOLERANCE)


@settings(max_examples=examples(30, 180), deadline=None)
@given(pod_instances())
def test_greedy_and_first_fit_take_the_paths_that_all_paths_compared_say(instance: tuple[Fabric, Traffic]) -> None:
    demand = Demand.of(*instance)
    gbps, ways = demand.fabric.link_gbps, demand.fabric.live_ways
    orders = (
        ("greedy", place.order_by_leaf_sets(demand.unit_src, demand.unit_dst, demand.unit_load, ways.group.shape[1])),
        ("first_fit", np.arange(demand.n_units)),
    )
    for policy, order in orders:
        load = np.zeros(demand.fabric.n_links)
        path = np.full(demand.n_units, -1, dtype=np.int32)
        placed = path.copy()
        if policy == "greedy":
            place_units.least_loaded(demand, order, placed)
        else:
            place_units.first_fit(demand, demand.unit_load, placed)
        for u in order.tolist():
            best: tuple[float, float] = (np.inf, np.inf)
            for k in ways.between(int(demand.unit_src[u]), int(demand.unit_dst[u])).tolist():
                links = ways.links(demand.unit_src[[u]], demand.unit_dst[[u]], np.array([k]))[0]
                half = len(links) // 2
                pairs = np.stack([links[:half], links[half:][::-1]], axis=1)
                fills = ((load + demand.unit_load[u]) / gbps)[pairs[(pairs >= 0).all(axis=1)]]
                # In the order in which a walk from tier to tier adds them, so that rounding is the same.
                ends = float(fills.max()), functools.reduce(operator.add, fills.ravel().tolist(), 0.0)
                if policy == "first_fit":
                    if ends[0] <= 1 + ROUNDING:
                        path[u] = k
                        break
                elif ends < best:
                    best, path[u] = ends, k
            if path[u] >= 0:
                links = ways.links(demand.unit_src[[u]], demand.unit_dst[[u]], path[[u]])[0]
                np.add.at(load, links[links >= 0], demand.unit_load[u])
        np.testing.assert_array_equal(placed, path)
