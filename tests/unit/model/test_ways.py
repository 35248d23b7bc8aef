from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.routing.kernels.paths import path_links
from tests.unit.model.three_tiers import Pods, pods
from tests.unit.routing.instances import random_fabric


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    return random_fabric(np.random.default_rng(draw(st.integers(0, 2**32 - 1))))


def every_path(fabric: Fabric) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    """Every pair of different leaves with every path number, as three arrays."""
    a, b, path = np.indices((fabric.n_leaves, fabric.n_leaves, fabric.n_paths)).reshape(3, -1)
    apart = a != b
    return a[apart], b[apart], path[apart]


@given(fabrics())
def test_the_links_of_a_path_go_up_from_one_leaf_and_down_to_the_other_by_one_spine(fabric: Fabric) -> None:
    a, b, path = every_path(fabric)
    ends = [(cable.lower, cable.upper) for cable in fabric.cables]
    for src, dst, k, (up, down) in zip(a, b, path, fabric.ways.links(a, b, path), strict=True):
        spine = fabric.spines[fabric.choices[0].place[k]].name
        for leaf, link, odd in ((src, up, 0), (dst, down, 1)):
            if link >= 0:
                assert (link - fabric.first_cable_link) % 2 == odd
                assert ends[(link - fabric.first_cable_link) // 2] == (fabric.leaves[leaf].name, spine)


@given(fabrics())
def test_a_path_joins_two_leaves_if_both_its_links_are_up(fabric: Fabric) -> None:
    a, b, path = every_path(fabric)
    links = fabric.ways.links(a, b, path)
    wanted = ((links >= 0) & fabric.link_up[links]).all(axis=1)
    np.testing.assert_array_equal(fabric.live_ways.joined(a, b, path), wanted)
    for src in range(fabric.n_leaves):
        for dst in range(fabric.n_leaves):
            if src != dst:
                of_pair = (a == src) & (b == dst)
                np.testing.assert_array_equal(fabric.live_paths(src, dst), path[of_pair & wanted])


@given(fabrics())
def test_all_ways_to_ask_for_the_links_of_a_path_agree(fabric: Fabric) -> None:
    a, b, path = every_path(fabric)
    ways, table = fabric.ways, fabric.ways.links(a, b, path)
    found = np.empty(2 * ways.n_tiers, np.int64)
    for row in range(0, len(path), 7):
        src, dst, k = int(a[row]), int(b[row]), int(path[row])
        assert ways.links_of(src, dst, k) == tuple(table[row])
        count = path_links(ways, src, dst, k, found)
        assert sorted(found[:count]) == sorted(table[row])


@given(fabrics())
def test_a_path_that_there_is_not_has_no_links_and_joins_nothing(fabric: Fabric) -> None:
    leaf = np.zeros(3, dtype=np.int32)
    path = np.array([-1, -2, fabric.n_paths])
    assert (fabric.ways.links(leaf, leaf + 1, path) < 0).all()
    assert not fabric.ways.joined(leaf, leaf + 1, path).any()


@given(pods())
def test_in_three_tiers_the_paths_of_two_leaves_are_the_shortest_ways_up_and_down(fabric: Pods) -> None:
    ways = fabric.ways()
    for a, b in itertools.permutations(range(fabric.pods * fabric.leaves), 2):
        paths = ways.between(a, b).tolist()
        links = [ways.links_of(a, b, path) for path in paths]
        assert len(set(links)) == len(links)
        assert set(links) == fabric.walks(fabric.leaf(a), fabric.leaf(b))


@given(pods())
def test_in_three_tiers_all_ways_to_ask_for_links_agree(fabric: Pods) -> None:
    ways, n_leaves = fabric.ways(), fabric.pods * fabric.leaves
    a, b, path = np.indices((n_leaves, n_leaves, ways.n_paths)).reshape(3, -1)
    table, joined = ways.links(a, b, path), ways.joined(a, b, path)
    found = np.empty(2 * ways.n_tiers, np.int64)
    for row in range(len(path)):
        src, dst, k = int(a[row]), int(b[row]), int(path[row])
        in_order = ways.links_of(src, dst, k)
        n = path_links(ways, src, dst, k, found)
        assert (found[:n:2].tolist(), found[1:n:2][::-1].tolist()) == (
            list(in_order[: n // 2]),
            list(in_order[n // 2 :]),
        )
        assert sorted(link for link in in_order if link >= 0) == sorted(table[row][table[row] >= 0])
        if src != dst:
            assert joined[row] == (k in ways.between(src, dst))


@given(pods(), st.integers(0, 2**32 - 1))
def test_a_path_is_live_in_three_tiers_while_all_its_links_are_up(fabric: Pods, seed: int) -> None:
    ways, n_leaves = fabric.ways(), fabric.pods * fabric.leaves
    up = np.random.default_rng(seed).random(2 * len(fabric.uplink) + 1) > 0.2
    live = ways.only(up)
    for a, b in itertools.permutations(range(n_leaves), 2):
        wanted = [path for path in ways.between(a, b).tolist() if up[list(ways.links_of(a, b, path))].all()]
        assert live.between(a, b).tolist() == wanted
