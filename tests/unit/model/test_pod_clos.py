from __future__ import annotations

import dataclasses
import itertools
from ipaddress import IPv4Address

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Cable, Fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.paths.ways import Ways
from tests.unit.model.three_tiers import Pods

SMALL = st.integers(1, 3)


def assert_same_ways(found: Ways, wanted: Ways) -> None:
    for name, one, other in zip(Ways._fields, found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


@given(SMALL, SMALL, SMALL, SMALL)
def test_the_ways_of_complete_pods_are_those_of_the_plain_tables(pods: int, leaves: int, aggs: int, cores: int) -> None:
    fabric = pod_clos(pods, leaves, aggs, cores, 1)
    uplink = {}
    for c, cable in enumerate(fabric.cables):
        low, high = int(fabric.cable_lower[c]), int(fabric.cable_upper[c])
        if fabric.cable_tier[c] == 0:
            ends = ("leaf", *divmod(low, leaves)), ("agg", *divmod(high, aggs))
        else:
            ends = ("agg", *divmod(low, aggs)), ("core", high % aggs, high // aggs)
        assert fabric.link_ids[fabric.first_cable_link + 2 * c] == f"{cable.lower}->{cable.upper}"
        uplink[ends] = fabric.first_cable_link + 2 * c
    assert_same_ways(fabric.ways, Pods(pods, leaves, aggs, cores, uplink).ways())


@st.composite
def damaged(draw: st.DrawFn) -> Fabric:
    """Pods without parallel cables, of which any cable may be missing or down, with switches in any order."""
    fabric = pod_clos(draw(SMALL), draw(SMALL), draw(SMALL), draw(SMALL), 1)
    kept = draw(st.lists(st.sampled_from(range(len(fabric.cables))), unique=True))
    cables = tuple(dataclasses.replace(fabric.cables[c], up=draw(st.integers(0, 9)) > 0) for c in kept)
    return dataclasses.replace(
        fabric, layers=tuple(tuple(draw(st.permutations(x))) for x in fabric.layers), cables=cables
    )


@given(damaged())
def test_the_paths_of_two_leaves_are_the_shortest_ways_up_and_down(fabric: Fabric) -> None:
    """Brute force: every simple path of the cables that are up, kept if it goes up and then down by the same planes."""
    graph = nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from((cable.lower, cable.upper) for cable in fabric.cables if cable.up)
    meets = nx.Graph()
    meets.add_nodes_from(leaf.name for leaf in fabric.leaves)
    meets.add_edges_from((cable.lower, cable.upper) for cable in fabric.cables if cable.lower in fabric.leaf_index)
    for a, b in itertools.permutations(range(fabric.n_leaves), 2):
        src, dst = fabric.leaves[a].name, fabric.leaves[b].name
        hops = 2 if nx.has_path(meets, src, dst) else 4
        walks = {
            tuple(f"{x}->{y}" for x, y in itertools.pairwise(path))
            for path in nx.all_simple_paths(graph, src, dst, cutoff=hops)
            if len(path) == hops + 1 and fabric.layer_of[path[hops // 2]] == hops // 2
        }
        paths = fabric.live_paths(a, b).tolist()
        links = [tuple(fabric.link_ids[i] for i in fabric.ways.links_of(a, b, path)) for path in paths]
        assert len(set(links)) == len(links)
        assert set(links) == walks


@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 3), st.integers(1, 3), st.data())
def test_a_switch_maps_parallel_cables_in_to_cables_out_in_turn(
    pods: int, leaves: int, aggs: int, cores: int, parallel: int, core_parallel: int, data: st.DataObject
) -> None:
    fabric = pod_clos(pods, leaves, aggs, cores, 1, parallel=parallel, core_parallel=core_parallel)
    kept = [c for c in fabric.cables if data.draw(st.integers(0, 4)) > 0]
    fabric = dataclasses.replace(fabric, cables=tuple(kept))
    link: dict[int, tuple[str, str]] = {}
    place: dict[tuple[str, str], list[int]] = {}
    for i, cable in enumerate(fabric.cables):
        up = fabric.first_cable_link + 2 * i
        link[up], link[up + 1] = (cable.lower, cable.upper), (cable.upper, cable.lower)
        place.setdefault((cable.lower, cable.upper), []).append(up)
        place.setdefault((cable.upper, cable.lower), []).append(up + 1)
    for a, b in itertools.permutations(range(fabric.n_leaves), 2):
        for path in fabric.live_paths(a, b).tolist():
            links = fabric.ways.links_of(a, b, path)
            ends = [link[i] for i in links]
            assert ends[0][0] == fabric.leaves[a].name
            assert ends[-1][1] == fabric.leaves[b].name
            assert all(x[1] == y[0] for x, y in itertools.pairwise(ends))
            for out, back in zip(links[: len(links) // 2], links[: len(links) // 2 - 1 : -1], strict=True):
                number = place[link[out]].index(out)
                between = place[link[back]]
                assert between.index(back) == number % len(between)


def test_aggregation_switches_that_all_cores_reach_are_told_apart_by_their_order() -> None:
    fabric = pod_clos(2, 1, 2, 1, 1)
    mesh = tuple(Cable(agg.name, core.name, 100.0) for agg in fabric.layers[1] for core in fabric.layers[2])
    full = dataclasses.replace(fabric, cables=(*(c for c in fabric.cables if c.lower in fabric.leaf_index), *mesh))
    assert full.pods.plane.tolist() == [0, 1, 0, 1]
    assert len(full.live_paths(0, 1)) == 4


@given(SMALL, st.integers(1, 5), SMALL, SMALL)
def test_one_prefix_leads_to_a_pod_and_to_no_other(pods: int, leaves: int, aggs: int, cores: int) -> None:
    fabric = pod_clos(pods, leaves, aggs, cores, 2)
    assert all(len(prefixes) == 1 for prefixes in fabric.pod_prefixes)
    for host, leaf in zip(fabric.hosts, fabric.host_leaf, strict=True):
        owners = [p for p, (net,) in enumerate(fabric.pod_prefixes) if IPv4Address(host.ip) in net]
        assert owners == [fabric.pods.of_leaf[leaf]]


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=12, unique=True)
)
def test_prefixes_of_pods_with_any_addresses_lead_to_the_right_pod(places: list[tuple[int, int, int]]) -> None:
    fabric = pod_clos(5, 1, 1, 1, 1)
    hosts = tuple(
        dataclasses.replace(fabric.hosts[0], name=f"x{i}", ip=f"10.0.{net}.{last}", leaf=f"leaf{pod + 1}")
        for i, ((net, last), pod) in enumerate({(net, last): pod for net, last, pod in places}.items())
    )
    moved = dataclasses.replace(fabric, hosts=hosts)
    for host, leaf in zip(moved.hosts, moved.host_leaf, strict=True):
        owners = [p for p, nets in enumerate(moved.pod_prefixes) for net in nets if IPv4Address(host.ip) in net]
        assert owners == [leaf]


def test_a_core_an_aggregation_switch_or_a_leaf_fails_with_all_its_cables() -> None:
    fabric = pod_clos(2, 2, 2, 2, 1)
    for name, many in (("core1", 2), ("agg1", 4), ("leaf1", 2)):
        broken = fabric.without_links([name])
        gone = [c for c in broken.cables if not c.up]
        assert len(gone) == many
        assert all(name in (c.lower, c.upper) for c in gone)
        assert broken.healthy() == fabric
    assert [h.name for h in fabric.without_links(["leaf1"]).hosts if not h.up] == ["h1"]


def test_paths_are_named_by_plane_and_core() -> None:
    assert pod_clos(2, 1, 2, 2, 1, core_parallel=2).path_names == (
        *("plane1", "plane2"),
        *("plane1.core1", "plane1.core1:1", "plane1.core3", "plane1.core3:1"),
        *("plane2.core2", "plane2.core2:1", "plane2.core4", "plane2.core4:1"),
    )
