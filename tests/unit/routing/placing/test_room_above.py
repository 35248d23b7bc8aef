"""Units are placed beside dead links, and leaves exchange choices where a switch above has too few links."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.paths.ways import Tier
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.kernels.placing import blocked_slots, kempe, room_above, room_by_matching
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of
from tests.unit.routing.pod_fabrics import fat_tree


def permutations(rng: np.random.Generator, n_nodes: int, n_choices: int) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    """Units that use every link of all switches: source, destination and choice, as many permutations as choices.

    Their types are those of the product: for others, kernels would be compiled anew, which takes minutes.
    """
    nodes = np.arange(n_nodes, dtype=np.int32)
    dst = np.concatenate([rng.permutation(nodes) for _ in range(n_choices)])
    return np.tile(nodes, n_choices), dst, np.repeat(np.arange(n_choices), n_nodes)


def one_each(end: np.ndarray, choice: np.ndarray) -> bool:  # type: ignore[type-arg]
    placed = choice >= 0
    return len(set(zip(end[placed].tolist(), choice[placed].tolist(), strict=True))) == int(placed.sum())


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(2, 8), st.integers(2, 7), st.floats(0.5, 1.0), st.integers(0, 2**32 - 1))
def test_beside_one_dead_cable_all_units_that_fit_are_placed(nodes: int, choices: int, kept: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src, dst, choice = permutations(rng, nodes, choices)
    up = np.arange(nodes * choices, dtype=np.int32).reshape(nodes, choices)
    down = up + nodes * choices
    there, dead = rng.integers(nodes), rng.integers(choices)
    up[there, dead] = down[there, dead] = -1
    stays = rng.random(len(src)) < kept
    for end in (src, dst):
        own = np.flatnonzero(stays & (end == there))
        stays[rng.permutation(own)[choices - 1 :]] = False
    src, dst, choice = src[stays], dst[stays], choice[stays].astype(np.int32)
    choice[(choice == dead) & ((src == there) | (dst == there))] = -1
    assert blocked_slots.insert(src, dst, Tier(up, down), choice)
    assert (up[src, choice] >= 0).all()
    assert (down[dst, choice] >= 0).all()
    assert one_each(src, choice)
    assert one_each(dst, choice)


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(2, 8), st.integers(2, 6), st.floats(0.0, 0.4), st.integers(0, 2**32 - 1))
def test_beside_many_dead_links_units_are_placed_properly_or_stay(
    nodes: int, choices: int, dead: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    src, dst, choice = permutations(rng, nodes, choices)
    up = np.arange(nodes * choices, dtype=np.int32).reshape(nodes, choices)
    up, down = (np.where(rng.random(up.shape) < dead, np.int32(-1), table) for table in (up, up + up.size))
    choice = np.where((up[src, choice] >= 0) & (down[dst, choice] >= 0), choice, -1).astype(np.int32)
    kept = rng.random(len(src)) < 0.7
    src, dst, choice = src[kept], dst[kept], choice[kept]
    found = choice.copy()
    if blocked_slots.insert(src, dst, Tier(up, down), found):
        assert ((up[src, found] >= 0) & (down[dst, found] >= 0)).all()
        assert one_each(src, found)
        assert one_each(dst, found)
    else:
        assert (found == choice).all()


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(1, 4), st.integers(2, 4), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_exchanges_leave_one_unit_a_link_and_no_switch_above_too_full(
    pods: int, leaves: int, choices: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_leaves = pods * leaves
    src, dst, choice = permutations(rng, n_leaves, choices)
    kept = rng.random(len(src)) < rng.choice([0.8, 1.0])
    src, dst, choice = src[kept], dst[kept], choice[kept]
    pod = (np.arange(n_leaves) // leaves).astype(np.int32)
    above = (pod[:, None] * choices + np.arange(choices)).astype(np.int32)
    room = np.full((2, pods * choices), leaves)
    room[:, rng.integers(pods * choices)] -= 1
    up = np.arange(n_leaves * choices, dtype=np.int32).reshape(n_leaves, choices)
    crosses, before = pod[src] != pod[dst], choice.copy()

    def passed_on(picked: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.stack([np.bincount(above[end, picked][crosses], minlength=pods * choices) for end in (src, dst)])

    too_full = (passed_on(before) > room).any()
    if room_above.make_room(src, dst, crosses, Tier(up, up + up.size), above, room, choice):
        assert too_full
        assert (passed_on(choice) <= room).all()
        assert one_each(src, choice)
        assert one_each(dst, choice)
    else:
        assert (choice == before).all()


@settings(max_examples=examples(25, 500), deadline=None)
@given(
    st.integers(2, 5),
    st.integers(2, 6),
    st.integers(2, 6),
    st.integers(1, 2),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_matchings_leave_one_unit_a_link_and_no_switch_above_too_full(
    pods: int, leaves: int, choices: int, dead: int, reserving: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_leaves = pods * leaves
    src, dst, choice = permutations(rng, n_leaves, choices)
    kept = rng.random(len(src)) < rng.choice([0.8, 1.0])
    src, dst, choice = src[kept], dst[kept], choice[kept]
    pod = (np.arange(n_leaves) // leaves).astype(np.int32)
    above = (pod[:, None] * choices + np.arange(choices)).astype(np.int32)
    room = np.full((2, pods * choices), leaves)
    for short in rng.integers(choices, size=dead).tolist():
        room[:, short::choices] -= rng.integers(2) if reserving else 1
    up = np.arange(n_leaves * choices, dtype=np.int32).reshape(n_leaves, choices)
    crosses, before = pod[src] != pod[dst], choice.copy()
    order = rng.permutation(choices)
    settled = room_by_matching.match(
        src, dst, crosses, Tier(up, up + up.size), above, room, pod, reserving, order, choice
    )
    if not settled.any():
        assert (choice == before).all()
        return
    rest = np.flatnonzero((choice < 0) | ~settled[choice])
    others, left = choice[rest].astype(np.int32), np.where(settled, -1, up)
    kempe.insert(src[rest], dst[rest], Tier(left, np.where(settled, -1, up + up.size)), others)
    choice[rest] = others
    assert (choice >= 0).all()
    assert one_each(src, choice)
    assert one_each(dst, choice)
    passed = np.stack([np.bincount(above[end, choice][crosses], minlength=pods * choices) for end in (src, dst)])
    assert (passed <= room).all()


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(2, 8), st.integers(2, 6), st.floats(0.0, 0.3), st.integers(0, 2**32 - 1))
def test_matchings_beside_dead_links_leave_others_a_choice(nodes: int, choices: int, dead: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src, dst, choice = permutations(rng, nodes, choices)
    up = np.arange(nodes * choices, dtype=np.int32).reshape(nodes, choices)
    up = np.where(rng.random(up.shape) < dead, np.int32(-1), up)
    tier = Tier(up, np.where(up < 0, np.int32(-1), up + up.size))
    kept = (up[src, choice] >= 0) & (up[dst, choice] >= 0)
    src, dst, choice = src[kept], dst[kept], choice[kept].astype(np.int32)
    choice[rng.random(len(choice)) < 0.2] = -1
    before = choice.copy()
    settled = room_by_matching.match_beside_dead(src, dst, tier, choice)
    if not settled.any():
        assert (choice == before).all()
        return
    placed = (choice >= 0) & settled[choice]
    assert ((up[src, choice] >= 0) & (up[dst, choice] >= 0))[placed].all()
    left = np.where(settled, np.int32(-1), up)
    rest = np.flatnonzero(~placed)
    others = choice[rest].copy()
    kempe.insert(src[rest], dst[rest], Tier(left, np.where(left < 0, np.int32(-1), left + up.size)), others)
    choice[rest] = others
    assert (choice >= 0).all()
    assert one_each(src, choice)
    assert one_each(dst, choice)


def _beside_slow_cables(ports: int, slow: int, seed: int) -> tuple[Fabric, Traffic]:
    """Return a fat tree with drawn cables of cores at a tenth of their speed, and one flow from each host."""
    rng, fabric = np.random.default_rng(seed), fat_tree(ports)
    chosen = set(rng.choice(np.flatnonzero(fabric.cable_tier == 1), slow, replace=False).tolist())
    cables = [
        dataclasses.replace(cable, gbps=cable.gbps / 10) if c in chosen else cable
        for c, cable in enumerate(fabric.cables)
    ]
    order = rng.permutation(fabric.n_hosts).tolist()
    flows = [(a, b, 10**9, 0) for a, b in zip(order, [*order[1:], order[0]], strict=True)]
    return dataclasses.replace(fabric, cables=tuple(cables)), traffic_of(flows, [Collective("a", "shift")])


@pytest.mark.parametrize(("ports", "slow", "seed"), [(16, 8, 0), (16, 8, 22), (16, 16, 7), (8, 8, 14)])
def test_beside_slow_cables_of_cores_whole_paths_reach_the_bound(ports: int, slow: int, seed: int) -> None:
    """These have a core that two pods have lost, pods with just enough flows inside, or most choices lost somewhere."""
    fabric, traffic = _beside_slow_cables(ports, slow, seed)
    plan = assign("fair", fabric, traffic, options=Options(rounds=0)).assignment
    validate_assignment(fabric, traffic, plan)
    assert evaluate(fabric, traffic, plan).min_level == pytest.approx(bound(fabric, traffic).single)


@settings(max_examples=examples(4, 100), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_without_a_core_whole_paths_reach_speed_1_where_each_pod_keeps_some_flows(seed: int) -> None:
    rng, fabric = np.random.default_rng(seed), fat_tree(16).without_links(["core1"])
    pods = np.arange(fabric.n_hosts).reshape(16, -1)
    inside = np.concatenate([rng.choice(pod, 6, replace=False) for pod in pods])
    ends = [(a, b) for own in inside.reshape(16, -1) for a, b in zip(own, np.roll(own, 1), strict=True)]
    order = rng.permutation(np.setdiff1d(pods, inside))
    ends += list(zip(order, np.roll(order, 1), strict=True))
    flows = [(int(a), int(b), 10**9, n) for n, (a, b) in enumerate(ends)]
    traffic = traffic_of(flows, [Collective(f"job{n}", "c") for n in range(len(flows))])
    assert evaluate(fabric, traffic, assign("fair", fabric, traffic).assignment).min_level == pytest.approx(1.0)


def rings(fabric: Fabric, rng: np.random.Generator) -> Traffic:
    """Rings of four over all hosts in drawn order."""
    hosts = rng.permutation(fabric.n_hosts)[: fabric.n_hosts // 4 * 4].reshape(-1, 4)
    ends = np.stack([hosts, np.roll(hosts, -1, axis=1)], axis=2).reshape(-1, 2)
    flows = [(src, dst, 10**9, n // 4) for n, (src, dst) in enumerate(ends.tolist())]
    return traffic_of(flows, [Collective(f"job{k}", "ring") for k in range(len(hosts))])


def with_failed_core_cable(k: int, seed: int) -> tuple[Fabric, Fabric, Traffic, int]:
    """A fat tree with rings over all hosts, the same with a core cable down, the traffic, and the cable."""
    rng, fabric = np.random.default_rng(seed), fat_tree(k)
    traffic = rings(fabric, rng)
    cable = int(rng.choice(np.flatnonzero(fabric.cable_tier == 1)))
    return fabric, fabric.without_links([fabric.cable_names[cable]]), traffic, cable


@settings(max_examples=examples(30, 180), deadline=None)
@given(st.sampled_from([4, 6, 8]), st.integers(0, 2**32 - 1))
def test_after_a_core_cable_has_failed_flows_move_in_its_plane_if_that_has_room(k: int, seed: int) -> None:
    fabric, failed, traffic, cable = with_failed_core_cable(k, seed)
    before = assign("fair", fabric, traffic).assignment
    result = assign("fair", failed, traffic, previous=PreviousPlan.of(fabric, traffic, before))
    after = result.assignment
    validate_assignment(failed, traffic, after)
    agg = int(fabric.cable_lower[cable])
    links = fabric.ways.links(fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst], before.path)
    own = fabric.first_cable_link + 2 * np.flatnonzero((fabric.cable_tier == 1) & (fabric.cable_lower == agg))
    fits = all(np.isin(links[:, column], own + side).sum() < len(own) for column, side in ((1, 0), (2, 1)))
    moved = np.flatnonzero(after.path != before.path)
    if fits:
        assert result.status == "optimal"
        first, width = int(fabric.ways.first[1]), int(fabric.ways.width[1])
        planes = (np.concatenate([before.path[moved], after.path[moved]]) - first) // width
        assert len(np.unique(planes)) <= 1
    fresh = assign("fair", failed, traffic, options=Options()).assignment
    lowest = [evaluate(failed, traffic, each).min_level for each in (after, fresh)]
    assert lowest[0] >= 0.95 * lowest[1]


@settings(max_examples=examples(20, 120), deadline=None)
@given(st.sampled_from([4, 6]), st.integers(0, 2**32 - 1))
def test_a_plan_that_reaches_the_cuts_proves_the_bound_of_the_linear_program(k: int, seed: int) -> None:
    _, failed, traffic, _ = with_failed_core_cable(k, seed)
    made = assign("fair", failed, traffic).assignment
    reached = evaluate(failed, traffic, made).min_level
    with_plan, without = bound(failed, traffic, reached=reached), bound(failed, traffic)
    assert np.isclose(with_plan.split or 0, without.split or 0, rtol=1e-6)
    assert np.isclose(with_plan.single or 0, without.single or 0, rtol=1e-6)
