"""The Topo class for plain ``mn`` and the fabric of the short form are one convention written down twice."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.clos import clos
from tests.unit.topologies.cables import cables_of

FILE = Path(__file__).parents[3] / "topologies" / "clos.py"


def topology(**sizes: int) -> Any:
    """``Clos`` as ``mn --custom`` gets it: by executing the file, knowing nothing of its folder."""
    names: dict[str, Any] = {}
    exec(compile(FILE.read_text(), "custom", "exec"), names)
    return names["topos"]["clos"](**sizes)


@given(
    spines=st.integers(1, 5),
    leaves=st.one_of(st.integers(1, 5), st.integers(255, 258)),
    hosts=st.integers(1, 4),
    parallel=st.integers(1, 3),
)
def test_mininets_clos_has_the_names_ids_addresses_and_ports_of_the_models_clos(
    spines: int, leaves: int, hosts: int, parallel: int
) -> None:
    topo = topology(spines=spines, leaves=leaves, hosts=hosts, parallel=parallel)
    fabric = clos(spines, leaves, hosts, parallel=parallel)
    switches = {name: int(topo.nodeInfo(name)["dpid"], 16) for name in topo.switches()}
    assert switches == {switch.name: switch.dpid for switch in fabric.switches}
    built = {name: (topo.nodeInfo(name)["ip"], topo.nodeInfo(name)["mac"]) for name in topo.hosts()}
    assert built == {host.name: (f"{host.ip}/8", host.mac) for host in fabric.hosts}
    links = [topo_link[2] for topo_link in topo.links(withInfo=True)]
    assert len(links) == len(fabric.hosts) + len(fabric.cables)
    assert {(i["node1"], i["port1"], i["node2"], i["port2"]) for i in links} == cables_of(fabric)


def test_without_arguments_it_is_the_fabric_of_the_example_file() -> None:
    topo = topology()
    assert (len(topo.switches()), len(topo.hosts()), len(topo.links())) == (8, 16, 32)


@pytest.mark.parametrize(
    ("sizes", "word"),
    [
        ({"spines": 0}, "spines"),
        ({"leaves": -1}, "leaves"),
        ({"hosts": 251}, "hosts"),
        ({"parallel": 1.5}, "parallel"),
        ({"leaves": 70000}, "leaves"),
        ({"leaves": 12345, "hosts": 250}, "leaf12345-eth254"),
    ],
)
def test_sizes_that_cannot_be_had_are_refused_by_name(sizes: dict[str, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        topology(**sizes)


def test_the_file_also_runs_by_its_path_and_exports_only_the_clos() -> None:
    assert set(runpy.run_path(str(FILE))["topos"]) == {"clos"}
