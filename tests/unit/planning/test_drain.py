"""Draining: drained links carry no traffic, and no pair of hosts is disconnected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import NotFoundError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.planning.drain import Drain, cables_of, drain, joined_by_spines, without_drained
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.next_hops import NextHops
from tests.unit.planning.drained_pairs import hashed_pairs, planned_pairs
from tests.unit.strategies import fabrics


def some_ids(fabric: Fabric) -> st.SearchStrategy[set[str]]:
    ids = [*fabric.cable_names, *fabric.leaf_index, *fabric.spine_index, "gone"]
    return st.sets(st.sampled_from(ids), max_size=len(ids))


@given(fabric=fabrics(), data=st.data())
def test_draining_never_disconnects_two_leaves(fabric: Fabric, data: st.DataObject) -> None:
    found = drain(fabric, data.draw(some_ids(fabric)))
    left = without_drained(fabric, found)
    assert planned_pairs(left) == planned_pairs(fabric)
    assert hashed_pairs(left) == hashed_pairs(fabric)


@given(fabric=fabrics(), data=st.data())
def test_only_what_is_drained_is_set_aside_and_each_live_cable_of_it_is_either_unused_or_still_used(
    fabric: Fabric, data: st.DataObject
) -> None:
    ids = data.draw(some_ids(fabric))
    found = drain(fabric, ids)
    asked = {cable for name in ids - {"gone"} for cable in cables_of(fabric, name)}
    live = {name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up}
    assert set(found.unused).isdisjoint(found.still_used)
    assert set(found.unused) | set(found.still_used) == asked & live


@given(fabric=fabrics(), data=st.data())
def test_a_drained_cable_stays_in_use_only_where_a_pair_of_leaves_has_no_way_without_drained_ones(
    fabric: Fabric, data: st.DataObject
) -> None:
    ids = data.draw(some_ids(fabric))
    found = drain(fabric, ids)
    asked = {cable for name in ids - {"gone"} for cable in cables_of(fabric, name)}
    bare = fabric.without_links(asked)
    if planned_pairs(bare) == planned_pairs(fabric) and hashed_pairs(bare) == hashed_pairs(fabric):
        assert found.still_used == ()
    else:
        assert found.still_used != ()


@given(fabrics())
def test_draining_everything_drains_nothing_that_joins_leaves(fabric: Fabric) -> None:
    found = drain(fabric, [*fabric.spine_index, *fabric.leaf_index])
    used = fabric.without_links(found.unused)
    for a, b in planned_pairs(fabric):
        assert used.live_paths(a, b).tolist() == fabric.live_paths(a, b).tolist()


def test_nothing_drained_sets_nothing_aside() -> None:
    fabric = clos(2, 2, 1)
    assert drain(fabric, []) == drain(fabric, ["gone"]) == Drain()
    assert without_drained(fabric, Drain()) is fabric


def test_ids_of_cables_spines_and_leaves_stand_for_their_cables() -> None:
    fabric = clos(2, 2, 1, parallel=2)
    assert cables_of(fabric, "leaf1-spine2:1") == ("leaf1-spine2:1",)
    assert cables_of(fabric, "leaf1-spine2") == ("leaf1-spine2",)
    assert set(cables_of(fabric, "spine2")) == {f"leaf{a}-spine2{n}" for a in (1, 2) for n in ("", ":1")}
    assert set(cables_of(fabric, "leaf1")) == {f"leaf1-spine{s}{n}" for s in (1, 2) for n in ("", ":1")}
    for unknown in ("leaf3", "leaf1-spine2:2", "h1-leaf1", "h1"):
        with pytest.raises(NotFoundError):
            cables_of(fabric, unknown)


def test_one_of_two_parallel_cables_can_be_drained_and_the_last_way_between_two_leaves_cannot() -> None:
    fabric = clos(1, 2, 1, parallel=2)
    assert drain(fabric, ["leaf1-spine1:1"]) == Drain(("leaf1-spine1:1",), ())
    assert drain(fabric, ["spine1"]).unused == ()


@given(fabric=fabrics(), data=st.data())
def test_base_forwarding_uses_no_drained_uplink_and_delivers_what_comes_down_one_all_the_same(
    fabric: Fabric, data: st.DataObject
) -> None:
    found = drain(fabric, data.draw(some_ids(fabric)))
    usable = without_drained(fabric, found)
    hops = NextHops(usable)
    unused = {
        (cable.lower, cable.lower_port)
        for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)
        if name in found.unused
    }
    for a, leaf in enumerate(fabric.leaves):
        for b in range(fabric.n_leaves):
            assert not any((leaf.name, port) in unused for port in hops.ports(a, b))
    before, after = compile_base(fabric), compile_base(fabric, usable=usable)
    for spine in fabric.spines:
        # A spine that forwards to a prefix goes on doing so: packets may still be on their way.
        assert set(after[spine.dpid].rules) == set(before[spine.dpid].rules)


@given(fabrics())
def test_base_forwarding_joins_leaves_that_have_a_spine_in_common(fabric: Fabric) -> None:
    joined = joined_by_spines(fabric)
    leaves = range(fabric.n_leaves)
    assert {(a, b) for a in leaves for b in leaves if a != b and joined[a, b]} == hashed_pairs(fabric)
    assert planned_pairs(fabric) <= hashed_pairs(fabric)


def test_only_failures_leave_leaves_without_a_planned_path_that_still_have_a_spine_in_common() -> None:
    # The live cables have different numbers, and the spine chooses the outgoing one by the number of the incoming one.
    fabric = clos(2, 2, 1, parallel=2).without_links(["leaf1-spine1", "leaf2-spine1:1"])
    assert planned_pairs(fabric.without_links(["spine2"])) == set()
    assert hashed_pairs(fabric.without_links(["spine2"])) == {(0, 1), (1, 0)}
    # A drain of the other spine has no effect, because it has the only planned paths.
    assert drain(fabric, ["spine2"]).unused == ()
