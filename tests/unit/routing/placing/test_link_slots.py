"""Links for several equal units are as many slots for one: what is known of these holds for those."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.paths.ways import Tier
from controller.model.traffic import Collective
from controller.routing import PreviousPlan, assign
from controller.routing.objective.fairness import evaluate
from controller.routing.placing.link_slots import choose_slots, in_slots, slots_of
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of
from tests.unit.routing.pod_fabrics import fat_tree


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(2, 8), st.integers(1, 5), st.integers(1, 7), st.floats(0.5, 1.0), st.integers(0, 2**32 - 1))
def test_no_two_units_of_a_link_share_a_slot(nodes: int, choices: int, count: int, kept: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src = np.tile(np.arange(nodes, dtype=np.int32), choices * count)
    dst = np.concatenate([rng.permutation(nodes) for _ in range(choices * count)]).astype(np.int32)
    choice = np.repeat(np.arange(choices, dtype=np.int32), nodes * count)
    choice[rng.random(len(src)) > kept] = -1
    table = np.arange(nodes * choices, dtype=np.int32).reshape(nodes, choices)
    tier = Tier(table, table + table.size)
    gbps = np.full(2 * table.size, 100.0)
    load = np.full(len(src), 100.0 / count)
    assert slots_of(load, tier, gbps) == count
    slot = choose_slots(src, dst, choice, tier, count)
    placed = choice >= 0
    assert np.array_equal(np.where(slot < 0, -1, slot // count), choice)
    links = in_slots(tier, count)
    for end, side, before in ((src, links.up, tier.up), (dst, links.down, tier.down)):
        assert np.array_equal(side[end[placed], slot[placed]], before[end[placed], choice[placed]])
        used = end[placed].astype(np.int64) * choices * count + slot[placed]
        assert len(np.unique(used)) == len(used)


def test_links_of_different_room_or_units_of_different_loads_have_no_slots() -> None:
    tier = Tier(*(np.arange(2, dtype=np.int32).reshape(1, 2) + 2 * side for side in range(2)))
    even = np.full(4, 100.0)
    assert slots_of(np.array([50.0, 50.0]), tier, even) == 2
    assert slots_of(np.array([50.0, 25.0]), tier, even) == 0
    assert slots_of(np.array([50.0, 50.0]), tier, np.array([100.0, 50.0, 100.0, 100.0])) == 0
    assert slots_of(np.array([150.0]), tier, even) == 0
    assert slots_of(np.zeros(0), tier, even) == 0


@settings(max_examples=examples(6, 60), deadline=None)
@given(st.integers(3, 4), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_without_cores_several_flows_a_link_keep_speed_1_where_pods_keep_some_flows(
    size: int, dead: int, seed: int
) -> None:
    rng, fabric = np.random.default_rng(seed), fat_tree(8)
    pods = np.stack([rng.permutation(pod) for pod in np.arange(fabric.n_hosts).reshape(8, -1)])
    inside, others = pods[:, : 2 * size], rng.permutation(pods[:, 2 * size :].ravel())
    groups = np.concatenate([inside.ravel(), others[: len(others) // size * size]]).reshape(-1, size)
    flows = [
        (int(src), int(dst), 10**8, k) for k, group in enumerate(groups) for src in group for dst in group if src != dst
    ]
    traffic = traffic_of(flows, [Collective(f"job{k}", "all_to_all") for k in range(len(groups))])
    previous = PreviousPlan.of(fabric, traffic, assign("fair", fabric, traffic).assignment)
    left = fabric.without_links(rng.choice([core.name for core in fabric.layers[2]], dead, replace=False).tolist())
    plan = assign("fair", left, traffic, previous=previous).assignment
    assert evaluate(left, traffic, plan).min_level == pytest.approx(1.0)
