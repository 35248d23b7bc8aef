"""The Topo classes of hosts with several interfaces for plain ``mn`` and the short form are one convention."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric, Host
from controller.model.files.clos import clos

FOLDER = Path(__file__).parents[3] / "topologies"
FILES = {"multiplane": FOLDER / "multi_plane.py", "rail": FOLDER / "rail.py"}


def topology(name: str, **sizes: Any) -> Any:
    """A class as ``mn --custom`` gets it: by executing the file, knowing nothing of its folder."""
    names: dict[str, Any] = {}
    exec(compile(FILES[name].read_text(), "custom", "exec"), names)
    return names["topos"][name](**sizes)


def check_same(topo: Any, fabric: Fabric, interface: dict[str, tuple[str, int]]) -> None:
    """Compare names, ids, addresses and ports; ``interface``: the node and number that is each host of the fabric."""
    switches = {name: int(topo.nodeInfo(name)["dpid"], 16) for name in topo.switches()}
    assert switches == {switch.name: switch.dpid for switch in fabric.switches}
    hosts = {interface[host.name]: host for host in fabric.hosts}
    assert set(topo.hosts()) == {node for node, _ in hosts}
    links = [topo_link[2] for topo_link in topo.links(withInfo=True)]
    assert len(links) == len(fabric.hosts) + len(fabric.cables)
    expected: set[tuple[str, int, str, int | None]] = {(*place, host.leaf, host.port) for place, host in hosts.items()}
    expected |= {(cable.lower, cable.lower_port or 0, cable.upper, cable.upper_port) for cable in fabric.cables}
    assert {(i["node1"], i["port1"], i["node2"], i["port2"]) for i in links} == expected
    assert {(i["node1"], i["port1"]): i["addr1"] for i in links if "addr1" in i} == {
        place: host.mac for place, host in hosts.items()
    }
    for (node, number), host in hosts.items():
        info = topo.nodeInfo(node)
        assert info["ports"][number][0] == host.ip
        assert number or info["ip"] == f"{host.ip}/8"


network = cache(ip_network)


def interfaces_to(topo: Any, node: str, host: Host) -> list[int]:
    """The numbers of a node's interfaces with a route to a host's address."""
    address = ip_address(host.ip)
    return [
        number
        for number, (_, prefixes) in enumerate(topo.nodeInfo(node)["ports"])
        if any(address in network(prefix) for prefix in prefixes)
    ]


@given(
    planes=st.integers(1, 4),
    spines=st.integers(1, 3),
    leaves=st.one_of(st.integers(1, 4), st.integers(126, 129)),
    hosts=st.integers(1, 3),
    parallel=st.integers(1, 2),
)
def test_mininets_planes_are_those_of_the_models_fabric(
    planes: int, spines: int, leaves: int, hosts: int, parallel: int
) -> None:
    topo = topology("multiplane", planes=planes, spines=spines, leaves=leaves, hosts=hosts, parallel=parallel)
    fabric = clos(spines, leaves, hosts, planes=planes, parallel=parallel)
    of_host = fabric.planes.of_host.tolist()
    interface = {host.name: (host.nic or host.name, of_host[i]) for i, host in enumerate(fabric.hosts)}
    check_same(topo, fabric, interface)
    for host in fabric.hosts[:: hosts * leaves]:
        assert interfaces_to(topo, "h1", host) == [interface[host.name][1]]


@given(
    rails=st.integers(1, 4),
    groups=st.one_of(st.integers(1, 3), st.integers(64, 65)),
    spines=st.integers(1, 3),
    servers=st.integers(1, 3),
    parallel=st.integers(1, 2),
)
def test_mininets_rails_are_those_of_the_models_fabric(
    rails: int, groups: int, spines: int, servers: int, parallel: int
) -> None:
    leaves = rails * groups
    topo = topology("rail", rails=rails, spines=spines, leaves=leaves, servers=servers, parallel=parallel)
    fabric = clos(spines, leaves, servers, parallel=parallel, nics_per_server=rails, rail_optimized=True)
    server = {host.name: host.server if rails > 1 else host.name.replace("h", "node") for host in fabric.hosts}
    check_same(topo, fabric, {host.name: (str(server[host.name]), host.rail) for host in fabric.hosts})
    for host in fabric.hosts:
        assert interfaces_to(topo, "node1", host) == [host.rail]


@pytest.mark.parametrize(
    ("name", "sizes", "word"),
    [
        ("multiplane", {"planes": 0}, "planes=0"),
        ("multiplane", {"spines": 1.5}, "spines=1.5"),
        ("multiplane", {"hosts": 251}, "hosts=251"),
        ("multiplane", {"planes": 2, "leaves": 40000}, "leaves=40000"),
        ("multiplane", {"planes": 4, "leaves": 4000, "hosts": 250, "spines": 1000}, "leaf16000-eth1250"),
        ("rail", {"rails": "2"}, "rails='2'"),
        ("rail", {"rails": 3, "leaves": 4}, "leaves=4"),
        ("rail", {"servers": 251}, "servers=251"),
        ("rail", {"spines": 70000}, "spines=70000"),
        ("rail", {"rails": 8, "leaves": 16000, "servers": 250, "spines": 1000}, "leaf16000-eth1250"),
    ],
)
def test_sizes_that_cannot_be_had_are_refused_by_name(name: str, sizes: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        topology(name, **sizes)
