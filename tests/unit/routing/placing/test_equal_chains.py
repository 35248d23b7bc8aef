"""Units are placed and exchanged by alternating chains over links that carry several equal units each."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.pod_clos import pod_clos
from controller.model.paths.ways import Tier
from controller.model.traffic import Collective
from controller.routing import PreviousPlan, assign
from controller.routing.kernels.placing import equal_chains
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of
from tests.unit.routing.pod_fabrics import fat_tree


def full_links(rng: np.random.Generator, nodes: int, choices: int, count: int) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    """Units that fill every link of all switches: source, destination and choice, of the types of the product."""
    every = np.arange(nodes, dtype=np.int32)
    dst = np.concatenate([rng.permutation(every) for _ in range(choices * count)])
    return np.tile(every, choices * count), dst, np.repeat(np.arange(choices), nodes * count)


def links_of(nodes: int, choices: int) -> Tier:
    up = np.arange(nodes * choices, dtype=np.int32).reshape(nodes, choices)
    return Tier(up, up + up.size)


def most_on_a_link(src: np.ndarray, dst: np.ndarray, choice: np.ndarray, n_choices: int) -> int:  # type: ignore[type-arg]
    placed = choice >= 0
    return max(
        int(np.bincount(end[placed].astype(np.int64) * n_choices + choice[placed], minlength=1).max())
        for end in (src, dst)
    )


@settings(max_examples=examples(40, 1000), deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.integers(1, 4), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_all_units_that_links_have_room_for_are_placed(
    nodes: int, choices: int, count: int, lost: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    src, dst, choice = full_links(rng, nodes, choices, count)
    order = rng.permutation(len(src))
    src, dst, choice = src[order], dst[order], choice[order].astype(np.int32)
    choice[rng.random(len(choice)) < lost] = -1
    # Others come in place of those that lost their choice, so that no unit fits where another one was.
    bare = np.flatnonzero(choice < 0)
    dst[bare] = dst[rng.permutation(bare)]
    assert equal_chains.insert(src, dst, links_of(nodes, choices), count, choice)
    assert (choice >= 0).all()
    assert most_on_a_link(src, dst, choice, choices) <= count


@settings(max_examples=examples(40, 1000), deadline=None)
@given(st.integers(2, 8), st.integers(2, 6), st.integers(1, 4), st.floats(0.0, 0.4), st.integers(0, 2**32 - 1))
def test_beside_dead_links_units_are_placed_on_live_ones_or_not_at_all(
    nodes: int, choices: int, count: int, dead: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    src, dst, choice = full_links(rng, nodes, choices, count)
    up, down = (np.where(rng.random(links.shape) < dead, np.int32(-1), links) for links in links_of(nodes, choices))
    choice = np.where((up[src, choice] >= 0) & (down[dst, choice] >= 0), choice, -1).astype(np.int32)
    kept = rng.random(len(src)) < 0.7
    src, dst, choice = src[kept], dst[kept], choice[kept]
    before = int((choice >= 0).sum())
    done = equal_chains.insert(src, dst, Tier(up, down), count, choice)
    placed = choice >= 0
    assert done == placed.all()
    assert placed.sum() >= before
    assert (up[src[placed], choice[placed]] >= 0).all()
    assert (down[dst[placed], choice[placed]] >= 0).all()
    if placed.any():
        assert most_on_a_link(src, dst, choice, choices) <= count


@settings(max_examples=examples(60, 1500), deadline=None)
@given(
    st.integers(1, 4),
    st.integers(2, 4),
    st.integers(2, 5),
    st.integers(1, 4),
    st.floats(0.0, 0.3),
    st.integers(0, 2**32 - 1),
)
def test_exchanges_leave_no_link_and_no_switch_above_too_full(
    pods: int, leaves: int, choices: int, count: int, dead: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_leaves, n_above = pods * leaves, pods * choices
    src, dst, choice = full_links(rng, n_leaves, choices, count)
    up, down = (np.where(rng.random(links.shape) < dead, np.int32(-1), links) for links in links_of(n_leaves, choices))
    kept = (rng.random(len(src)) < rng.choice([0.8, 1.0])) & (up[src, choice] >= 0) & (down[dst, choice] >= 0)
    src, dst, choice = src[kept], dst[kept], choice[kept]
    pod = (np.arange(n_leaves) // leaves).astype(np.int32)
    above = (pod[:, None] * choices + np.arange(choices)).astype(np.int32)
    room = np.full((2, n_above), leaves * count)
    for short in rng.integers(n_above, size=rng.integers(1, 4)).tolist():
        room[:, short] -= rng.integers(1, count + 1)
    crosses, before = pod[src] != pod[dst], choice.copy()

    def passed_on(picked: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.stack([np.bincount(above[end, picked][crosses], minlength=n_above) for end in (src, dst)])

    too_full = (passed_on(before) > room).any()
    if equal_chains.make_room(src, dst, crosses, Tier(up, down), count, above, room, choice):
        assert too_full
        assert (passed_on(choice) <= room).all()
        assert ((up[src, choice] >= 0) & (down[dst, choice] >= 0)).all()
        assert most_on_a_link(src, dst, choice, choices) <= count
    else:
        assert (choice == before).all()


@settings(max_examples=examples(8, 150), deadline=None)
@given(st.sampled_from([4, 6, 8]), st.integers(3, 6), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_after_lost_cores_plans_of_all_to_alls_are_near_the_bound_or_a_new_plan(
    k: int, size: int, dead: int, seed: int
) -> None:
    rng, fabric = np.random.default_rng(seed), fat_tree(k)
    groups = rng.permutation(fabric.n_hosts)[: fabric.n_hosts // size * size].reshape(-1, size)
    flows = [(int(a), int(b), 10**9, n) for n, own in enumerate(groups) for a in own for b in own if a != b]
    traffic = traffic_of(flows, [Collective(f"job{n}", "a2a") for n in range(len(groups))])
    before = assign("fair", fabric, traffic).assignment
    cores = [switch.name for switch in fabric.layers[-1]]
    failed = fabric.without_links([str(name) for name in rng.choice(cores, dead, replace=False)])
    after = assign("fair", failed, traffic, previous=PreviousPlan.of(fabric, traffic, before)).assignment
    validate_assignment(failed, traffic, after)
    fresh = assign("fair", failed, traffic).assignment
    near, new = (evaluate(failed, traffic, each).min_level for each in (after, fresh))
    assert near >= 0.95 * new


def test_after_a_lost_core_few_flows_of_an_all_to_all_move_and_none_is_slower() -> None:
    fabric = pod_clos(4, 4, 4, 4, 4)
    # Each pod has flows inside: those of neighbours in a group of 16, four of which are of each pod.
    hosts = np.arange(fabric.n_hosts).reshape(4, 4, 4).transpose(1, 0, 2).reshape(4, 16)
    flows = [(int(a), int(b), 10**9, n) for n, own in enumerate(hosts) for a in own for b in own if a != b]
    traffic = traffic_of(flows, [Collective(f"job{n}", "a2a") for n in range(len(hosts))])
    before = assign("fair", fabric, traffic).assignment
    failed = fabric.without_links(["core1"])
    after = assign("fair", failed, traffic, previous=PreviousPlan.of(fabric, traffic, before)).assignment
    level = evaluate(failed, traffic, after).min_level
    assert np.isclose(level, bound(failed, traffic, reached=level).single or 0.0)
    assert (after.path != before.path).sum() < traffic.n_flows // 10
