"""Draining in three layers: drained links carry no traffic, and no pair of leaves is disconnected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import NotFoundError
from controller.model.fabric import Fabric
from controller.planning.drain import Drain, cables_of, drain, kind_of, without_drained
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.next_hops import NextHops
from tests.unit.planning.drained_pairs import planned_pairs
from tests.unit.routing.pod_fabrics import fat_tree, random_pods
from tests.unit.southbound.forwarding.pods import K4, irregular, joined


@st.composite
def fabrics_of_pods(draw: st.DrawFn) -> Fabric:
    """A small fabric, in part irregular, and with parallel cables of leaves, too."""
    return random_pods(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), healthy=draw(st.booleans()))


def some_ids(fabric: Fabric) -> st.SearchStrategy[set[str]]:
    return st.sets(st.sampled_from([*fabric.cable_names, *fabric.layer_of, *fabric.pod_names, "gone"]), max_size=12)


def hashed_pairs(fabric: Fabric) -> set[tuple[str, str]]:
    """Pairs of leaves that live cables join over one switch above both."""
    leaves = [leaf.name for leaf in fabric.leaves]
    return {(a, b) for a in leaves for b in leaves if a != b and joined(fabric, a, b)}


@given(fabric=fabrics_of_pods(), data=st.data())
def test_draining_never_disconnects_two_leaves(fabric: Fabric, data: st.DataObject) -> None:
    found = drain(fabric, data.draw(some_ids(fabric)))
    left = without_drained(fabric, found)
    assert planned_pairs(left) == planned_pairs(fabric)
    assert hashed_pairs(left) == hashed_pairs(fabric)


@given(fabric=fabrics_of_pods(), data=st.data())
def test_a_drained_cable_stays_in_use_only_where_leaves_have_no_way_without_drained_ones(
    fabric: Fabric, data: st.DataObject
) -> None:
    ids = data.draw(some_ids(fabric))
    found = drain(fabric, ids)
    asked = {cable for name in ids - {"gone"} for cable in cables_of(fabric, name)}
    live = {name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up}
    assert set(found.unused).isdisjoint(found.still_used)
    assert set(found.unused) | set(found.still_used) == asked & live
    bare = fabric.without_links(asked)
    nothing_lost = planned_pairs(bare) == planned_pairs(fabric) and hashed_pairs(bare) == hashed_pairs(fabric)
    assert (found.still_used == ()) == nothing_lost


@given(fabric=fabrics_of_pods(), data=st.data())
def test_two_leaves_keep_all_paths_with_the_fewest_drained_cables(fabric: Fabric, data: st.DataObject) -> None:
    ids = data.draw(some_ids(fabric))
    asked = {cable for name in ids - {"gone"} for cable in cables_of(fabric, name)}
    left = without_drained(fabric, drain(fabric, ids))
    first = fabric.first_cable_link
    for a, b in planned_pairs(fabric):
        paths = fabric.live_paths(a, b).tolist()
        drained = [
            sum(fabric.cable_names[(link - first) // 2] in asked for link in fabric.ways.links_of(a, b, path))
            for path in paths
        ]
        fewest = {path for path, many in zip(paths, drained, strict=True) if many == min(drained)}
        assert fewest <= set(left.live_paths(a, b).tolist())


def test_a_core_an_aggregation_switch_and_a_cable_of_a_fat_tree_are_taken_out_of_use() -> None:
    for name, many in (("core1", 4), ("agg1", 4), ("leaf1-agg1", 1), ("agg1-core1", 1)):
        found = drain(K4, [name])
        assert found == Drain(cables_of(K4, name), ())
        assert len(found.unused) == many
    # The second plane joins everything that the first one joins.
    assert drain(K4, ["agg1", "agg3", "core1", "core3"]).still_used == ()


def test_a_pod_stands_for_the_cables_of_its_switches_and_stays_in_use_where_leaves_need_it() -> None:
    cables = cables_of(K4, "pod2")
    switches = {"leaf3", "leaf4", "agg3", "agg4"}
    assert set(cables) == {name for name in K4.cable_names if not switches.isdisjoint(name.split("-"))}
    assert drain(K4, ["pod2"]) == Drain((), cables)
    assert drain(K4, ["pod2", "agg3"]).unused == ()
    # Ways to the drained pod that avoid a drained core have fewer drained cables.
    assert drain(K4, ["core1", "pod2"]).unused == ("agg1-core1", "agg3-core1", "agg5-core1", "agg7-core1")


def test_what_a_name_stands_for_is_told_and_a_wrong_one_is_refused() -> None:
    names = ("leaf1", "agg1", "core1", "pod4", "leaf1-agg1", "agg1-core1", "pod5", "plane1", "h1", "h1-leaf1")
    assert [kind_of(K4, name) for name in names] == [
        "leaf",
        "aggregation",
        "core",
        "pod",
        "cable",
        "cable",
        None,
        None,
        None,
        None,
    ]
    with pytest.raises(NotFoundError, match="no cable, switch or pod has the name"):
        cables_of(K4, "pod5")


@given(fabric=irregular(), data=st.data())
def test_base_forwarding_uses_no_drained_uplink(fabric: Fabric, data: st.DataObject) -> None:
    found = drain(fabric, data.draw(some_ids(fabric)))
    usable = without_drained(fabric, found)
    hops = NextHops(usable)
    ends = zip(fabric.cable_names, fabric.cables, strict=True)
    unused = {(cable.lower, cable.lower_port) for name, cable in ends if name in found.unused}
    for layer, switches in enumerate(fabric.layers[:-1]):
        for at, switch in enumerate(switches):
            for leaf in range(fabric.n_leaves):
                assert not any((switch.name, port) in unused for port in hops.ports(at, leaf, layer))
    before, after = compile_base(fabric), compile_base(fabric, usable=usable)
    for core in fabric.spines:
        # A core that forwards to a prefix goes on doing so: packets may still be on their way.
        assert set(after[core.dpid].rules) == set(before[core.dpid].rules)


def test_two_cores_of_a_larger_fat_tree_are_taken_out_of_use() -> None:
    fabric = fat_tree(8)
    found = drain(fabric, ["core1", "core2"])
    assert set(found.unused) == {*cables_of(fabric, "core1"), *cables_of(fabric, "core2")}
    assert found.still_used == ()
