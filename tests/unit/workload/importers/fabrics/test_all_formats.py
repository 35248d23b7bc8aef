"""Laws of all formats: networks of other tools are read, or are refused with the switch that does not fit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.pod_clos import pod_clos
from controller.workload.exporters.containerlab import containerlab_document
from controller.workload.exporters.ns3 import ns3_topology
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source
from tests.unit.laws import examples
from tests.unit.workload.importers.fabrics.reading import (
    EXAMPLE_FABRICS,
    EXAMPLES,
    cables,
    fabric,
    read,
)


@pytest.mark.parametrize(("kind", "files", "leaves", "spines", "nics", "gbps"), EXAMPLE_FABRICS)
def test_the_examples_are_the_fabrics_that_they_describe(
    kind: str, files: list[str], leaves: int, spines: int, nics: int, gbps: float
) -> None:
    paths = [EXAMPLES / file for file in files]
    one = fabric(importer(kind)(open_sources(paths), ImportRequest()))
    assert (one.n_leaves, one.n_spines, one.n_hosts) == (leaves, spines, nics)
    assert sum(cable.gbps for cable in one.cables) == gbps
    assert {row.format for row in guess(open_sources(paths))} == {kind}


def test_npus_of_one_server_are_rails_with_a_switch_each() -> None:
    one = fabric(importer("astra-network")(open_sources([EXAMPLES / "astra-network.yaml"]), ImportRequest()))
    assert {(h.server, h.rail, h.leaf, h.gbps) for h in one.hosts} == {
        (f"server{s}", r, f"leaf{r + 1}", 400.0) for s in range(2) for r in range(4)
    }


THREE_TIERS = [
    ("slurm", "SwitchName=l Nodes=a\nSwitchName=s Switches=l\nSwitchName=core Switches=s\n", ("l", "s", "core")),
    ("ns3", "4 3 3\n1 2 3\n0 1 1Gbps 1ns 0\n1 2 1Gbps 1ns 0\n2 3 1Gbps 1ns 0\n", ("n1", "n2", "n3")),
    (
        "containerlab",
        "topology: {nodes: {a: {kind: linux}, l: {kind: x}, s: {kind: x}, core: {kind: x}}, links: "
        "[{endpoints: [a:1, l:1]}, {endpoints: [l:2, s:1]}, {endpoints: [s:2, core:1]}]}",
        ("l", "s", "core"),
    ),
    (
        "ibnetdiscover",
        """Switch 8 "S-1" # "l" enhanced port 0 lid 1 lmc 0
[1] "H-1"[1](1) # "a mlx5_0" lid 9 4xHDR
[2] "S-2"[1] # "s" lid 2 4xHDR
Switch 8 "S-2" # "s" enhanced port 0 lid 2 lmc 0
[1] "S-1"[2] # "l" lid 1 4xHDR
[2] "S-3"[1] # "core" lid 3 4xHDR
Switch 8 "S-3" # "core" enhanced port 0 lid 3 lmc 0
[1] "S-2"[2] # "s" lid 2 4xHDR
Ca 1 "H-1" # "a mlx5_0"
[1](1) "S-1"[1] # lid 9 lmc 0 "l" lid 1 4xHDR
""",
        ("l", "s", "core"),
    ),
]


@pytest.mark.parametrize(("kind", "text", "names"), THREE_TIERS)
def test_switches_above_switches_without_servers_are_cores(kind: str, text: str, names: tuple[str, str, str]) -> None:
    one = fabric(read(kind, text))
    assert tuple(switch.name for layer in one.layers for switch in layer) == names
    assert [(cable.lower, cable.upper) for cable in one.cables] == [names[:2], names[1:]]


@settings(deadline=None, max_examples=examples(10, 60))
@given(one=st.builds(pod_clos, st.integers(2, 3), *[st.integers(1, 3)] * 4, core_gbps=st.sampled_from([100.0, 400.0])))
def test_three_layers_are_read_back_from_ns3_and_containerlab(one: Fabric) -> None:
    again = fabric(read("ns3", "\n".join(ns3_topology(one))))
    number = {switch.name: f"n{one.n_hosts + i}" for i, switch in enumerate(one.switches)}
    assert cables(again) == Counter((number[c.lower], number[c.upper], c.gbps) for c in one.cables)
    assert again.pod_of_leaf.tolist() == one.pod_of_leaf.tolist()
    again = fabric(read("containerlab", yaml.safe_dump(containerlab_document(one)), gbps=7.0))
    assert cables(again) == Counter((cable.lower, cable.upper, 7.0) for cable in one.cables)


NOT_LAYERS = [
    (
        "slurm",
        "SwitchName=l Nodes=a\nSwitchName=s Switches=l\nSwitchName=c Switches=s\nSwitchName=top Switches=c\n",
        "file0: 'top': four tiers are not supported, only two or three: this switch is above the cores",
    ),
    (
        "ns3",
        "5 4 5\n1 2 3 4\n0 1 1Gbps 1ns 0\n1 2 1Gbps 1ns 0\n2 3 1Gbps 1ns 0\n2 4 1Gbps 1ns 0\n3 4 1Gbps 1ns 0\n",
        "file0: 'n3 n4': two switches above aggregation switches are connected directly; four tiers are not supported",
    ),
    (
        "ns3",
        "4 3 4\n1 2 3\n0 1 1Gbps 1ns 0\n1 2 1Gbps 1ns 0\n1 3 1Gbps 1ns 0\n2 3 1Gbps 1ns 0\n",
        "file0: 'n2 n3': two switches above leaves are connected directly; a fabric has cores between them",
    ),
    (
        "ns3",
        "4 2 3\n2 3\n0 2 1Gbps 1ns 0\n1 3 1Gbps 1ns 0\n2 3 1Gbps 1ns 0\n",
        "file0: 'n2 n3': two switches with servers are connected directly",
    ),
    (
        "astra-network",
        "topology: [Ring, Switch, Switch]\nnpus_count: [1, 1, 1]\nbandwidth: [1, 1, 1]",
        "file0: topology: ['Ring', 'Switch', 'Switch']: three or more dimensions are not supported: each NPU has links",
    ),
]


@pytest.mark.parametrize(("kind", "text", "message"), NOT_LAYERS)
def test_other_networks_are_refused_in_one_line_that_names_the_file_and_what_does_not_fit(
    kind: str, text: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(kind, text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_table_of_hosts_and_switches_is_known_to_have_no_cables() -> None:
    (found,) = guess([text_source("topo.csv", "ip,DSW,PSW,ASW\na,G6,P10,S14\n")])
    assert found.format == ""
    assert "without cables or speeds, so no fabric" in found.holds


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("slurm", "Nodes=a[1-4]\n", "is not a switch .* and not a block"),
        ("slurm", "SwitchName=s Switches=t\n", "a switch below it that is not described"),
        ("ns3", "3 1 2\n2\n0 2 1Gbps 1ns 0\n", "2 links are announced, but there are 1"),
        ("ns3", "3 1 1\n2\n0 2 1Gbit 1ns 0\n", r"'1Gbit': is not a rate \(100Gbps\)"),
        ("ns3", "3 2 1\n2\n0 2 1Gbps 1ns 0\n", "2 switches are announced, but there are 1"),
        ("ns3", "2\n0 1 3 100 5 2\n", "2 flows are announced, but there are 1"),
        ("containerlab", "topology: {nodes: {a: {}}, links: [{endpoints: [a:1, b:1]}]}", "no node has this name"),
        ("containerlab", "topology: [", "is not YAML"),
        ("ibnetdiscover", "hello\n", "no line describes a node of ibnetdiscover"),
        ("lldp", "{}", "is neither LLDP neighbours"),
        ("lldp", '{"DEVICE_NEIGHBOR": {"Ethernet0": {}}}', "DEVICE_NEIGHBOR.Ethernet0: .*: has no name"),
        ("astra-network", "topology: [Ring]\nnpus_count: [4]\nbandwidth: [1]", "connects NPUs without a switch"),
        ("astra-network", "topology: [Switch]\nnpus_count: [x]\nbandwidth: [1]", r"npus_count\[0\]: 'x'"),
    ],
)
def test_what_is_no_fabric_is_refused_with_what_is_wrong(kind: str, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(kind, text)


@pytest.mark.parametrize("kind", ["kineto", "flight-recorder", "lldp", "chakra"])
@pytest.mark.parametrize("content", [b'{"a": "\xff"}', b"", b"{", b'{"traceEvents": [1, ', b"\xff\x01\x02"])
def test_what_is_no_json_is_refused_in_plain_words(kind: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "rank0.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        importer(kind)(open_sources([file]), ImportRequest())
    told = str(refused.value).removeprefix(f"{file}: ")
    assert not any(sign in told for sign in ("Error", "\\x", "b'", "\n", str(file)))


@settings(deadline=None, max_examples=examples(50, 300))
@given(kind=st.sampled_from(["slurm", "ns3", "containerlab", "ibnetdiscover", "lldp", "astra-network"]), data=st.data())
def test_damaged_files_are_read_or_refused_in_one_line(kind: str, data: st.DataObject) -> None:
    files = {row[0]: EXAMPLES / row[1][0] for row in reversed(EXAMPLE_FABRICS)}
    text = files[kind].read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(["", "\n", "9", "-1", "[", '"', "x", "\0", "²"])) + text[at + 1 :]
    try:
        imported = read(kind, text)
    except InputError as error:
        assert "\n" not in str(error)
        return
    if imported.fabric is not None:
        fabric(imported)


REAL = [
    ("containerlab", "containerlab/clos01.clab.yml", 2, 1, 2),
    ("slurm", "slurm/topology.conf", 5, 1, 80),
    ("astra-network", "astra-network-analytical/Switch.yml", 1, 1, 16),
]


@pytest.mark.parametrize(("kind", "file", "leaves", "spines", "nics"), REAL)
def test_public_files_are_fabrics(shared_data: Path, kind: str, file: str, leaves: int, spines: int, nics: int) -> None:
    one = fabric(importer(kind)(open_sources([shared_data / file]), ImportRequest()))
    assert (one.n_leaves, one.n_spines, one.n_hosts) == (leaves, spines, nics)
