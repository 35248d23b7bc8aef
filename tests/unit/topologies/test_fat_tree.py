"""The Topo class of three layers for plain ``mn`` and the short form of the fabric file are one convention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.pod_clos import pod_clos
from tests.unit.topologies.cables import cables_of

FILE = Path(__file__).parents[3] / "topologies" / "fat_tree.py"


def topology(**sizes: Any) -> Any:
    """``FatTree`` as ``mn --custom`` gets it: by executing the file, knowing nothing of its folder."""
    names: dict[str, Any] = {}
    exec(compile(FILE.read_text(), "custom", "exec"), names)
    return names["topos"]["fattree"](**sizes)


@given(
    pods=st.one_of(st.integers(1, 4), st.integers(127, 130)),
    leaves=st.integers(1, 3),
    aggs=st.integers(1, 3),
    cores=st.integers(1, 3),
    hosts=st.integers(1, 3),
)
def test_mininets_fat_tree_has_the_names_ids_addresses_and_ports_of_the_models_fabric(
    pods: int, leaves: int, aggs: int, cores: int, hosts: int
) -> None:
    topo = topology(pods=pods, leaves=leaves, aggs=aggs, cores=cores, hosts=hosts)
    fabric = pod_clos(pods, leaves, aggs, cores, hosts)
    switches = {name: int(topo.nodeInfo(name)["dpid"], 16) for name in topo.switches()}
    assert switches == {switch.name: switch.dpid for switch in fabric.switches}
    built = {name: (topo.nodeInfo(name)["ip"], topo.nodeInfo(name)["mac"]) for name in topo.hosts()}
    assert built == {host.name: (f"{host.ip}/8", host.mac) for host in fabric.hosts}
    links = [topo_link[2] for topo_link in topo.links(withInfo=True)]
    assert len(links) == len(fabric.hosts) + len(fabric.cables)
    assert {(i["node1"], i["port1"], i["node2"], i["port2"]) for i in links} == cables_of(fabric)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_k_is_the_number_of_ports_of_every_switch(k: int) -> None:
    topo = topology(k=k)
    assert len(topo.hosts()) == k**3 // 4
    assert len(topo.switches()) == 5 * k**2 // 4
    assert {len(topo.ports[switch]) for switch in topo.switches()} == {k}


@pytest.mark.parametrize(
    ("sizes", "word"),
    [
        ({"k": 5}, "k=5"),
        ({"k": -4}, "k=-4"),
        ({"pods": 0}, "pods"),
        ({"cores": 1.5}, "cores"),
        ({"hosts": 251}, "hosts"),
        ({"pods": 40000}, "pods"),
        ({"pods": 4096, "leaves": 3, "hosts": 250, "aggs": 1000}, "leaf12288-eth1250"),
    ],
)
def test_sizes_that_cannot_be_had_are_refused_by_name(sizes: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        topology(**sizes)
