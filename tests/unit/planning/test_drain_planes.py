"""Draining whole planes, and leaves of NICs with several ports: stripes leave them, and nothing is disconnected."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import NotFoundError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.paths.plane_places import plane_names, plane_numbers
from controller.model.traffic import Traffic
from controller.planning.drain import Drain, cables_of, drain, drained_cables, kind_of, known, without_drained
from controller.planning.plan_inputs import fabric_hash
from controller.planning.plane_drain import PortsAside, moved_to_other_planes, on_planes_in_use
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.live_planes import on_live_planes
from controller.routing.registry import assign
from tests.unit.laws import examples
from tests.unit.planning.drained_pairs import hashed_pairs, planned_pairs
from tests.unit.routing.policies.plane_cases import cases, nic_bytes, traffic_of
from tests.unit.strategies import fabrics, nic_fabrics, plane_fabrics

TWO = clos(2, 2, 2, planes=2)


def joined(fabric: Fabric, one: int, other: int, plane: int) -> bool:
    """Whether two NICs are joined in a plane."""
    a, b = fabric.planes.ports[[one, other], plane].tolist()
    leaves = int(fabric.host_leaf[a]), int(fabric.host_leaf[b])
    return bool(fabric.link_up[[a, b]].all()) and (leaves[0] == leaves[1] or len(fabric.live_paths(*leaves)) > 0)


def connected(fabric: Fabric, src: int, dst: int) -> bool:
    """Whether a live path joins two ports."""
    leaves = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    return bool(fabric.link_up[[src, dst]].all()) and (leaves[0] == leaves[1] or len(fabric.live_paths(*leaves)) > 0)


def some_ids(fabric: Fabric) -> st.SearchStrategy[set[str]]:
    return st.sets(st.sampled_from([*fabric.cable_names, *fabric.layer_of, *plane_names(fabric), "gone"]), max_size=5)


def numbers(fabric: Fabric, ids: set[str]) -> tuple[int, ...]:
    return tuple(p for p, name in enumerate(plane_names(fabric)) if name in ids)


@settings(max_examples=examples(100, 600))
@given(fabric=plane_fabrics(), data=st.data())
def test_a_drained_plane_takes_no_cable_out_of_use_and_is_still_used_where_nics_have_no_other(
    fabric: Fabric, data: st.DataObject
) -> None:
    ids = data.draw(some_ids(fabric))
    found = drain(fabric, ids)
    assert found.unused == drain(fabric, ids - set(plane_names(fabric))).unused
    assert found.ports.planes == numbers(fabric, ids)
    left = without_drained(fabric, found)
    assert planned_pairs(left) == planned_pairs(fabric)
    assert hashed_pairs(left) == hashed_pairs(fabric)
    needed = needed_parts(left, found.ports)
    live = {name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up}
    leaves = {fabric.leaves[leaf].name for leaf in found.ports.leaves}
    assert leaves == ids & set(fabric.leaf_index)
    by_planes = {cable for name in needed - leaves for cable in cables_of(fabric, name)} & live - set(found.unused)
    of_leaves = {cable for name in leaves - needed for cable in cables_of(fabric, name)}
    assert set(found.still_used) == by_planes | (set(others_still_used(fabric, ids, found)) - of_leaves)


def needed_parts(fabric: Fabric, aside: PortsAside) -> set[str]:
    """The names of planes and leaves that are set aside and join two NICs which no other ports join."""
    avoided = aside.of_hosts(fabric)
    found = set()
    for one, other in itertools.combinations(fabric.planes.ports.tolist(), 2):
        ways = [(a, b) for a, b in itertools.product(one, other) if min(a, b) >= 0 and connected(fabric, a, b)]
        if any(not avoided[a] and not avoided[b] for a, b in ways):
            continue
        for port in {port for way in ways for port in way}:
            plane, leaf = int(fabric.planes.of_host[port]), int(fabric.host_leaf[port])
            found |= {f"plane{plane + 1}"} if plane in aside.planes else set()
            found |= {fabric.leaves[leaf].name} if leaf in aside.leaves else set()
    return found


def others_still_used(fabric: Fabric, ids: set[str], found: Drain) -> list[str]:
    """The cables that are drained in another way than with their planes, are up, and are not out of use."""
    wanted = drained_cables(fabric, ids - set(plane_names(fabric)))
    rows = zip(fabric.cable_names, fabric.cables, wanted.tolist(), strict=True)
    return [name for name, cable, chosen in rows if chosen and cable.up and name not in found.unused]


@settings(max_examples=examples(100, 600))
@given(fabric=nic_fabrics(), data=st.data())
def test_stripes_leave_drained_leaves_and_pods_for_ports_that_are_joined_and_cables_stay_in_use(
    fabric: Fabric, data: st.DataObject
) -> None:
    names = [leaf.name for leaf in fabric.leaves]
    ids = data.draw(st.sets(st.sampled_from([*names, *fabric.pod_names, *plane_names(fabric)]), min_size=1, max_size=3))
    traffic = traffic_of(fabric, data.draw(st.permutations(range(len(fabric.nic_names)))))
    found = drain(fabric, ids)
    pods = {leaf for leaf, pod in zip(names, fabric.pod_of_leaf.tolist(), strict=True) if f"pod{pod + 1}" in ids}
    assert {names[leaf] for leaf in found.ports.leaves} == (ids & set(names)) | (pods if fabric.pod_names else set())
    left = without_drained(fabric, found)
    assert planned_pairs(left) == planned_pairs(fabric)
    usual, now = on_live_planes(left, traffic), on_planes_in_use(left, traffic, found.ports)
    assert nic_bytes(fabric, now) == nic_bytes(fabric, traffic)
    avoided, nic = found.ports.of_hosts(fabric), fabric.planes.nic_of_host
    for flow in range(traffic.n_flows):
        assert connected(left, int(now.src[flow]), int(now.dst[flow])) >= connected(
            left, int(usual.src[flow]), int(usual.dst[flow])
        )
        ports = (
            [port for port in fabric.planes.ports[nic[each[flow]]].tolist() if not avoided[port]]
            for each in (now.src, now.dst)
        )
        if any(connected(left, a, b) for a, b in itertools.product(*ports)):
            assert not avoided[[now.src[flow], now.dst[flow]]].any()
    # A leaf that some NICs need is named by its cables; one that nothing needs is not.
    needed = needed_parts(left, found.ports)
    used = set(found.still_used)
    for leaf in found.ports.leaves:
        cables = set(cables_of(fabric, names[leaf])) - set(found.unused)
        in_plane = {f"plane{fabric.planes.of_leaf[leaf] + 1}"} & needed
        if names[leaf] not in needed and not in_plane:
            assert cables.isdisjoint(used)
    again = on_planes_in_use(left, now, PortsAside())
    assert (again.src.tolist(), again.dst.tolist()) == (usual.src.tolist(), usual.dst.tolist())


def test_a_leaf_of_a_drained_plane_or_pod_is_left_by_stripes_and_its_cables_carry_what_is_still_sent() -> None:
    dual = clos(2, 4, 2, dual_tor=True)
    assert drain(dual, ["leaf1"]) == Drain((), (), PortsAside((), (0,)))
    assert drain(TWO, ["leaf3"]) == Drain((), (), PortsAside((), (2,)))
    # With both of its leaves drained, a NIC has no other port.
    assert set(drain(dual, ["leaf1", "leaf2"]).still_used) == {*cables_of(dual, "leaf1"), *cables_of(dual, "leaf2")}
    # Where NICs have one port, a leaf that is drained keeps it, as before.
    assert drain(clos(2, 2, 2), ["leaf1"]) == Drain((), ("leaf1-spine1", "leaf1-spine2"))
    pods = pod_clos(2, 2, 2, 2, 2, planes=2)
    assert drain(pods, ["pod3"]) == Drain((), (), PortsAside((), (4, 5)))
    assert len({fabric_hash(TWO, PortsAside((), leaves)) for leaves in ((), (0,), (1,), (0, 1))}) == 4


@settings(max_examples=examples(50, 300))
@given(case=cases(plane_fabrics()), data=st.data())
def test_stripes_leave_a_drained_plane_if_another_joins_their_nics_and_nothing_else_moves(
    case: tuple[Fabric, Traffic], data: st.DataObject
) -> None:
    fabric, traffic = case
    drained = numbers(fabric, data.draw(st.sets(st.sampled_from(plane_names(fabric)))))
    usual, now = on_live_planes(fabric, traffic), on_planes_in_use(fabric, traffic, PortsAside(drained))
    nic, plane = fabric.planes.nic_of_host, fabric.planes.of_host
    assert nic_bytes(fabric, now) == nic_bytes(fabric, traffic)
    assert (plane[now.src] == plane[now.dst]).all()
    kept = [p for p in range(fabric.planes.count) if p not in drained]
    for flow in range(traffic.n_flows):
        ends = int(nic[now.src[flow]]), int(nic[now.dst[flow]])
        others = [p for p in kept if joined(fabric, *ends, p)]
        if not others:
            assert plane[now.src[flow]] == plane[usual.src[flow]]
        elif (own := traffic.number[flow] % fabric.planes.count) in others:
            assert plane[now.src[flow]] == own
        else:
            assert plane[now.src[flow]] in others
    # Nothing is lost by a drain: what has a path without it has one with it.
    before, after = (assign("fair", fabric, each).assignment.path for each in (usual, now))
    assert (after == -1).sum() == (before == -1).sum()
    # From there it comes back, and what moved is told.
    again = on_planes_in_use(fabric, now, PortsAside())
    assert (again.src.tolist(), again.dst.tolist()) == (usual.src.tolist(), usual.dst.tolist())
    moved = moved_to_other_planes(fabric, usual, now)
    assert moved.tolist() == np.flatnonzero((usual.src != now.src) | (usual.dst != now.dst)).tolist()


@settings(max_examples=examples(50, 300))
@given(fabric=nic_fabrics(), data=st.data())
def test_with_dual_tor_and_pods_stripes_leave_a_drained_plane_for_ports_that_are_joined(
    fabric: Fabric, data: st.DataObject
) -> None:
    names = data.draw(st.sets(st.sampled_from(plane_names(fabric))))
    traffic = traffic_of(fabric, data.draw(st.permutations(range(len(fabric.nic_names)))))
    found, drained = drain(fabric, names), numbers(fabric, names)
    assert (found.unused, found.ports.planes) == ((), drained)
    usual, now = on_live_planes(fabric, traffic), on_planes_in_use(fabric, traffic, PortsAside(drained))
    assert nic_bytes(fabric, now) == nic_bytes(fabric, traffic)
    kept = [p for p in range(fabric.planes.count) if p not in drained]
    nic, plane = fabric.planes.nic_of_host, fabric.planes.of_host
    left = 0
    for flow in range(traffic.n_flows):
        assert connected(fabric, int(now.src[flow]), int(now.dst[flow])) >= connected(
            fabric, int(usual.src[flow]), int(usual.dst[flow])
        )
        ports = (fabric.planes.ports[nic[each[flow]], kept].tolist() for each in (now.src, now.dst))
        if any(connected(fabric, a, b) for a, b in itertools.product(*ports)):
            assert {int(plane[now.src[flow]]), int(plane[now.dst[flow]])} <= set(kept)
        else:
            used = connected(fabric, int(now.src[flow]), int(now.dst[flow]))
            left += used and fabric.host_leaf[now.src[flow]] != fabric.host_leaf[now.dst[flow]]
    if left:
        assert found.still_used


def test_a_plane_stands_for_its_cables_and_a_fabric_of_one_plane_has_none() -> None:
    assert kind_of(TWO, "plane2") == "plane"
    assert cables_of(TWO, "plane2") == ("leaf3-spine3", "leaf3-spine4", "leaf4-spine3", "leaf4-spine4")
    assert known(TWO, ["plane1", "plane3", "leaf1"]) == {"plane1", "leaf1"}
    assert drained_cables(TWO, ["plane1"]).tolist() == [True] * 4 + [False] * 4
    assert drain(TWO, ["plane2"]) == Drain((), (), PortsAside((1,)))
    assert drain(TWO, ["plane1", "plane2"]).still_used == TWO.cable_names
    # A plan for other planes is another plan, although the cables are the same.
    assert len({fabric_hash(TWO, PortsAside(planes)) for planes in ((), (0,), (1,), (0, 1))}) == 4
    with pytest.raises(NotFoundError, match="no cable, switch or plane has the name"):
        cables_of(TWO, "plane3")
    with pytest.raises(NotFoundError, match="no cable or switch has the name"):
        cables_of(clos(2, 2, 2), "plane1")


def test_a_job_whose_stripes_share_one_of_two_planes_takes_twice_as_long_as_on_the_whole_fabric() -> None:
    traffic = on_planes_in_use(TWO, traffic_of(TWO, [0, 2, 1, 3]), PortsAside((1,)))
    objective = evaluate(TWO, traffic, assign("fair", TWO, traffic).assignment)
    assert (objective.ideal_seconds / objective.speed / objective.healthy_seconds).tolist() == pytest.approx([2.0])


def test_a_spine_of_a_drained_plane_is_out_of_use_and_base_forwarding_keeps_the_other() -> None:
    found = drain(TWO, ["plane2", "spine3"])
    assert found.unused == ("leaf3-spine3", "leaf4-spine3")
    assert found.still_used == ()


@given(st.one_of(fabrics(), plane_fabrics()))
def test_each_link_is_in_the_plane_of_its_ends(fabric: Fabric) -> None:
    several = fabric.planes.count > 1
    of = {leaf.name: plane + 1 for leaf, plane in zip(fabric.leaves, fabric.planes.of_leaf.tolist(), strict=True)}
    for link, plane in zip(fabric.link_ids, plane_numbers(fabric), strict=True):
        ends = {of[end] for end in link.partition(":")[0].split("->") if end in of}
        assert plane == (ends.pop() if several else None)
