"""Planes: what the files of fabrics with several ports a NIC mean, and which of them are refused."""

from __future__ import annotations

import copy
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, parse_fabric
from tests.unit.strategies import nic_fabrics, plane_fabrics


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
    one = clos(
        fabric.n_spines // planes,
        fabric.n_leaves // planes,
        len(fabric.hosts) // fabric.n_leaves,
        parallel=int(fabric.parallel.max()),
    )
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
                assert fabric.planes.of_layer(1)[spine] == plane
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
                up, down = (
                    fabric.cables[(link - fabric.first_cable_link) // 2] for link in fabric.ways.links_of(a, b, path)
                )
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


def test_nics_need_as_many_ports_as_others_in_each_network() -> None:
    document = two_planes()
    document["hosts"][6].update(leaf="leaf2", port=9)
    assert refused(document) == (
        "hosts: 'h1': all NICs need the same number of ports in each network: this one has 2 in that of leaf1, h2 has 1"
    )
    document = two_planes()
    document["hosts"].pop()
    assert refused(document) == (
        "hosts: 'h6': all NICs need the same number of ports in each network: this one has 0 in that of leaf4, h1 has 1"
    )


def test_a_cable_that_joins_two_planes_makes_their_leaves_dual_tors() -> None:
    document = two_planes()
    document["links"].append({"a": "leaf1", "b": "spine3"})
    fabric = parse_fabric(document)
    assert fabric.planes.n_networks == 1
    assert fabric.planes.count == 2
    assert fabric.planes.of_layer(0).tolist() == [0, 0, 0, 1, 1, 1]
    assert fabric.planes.of_layer(1).tolist() == [-1] * 4


def test_a_spine_without_cables_is_in_no_plane() -> None:
    document = two_planes()
    document["switches"].append({"name": "spine9", "role": "spine", "dpid": 99999})
    assert "'spine9': no cable leads from it to a leaf" in refused(document)


def test_planes_may_have_unlike_numbers_of_spines() -> None:
    document = two_planes()
    document["switches"].append({"name": "spine9", "role": "spine", "dpid": 99999})
    document["links"] += [{"a": f"leaf{i}", "b": "spine9"} for i in (4, 5, 6)]
    fabric = parse_fabric(document)
    assert [len(fabric.live_paths(a, a + 1)) for a in (0, 3)] == [2, 3]
    assert fabric.path_names == ("path1", "path2", "path3")


def test_the_name_of_a_nic_is_its_own() -> None:
    document = two_planes()
    document["hosts"][0].update(nic="leaf2")
    assert "hosts[0].nic: 'leaf2'" in refused(document)


@given(nic_fabrics())
def test_paths_join_exactly_the_leaves_of_one_network(fabric: Fabric) -> None:
    planes, graph = fabric.planes, nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from((cable.lower, cable.upper) for cable in fabric.cables)
    every = np.arange(fabric.n_paths)
    for a in range(fabric.n_leaves):
        for b in range(fabric.n_leaves):
            connected = nx.has_path(graph, fabric.leaves[a].name, fabric.leaves[b].name)
            assert connected == (planes.network[0][a] == planes.network[0][b])
            if a != b:
                ends = np.full(len(every), a), np.full(len(every), b)
                assert fabric.ways.joined(*ends, every).any() == connected
                assert (
                    np.flatnonzero(fabric.live_ways.joined(*ends, every)).tolist() == fabric.live_paths(a, b).tolist()
                )


@given(nic_fabrics())
def test_the_ports_of_a_nic_are_numbered_network_by_network(fabric: Fabric) -> None:
    planes = fabric.planes
    assert (np.diff(planes.network_of_plane) >= 0).all()
    np.testing.assert_array_equal(planes.ports[planes.nic_of_host, planes.of_host], np.arange(fabric.n_hosts))
    np.testing.assert_array_equal(planes.network_of_plane[planes.of_host], planes.network[0][fabric.host_leaf])
    assert parse_fabric(fabric_document(fabric)) == fabric


@given(nic_fabrics())
def test_a_switch_has_a_plane_if_it_forwards_for_one(fabric: Fabric) -> None:
    planes = fabric.planes
    for layer, switches in enumerate(fabric.layers):
        for x, plane in enumerate(planes.of_layer(layer).tolist()):
            if layer == 0:
                own = set(planes.of_host[fabric.host_leaf == x].tolist())
            else:
                own = set(np.flatnonzero(planes.network_of_plane == planes.network[layer][x]).tolist())
            assert plane == (own.pop() if len(own) == 1 else -1), switches[x].name


def test_dual_tor_names_the_ports_of_a_nic_on_two_leaves() -> None:
    fabric = parse_fabric({"clos": {"spines": 2, "leaves": 4, "hosts_per_leaf": 2, "dual_tor": True}})
    where = {host.name: (host.leaf, host.ip, host.nic) for host in fabric.hosts}
    assert len(where) == 8
    assert where["h3.p1"] == ("leaf3", "10.0.3.1", "h3")
    assert where["h3.p2"] == ("leaf4", "10.0.4.1", "h3")
    assert fabric.path_names == ("spine1", "spine2")


def test_planes_of_three_layers_have_pods_of_their_own() -> None:
    shape = {"pods": 2, "leaves": 2, "aggs": 2, "cores_per_agg": 2, "hosts_per_leaf": 1}
    fabric = parse_fabric({"three_tier": {**shape, "planes": 2}})
    assert fabric.pod_names == ("pod1", "pod2", "pod3", "pod4")
    assert [host.ip for host in fabric.hosts if host.nic == "h3"] == ["10.0.4.1", "10.0.8.1"]
    assert fabric.n_paths == parse_fabric({"three_tier": shape}).n_paths
    assert fabric.path_names[:4] == ("path1", "path2", "path1.1", "path1.2")
    assert fabric.planes.of_layer(2).tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize(
    ("form", "error"),
    [
        (
            {"clos": {"spines": 2, "leaves": 3, "hosts_per_leaf": 2, "dual_tor": True}},
            "clos.leaves: 3: with 'dual_tor', leaves are pairs, so their number is even",
        ),
        (
            {
                "clos": {
                    "spines": 2,
                    "leaves": 4,
                    "hosts_per_leaf": 2,
                    "dual_tor": True,
                    "nics_per_server": 4,
                    "rail_optimized": True,
                }
            },
            "clos.nics_per_server: 4: clos.leaves is 4, which cannot be divided evenly by twice this",
        ),
        (
            {
                "three_tier": {
                    "pods": 4000,
                    "leaves": 2,
                    "aggs": 1,
                    "cores_per_agg": 1,
                    "hosts_per_leaf": 1,
                    "planes": 9,
                }
            },
            "three_tier.pods: 36000 pods of 2 leaves need more /24 prefixes than 10.0.0.0/8 has",
        ),
    ],
)
def test_a_short_form_of_ports_that_cannot_be_is_refused(form: Any, error: str) -> None:
    assert refused(form) == error


def test_more_planes_than_there_are_ids_are_refused() -> None:
    short = {"spines": 1, "leaves": 30000, "hosts_per_leaf": 1, "planes": 8}
    assert refused({"clos": short}) == "clos.planes: 8: there are ids for at most 65535 leaves, not 8 x 30000"
