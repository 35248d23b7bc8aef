"""Planes: what the files of fabrics with several ports a NIC mean, and which of them are refused."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.clos import clos
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.fabric_file import fabric_document, parse_fabric
from tests.unit.strategies import plane_fabrics


@given(plane_fabrics())
def test_each_nic_has_one_port_in_each_plane(fabric: Fabric) -> None:
    planes = fabric.planes
    assert planes.count == fabric.n_hosts // len(fabric.nic_names)
    for name, ports in zip(fabric.nic_names, planes.ports.tolist(), strict=True):
        assert [fabric.hosts[port].nic for port in ports] == [name] * planes.count
        assert planes.of_host[ports].tolist() == list(range(planes.count))
        assert fabric.host_index[name] == ports[0]
    for host, of in zip(fabric.hosts, planes.of_host.tolist(), strict=True):
        assert planes.of_leaf[fabric.leaf_index[host.leaf]] == of


@given(plane_fabrics())
def test_the_explicit_form_gives_the_same_fabric_back(fabric: Fabric) -> None:
    again = parse_fabric(fabric_document(fabric))
    assert again == fabric
    assert again.version == fabric.version


@given(plane_fabrics(failures=False))
def test_a_plane_is_the_fabric_of_one_plane(fabric: Fabric) -> None:
    planes = fabric.planes.count
    one = clos(fabric.n_spines // planes, fabric.n_leaves // planes, len(fabric.hosts) // fabric.n_leaves,
               parallel=int(fabric.parallel.max()))  # fmt: skip
    assert fabric.n_paths == one.n_paths
    for plane in range(planes):
        (leaves,) = np.nonzero(fabric.planes.of_leaf == plane)
        for a, leaf in enumerate(leaves.tolist()):
            for k in range(one.n_paths):
                mine, theirs = (
                    each.cables[(int(each.up_link[at, k]) - each.first_cable_link) // 2]
                    for each, at in ((fabric, leaf), (one, a))
                )
                spine = fabric.spine_index[mine.upper]
                assert fabric.planes.of_spine[spine] == plane
                assert spine % one.n_spines == one.spine_index[theirs.upper]
                assert (mine.lower_port, mine.upper_port) == (theirs.lower_port, theirs.upper_port)


@given(plane_fabrics())
def test_no_path_joins_leaves_of_two_planes(fabric: Fabric) -> None:
    of_leaf = fabric.planes.of_leaf
    for a in range(fabric.n_leaves):
        for b in range(fabric.n_leaves):
            live = fabric.live_paths(a, b).tolist()
            every = np.arange(fabric.n_paths)
            joined = fabric.live_ways.joined(np.full(len(every), a), np.full(len(every), b), every)
            assert np.flatnonzero(joined).tolist() == live
            if of_leaf[a] != of_leaf[b]:
                assert not live
                continue
            for path in live if a != b else ():
                up, down = (fabric.cables[(link - fabric.first_cable_link) // 2]
                            for link in fabric.ways.links_of(a, b, path))  # fmt: skip
                assert (up.lower, down.lower) == (fabric.leaves[a].name, fabric.leaves[b].name)
                assert up.upper == down.upper


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_one_plane_is_a_fabric_without_planes(spines: int, leaves: int, hosts: int) -> None:
    assert clos(spines, leaves, hosts, planes=1) == clos(spines, leaves, hosts)
    assert all("nic" not in row for row in fabric_document(clos(spines, leaves, hosts))["hosts"])


def two_planes() -> Any:
    """The explicit form of three leaves and two spines in each of two planes."""
    return copy.deepcopy(fabric_document(clos(2, 3, 2, planes=2)))


def refused(document: Any) -> str:
    """Return the error with which a fabric is refused."""
    with pytest.raises(InputError) as error:
        parse_fabric(document)
    return str(error.value)


@pytest.mark.parametrize("leaf", ["leaf1", "leaf2"])
def test_two_ports_of_a_nic_in_one_plane_are_refused(leaf: str) -> None:
    document = two_planes()
    document["hosts"][6].update(leaf=leaf, port=9)
    assert refused(document) == (
        f"hosts[6].leaf: '{leaf}': h1.p1 on leaf1 and h1.p2 on {leaf}, ports of h1, are in one plane; "
        "a NIC has one port in each plane"
    )


def test_a_cable_that_joins_two_planes_is_refused_with_a_nic_that_then_has_two_ports_in_one() -> None:
    document = two_planes()
    document["links"].append({"a": "leaf1", "b": "spine3"})
    assert "h1.p1 on leaf1 and h1.p2 on leaf4, ports of h1, are in one plane" in refused(document)


def test_a_nic_without_a_port_in_some_plane_is_refused() -> None:
    document = two_planes()
    document["hosts"].pop()
    assert "'h6': each NIC needs one port in each of the 2 planes; this one has none in that of leaf4" in refused(
        document
    )


def test_planes_of_unlike_widths_are_refused() -> None:
    document = two_planes()
    document["switches"].append({"name": "spine9", "role": "spine", "dpid": 99999})
    assert "'spine9': no cable connects it" in refused(document)
    document["links"].append({"a": "leaf6", "b": "spine9"})
    assert "'leaf4': planes need the same number of spines: that of leaf1 has 2, that of leaf4 has 3" in refused(
        document
    )


def test_the_name_of_a_nic_is_its_own() -> None:
    document = two_planes()
    document["hosts"][0].update(nic="leaf2")
    assert "hosts[0].nic: 'leaf2'" in refused(document)


def test_nics_with_several_ports_are_refused_in_three_layers() -> None:
    document = fabric_document(parse_fabric(
        {"three_tier": {"pods": 2, "leaves": 1, "aggs": 1, "cores_per_agg": 1, "hosts_per_leaf": 1}}
    ))  # fmt: skip
    document["hosts"][0]["nic"] = "a"
    assert "'a': h1 is a port of it: NICs have several ports in leaf-spine fabrics only" in refused(document)


def test_more_planes_than_there_are_ids_are_refused() -> None:
    short = {"spines": 1, "leaves": 30000, "hosts_per_leaf": 1, "planes": 8}
    assert refused({"clos": short}) == "clos.planes: 8: there are ids for at most 65535 leaves, not 8 x 30000"
