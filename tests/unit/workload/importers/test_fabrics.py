"""Networks as other tools describe them become the same fabrics, or are refused with the switch that does not fit."""

from __future__ import annotations

import json
import re
from collections import Counter
from math import ceil
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.workload.expand import expand
from controller.workload.exporters.containerlab import containerlab_document
from controller.workload.exporters.ns3 import ns3_flows, ns3_topology
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.fabrics.slurm import expand as names_of
from controller.workload.importers.fields import SourceLine
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job

EXAMPLES = Path(__file__).parents[4] / "examples" / "fabrics"


def read(kind: str, *texts: str, names: tuple[str, ...] = (), **request: object) -> Imported:
    sources = [text_source(names[i] if names else f"file{i}", text) for i, text in enumerate(texts)]
    return importer(kind)(sources, ImportRequest(**request))  # type: ignore[arg-type]


def fabric(imported: Imported) -> Fabric:
    assert imported.fabric is not None
    return parse_fabric(dict(imported.fabric))


def cables(one: Fabric) -> Counter[tuple[str, str, float]]:
    return Counter((cable.lower, cable.upper, cable.gbps) for cable in one.cables)


def hosts(one: Fabric) -> Counter[tuple[str, str, float]]:
    return Counter((host.name, host.leaf, host.gbps) for host in one.hosts)


fabrics = st.builds(
    clos,
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 6),
    host_gbps=st.sampled_from([10.0, 100.0, 2.5]),
    uplink_gbps=st.sampled_from([40.0, 400.0]),
    parallel=st.integers(1, 3),
)


@settings(deadline=None, max_examples=30)
@given(one=fabrics)
def test_ns3_topologies_are_read_back(one: Fabric) -> None:
    again = fabric(read("ns3", "\n".join(ns3_topology(one))))
    number = {switch.name: f"n{one.n_hosts + i}" for i, switch in enumerate(one.switches)}
    assert cables(again) == Counter((number[c.lower], number[c.upper], c.gbps) for c in one.cables)
    assert hosts(again) == Counter((f"n{i}", number[h.leaf], h.gbps) for i, h in enumerate(one.hosts))


@settings(deadline=None, max_examples=30)
@given(one=fabrics)
def test_containerlab_topologies_are_read_back_but_for_their_speeds(one: Fabric) -> None:
    again = fabric(read("containerlab", yaml.safe_dump(containerlab_document(one)), gbps=7.0))
    assert cables(again) == Counter((cable.lower, cable.upper, 7.0) for cable in one.cables)
    assert Counter(host.leaf for host in again.hosts) == Counter(host.leaf for host in one.hosts)
    assert {(host.server, host.leaf) for host in again.hosts} == {(host.server, host.leaf) for host in one.hosts}


def test_servers_of_several_nics_keep_their_rails_in_containerlab() -> None:
    one = clos(2, 4, 2, nics_per_server=4, rail_optimized=True)
    again = fabric(read("containerlab", yaml.safe_dump(containerlab_document(one))))
    assert {(h.server, h.rail, h.leaf) for h in again.hosts} == {(h.server, h.rail, h.leaf) for h in one.hosts}


def test_flows_for_ns3_are_read_back_with_their_topology() -> None:
    one = clos(2, 2, 4)
    flows = [{"src": "h1", "dst": "h5", "bytes": 10}, {"src": "h6", "dst": "h2", "bytes": 20}]
    traffic = expand(one, parse_job({"name": "a", "flows": flows}))
    again = read("ns3", "\n".join(ns3_topology(one)), "\n".join(ns3_flows([traffic])))
    assert again.placed
    job = parse_job(document_of(again.job))
    assert list(zip(job.flows.src, job.flows.dst, job.flows.bytes.tolist(), strict=True)) == [
        ("n0", "n4", 10),
        ("n5", "n1", 20),
    ]
    expand(fabric(again), job)


def test_phases_are_a_file_each_for_ns3() -> None:
    flows = [{"src": "h1", "dst": "h2", "bytes": 1, "collective": name} for name in ("a", "b")]
    traffic = expand(clos(1, 2, 1), parse_job({"name": "x", "flows": flows, "phases": {"b": 1}}))
    with pytest.raises(InputError, match=r"phase: the jobs have phases \[0, 1\]"):
        list(ns3_flows([traffic]))
    assert list(ns3_flows([traffic], 1)) == ["1", "0 1 3 100 1 2"]
    with pytest.raises(InputError, match="phase: 7: no flow crosses the network in this phase"):
        list(ns3_flows([traffic], 7))


# Leaves, spines, hosts and what all cables have together, counted by hand.
EXAMPLE_FABRICS = [
    ("slurm", ["topology.conf"], 2, 1, 6, 200.0),
    ("containerlab", ["lab.clab.yml"], 2, 2, 4, 400.0),
    ("ibnetdiscover", ["ibnetdiscover.txt"], 2, 1, 4, 400.0),
    ("astra-network", ["astra-network.yaml"], 4, 1, 8, 3200.0),
    ("ns3", ["ns3-topology.txt"], 2, 1, 4, 800.0),
    ("lldp", ["lldp/leaf1.json", "lldp/leaf2.json", "lldp/spine1.json"], 2, 1, 4, 200.0),
    ("lldp", ["sonic/leaf1.json", "sonic/leaf2.json"], 2, 1, 4, 800.0),
    ("ptm", ["topology.dot"], 2, 1, 4, 200.0),
    ("netq", ["netq.json"], 2, 1, 4, 200.0),
    ("cabling", ["cabling.csv"], 2, 1, 4, 800.0),
]


@pytest.mark.parametrize(("kind", "files", "leaves", "spines", "nics", "gbps"), EXAMPLE_FABRICS)
def test_the_examples_are_the_fabrics_that_they_describe(
    kind: str, files: list[str], leaves: int, spines: int, nics: int, gbps: float
) -> None:
    paths = [EXAMPLES / file for file in files]
    one = fabric(importer(kind)(open_sources(paths), ImportRequest()))
    assert (one.n_leaves, one.n_spines, one.n_hosts) == (leaves, spines, nics)
    assert sum(cable.gbps for cable in one.cables) == gbps
    assert {row.format for row in guess(open_sources(paths))} == {kind}


def _sonic(name: str) -> dict[str, dict[str, dict[str, str]]]:
    document: dict[str, dict[str, dict[str, str]]] = json.loads((EXAMPLES / "sonic" / f"{name}.json").read_text())
    return document


def _lldp(*documents: object) -> Imported:
    sources = [text_source(f"{i}.json", json.dumps(document)) for i, document in enumerate(documents)]
    return importer("lldp")(sources, ImportRequest())


def test_a_dump_of_sonics_database_and_its_older_neighbours_are_the_same_fabric() -> None:
    leaves = [_sonic("leaf1"), _sonic("leaf2")]
    expected = fabric(_lldp(*leaves)).version
    dumps = [
        {f"{table}|{key}": {"type": "hash", "value": row} for table, rows in leaf.items() for key, row in rows.items()}
        for leaf in leaves
    ]
    assert fabric(_lldp(*dumps)).version == expected
    assert [row.format for row in guess([text_source("a", json.dumps(dumps[0]))])] == ["lldp"]
    older = [
        {
            **leaf,
            "DEVICE_NEIGHBOR_METADATA": {},
            "DEVICE_NEIGHBOR": {
                row["name"]: {
                    "local_port": port,
                    "port": row["port"],
                    "type": leaf["DEVICE_NEIGHBOR_METADATA"][row["name"]]["type"],
                }
                for port, row in leaf["DEVICE_NEIGHBOR"].items()
            },
        }
        for leaf in leaves
    ]
    assert fabric(_lldp(*older)).version == expected


def test_a_neighbour_without_a_description_is_a_switch_by_its_port_or_a_warning() -> None:
    leaves = [{**_sonic(name), "DEVICE_NEIGHBOR_METADATA": {}} for name in ("leaf1", "leaf2")]
    found = _lldp(*leaves)
    assert {spine.name for spine in fabric(found).spines} == {"spine1"}
    assert found.warnings[0].startswith("the kind of 4 neighbours is unknown, gpu1, gpu2, gpu3 ..: they are assumed")
    assert _lldp(_sonic("leaf1"), _sonic("leaf2")).warnings == ()


def test_infiniband_adapters_of_one_server_are_its_rails() -> None:
    one = fabric(importer("ibnetdiscover")(open_sources([EXAMPLES / "ibnetdiscover.txt"]), ImportRequest()))
    assert {(h.name, h.server, h.rail, h.leaf, h.gbps) for h in one.hosts} == {
        (f"gpu{s}-mlx5_{r}", f"gpu{s}", r, f"leaf{r + 1}", 200.0) for s in (1, 2) for r in (0, 1)
    }


TREE = """- topology: other
  block: {block_sizes: [4], blocks: [{block: b1, nodes: "n[1-4]"}]}
- topology: used
  cluster_default: true
  tree:
    switches:
      - {switch: root, children: "s[1-2]"}
      - {switch: s1, nodes: "n[01-02]"}
      - {switch: s2, nodes: "n[03-04],m1"}
"""
BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-6]\nBlockSizes=2,4\n"


@pytest.mark.parametrize(
    ("text", "leaves", "warning"),
    [
        (TREE, {"s1": ["n01", "n02"], "s2": ["n03", "n04", "m1"]}, "the file has no cables"),
        (TREE.replace("true", "false"), {"b1": [f"n{i}" for i in range(1, 5)]}, "the file has 1 blocks"),
        (BLOCKS, {"b1": [f"n{i}" for i in range(1, 5)], "b2": ["n5", "n6"]}, "the file has 2 blocks"),
    ],
)
def test_topologies_of_slurm_in_yaml_and_of_blocks_are_leaves(
    text: str, leaves: dict[str, list[str]], warning: str
) -> None:
    imported = read("slurm", text)
    below: dict[str, list[str]] = {}
    for host in fabric(imported).hosts:
        below.setdefault(host.leaf, []).append(host.name)
    assert below == leaves
    assert warning in imported.warnings[0]
    assert [row.format for row in guess([text_source("topology", text)])] == ["slurm"]


@pytest.mark.parametrize("image", ["quay.io/frrouting/frr:10.5.1", "docker-sonic-vs", "vyos/vyos:1.5", "my-frr"])
def test_routers_that_containerlab_runs_as_linux_are_switches(image: str) -> None:
    text = f"""
topology:
  kinds: {{linux: {{image: multitool}}}}
  groups: {{routers: {{kind: linux, image: "{image}"}}}}
  nodes: {{leaf1: {{group: routers}}, spine1: {{group: routers}}, pc1: {{kind: linux}}}}
  links:
    - endpoints: [leaf1:eth1, spine1:eth1]
    - endpoints: [pc1:eth1, leaf1:eth2]
"""
    one = fabric(read("containerlab", text))
    assert ([s.name for layer in one.layers for s in layer], [h.name for h in one.hosts]) == (
        ["leaf1", "spine1"],
        ["pc1"],
    )


@st.composite
def subnets(draw: st.DrawFn) -> tuple[str, str, Counter[tuple[int, ...]], bool]:
    """A subnet as ``ibnetdiscover`` prints it, and with ``-p``; the leaves of each server; whether all have names."""
    n_leaves = draw(st.integers(2, 16))
    kinds = draw(st.lists(st.sampled_from(["named", "factory", "localhost", "twice"]), max_size=8))
    servers = [[f"full{leaf} mlx5_0"] for leaf in range(n_leaves)]
    for number, kind in enumerate(kinds):
        described = {
            "named": [f"gpu{number} mlx5_{i}" for i in range(draw(st.integers(1, 12)))],
            "factory": ["MT4129 ConnectX7   Mellanox Technologies"] * 2,
            "localhost": [f"localhost HCA-{i}" for i in range(2)],
            "twice": ["node mlx5_0", "node mlx5_1"],
        }
        servers.append(described[kind])
    spine, ups, adapters = f"{1 << 20:016x}", [], []
    expected: Counter[tuple[int, ...]] = Counter()
    ports = [f"SW 1 41 0x{leaf:016x} 4x ???                      'leaf{leaf}'" for leaf in range(n_leaves)]
    for leaf in range(n_leaves):
        ups.append(f'Switch 41 "S-{leaf:016x}" # "leaf{leaf}" enhanced port 0 lid 1 lmc 0')
        ups.append(f'[40] "S-{spine}"[{leaf}] # "spine" lid 2 4xHDR')
        ports.append(f"SW 1 40 0x{leaf:016x} 4x HDR - SW 2 {leaf} 0x{spine} ( 'leaf{leaf}' - 'spine' )")
    for system, names in enumerate(servers):
        leaves = [
            system if len(names) == 1 and system < n_leaves else draw(st.integers(0, n_leaves - 1)) for _ in names
        ]
        expected[tuple(sorted(leaves))] += 1
        for i, (leaf, text) in enumerate(zip(leaves, names, strict=True)):
            guid = f"{system << 8 | i | 1 << 30:016x}"
            adapters += [
                f"sysimgguid=0x{system:016x}",
                f"caguid=0x{guid}",
                f'Ca 1 "H-{guid}" # "{text}"',
                f'[1]({guid}) "S-{leaf:016x}"[{system * 12 + i}] # lid 9 lmc 0 "leaf{leaf}" lid 1 4xHDR',
            ]
            ports.append(f"CA 9 1 0x{guid} 4x HDR - SW 1 {system * 12 + i} 0x{leaf:016x} ( '{text}' - 'leaf{leaf}' )")
    named = not {"factory", "localhost"} & {*kinds} and kinds.count("twice") < 2
    whole = [*ups, f'Switch 41 "S-{spine}" # "spine" enhanced port 0 lid 2 lmc 0', *adapters]
    return "\n".join(whole), "\n".join(ports), expected, named


@settings(deadline=None, max_examples=40)
@given(drawn=subnets())
def test_adapters_are_in_the_server_that_their_names_or_else_their_systems_say(
    drawn: tuple[str, str, Counter[tuple[int, ...]], bool],
) -> None:
    whole, by_port, expected, named = drawn
    imported = read("ibnetdiscover", whole)
    below: dict[str, list[int]] = {}
    for host in fabric(imported).hosts:
        below.setdefault(host.server, []).append(int(host.leaf.removeprefix("leaf")))
    assert Counter(tuple(sorted(leaves)) for leaves in below.values()) == expected
    assert named == (not imported.warnings)
    # The lines of ports say nothing of systems.
    again = read("ibnetdiscover", by_port)
    assert cables(fabric(again)) == cables(fabric(imported))
    assert Counter((host.name, host.leaf) for host in fabric(again).hosts) == Counter(
        (host.name, host.leaf) for host in fabric(imported).hosts
    )
    assert named == (not again.warnings)


def test_a_server_below_more_leaves_than_it_has_adapters_is_refused() -> None:
    rows = []
    for leaf in range(17):
        rows.append(f'Switch 41 "S-{leaf}" # "leaf{leaf}" enhanced port 0 lid 1 lmc 0')
        rows.append(f'[40] "S-99"[{leaf}] # "spine" lid 2 4xHDR')
        rows.append(f'Ca 1 "H-{leaf}" # "gpu mlx5_{leaf}"')
        rows.append(f'[1](1) "S-{leaf}"[1] # lid 9 lmc 0 "leaf{leaf}" lid 1 4xHDR')
    rows.append('Switch 41 "S-99" # "spine" enhanced port 0 lid 2 lmc 0')
    with pytest.raises(InputError, match=r"file0: 'gpu': the adapters of this server are below 17 switches"):
        read("ibnetdiscover", "\n".join(rows))


def test_npus_of_one_server_are_rails_with_a_switch_each() -> None:
    one = fabric(importer("astra-network")(open_sources([EXAMPLES / "astra-network.yaml"]), ImportRequest()))
    assert {(h.server, h.rail, h.leaf, h.gbps) for h in one.hosts} == {
        (f"server{s}", r, f"leaf{r + 1}", 400.0) for s in range(2) for r in range(4)
    }


def test_simais_nvswitches_are_no_part_of_the_network() -> None:
    head = ["9 2 2 3 8 H100", "4 5 6 7 8"]
    nvlinks = [f"{gpu} {4 + gpu // 2} 2880Gbps 0.000025ms 0" for gpu in range(4)]
    links = ["0 6 400Gbps 1us 0", "2 6 400Gbps 1us 0", "1 7 400Gbps 1us 0", "3 7 400Gbps 1us 0"]
    up = ["6 8 800Gbps 1us 0", "7 8 800Gbps 1us 0"]
    text = "\n".join([head[0].replace(" 8 H", " 10 H"), head[1], *nvlinks, *links, *up])
    one = fabric(read("ns3", text))
    assert (one.n_leaves, one.n_spines) == (2, 1)
    assert {(h.name, h.server, h.rail, h.leaf) for h in one.hosts} == {
        (f"n{gpu}", f"server{gpu // 2}", gpu % 2, f"n{6 + gpu % 2}") for gpu in range(4)
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ["a"]),
        ("a[1-3,07]", ["a1", "a2", "a3", "a07"]),
        ("n[09-11],m", ["n09", "n10", "n11", "m"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
    ],
)
def test_slurms_lists_of_names_are_written_out(text: str, expected: list[str]) -> None:
    assert names_of(SourceLine(text_source("x", ""), 1), text) == expected


@pytest.mark.parametrize("text", ["a[1-", "a[3-1]", "a[x]", "a[1-99999999]", "a[1-99999]b[1-99999]"])
def test_lists_of_names_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="x: line 1"):
        names_of(SourceLine(text_source("x", ""), 1), text)


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


@settings(deadline=None, max_examples=20)
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


LEAF = [("swp1", "gpu{n}", "52:54:00:00:00:0{n}", "Ubuntu 22.04"), ("swp49", "spine1", "swp{n}", "Cumulus Linux 5.6")]
SERVER = [("eth0", "leaf{n}", "swp1", "Cumulus Linux 5.6")]


def lldp(rows: list[tuple[str, str, str, str]], n: int, form: str) -> str:
    """Neighbours of the ``n``-th node as ``lldpcli`` writes them in this form."""
    found: list[dict[str, object]] = []
    for port, peer, there, system in ([text.format(n=n) for text in row] for row in rows):
        identity = {"type": "mac", "value": f"id of {peer}"}
        if form == "json0":
            chassis = {"id": [identity], "name": [{"value": peer}], "descr": [{"value": system}]}
            found.append({"name": port, "chassis": [chassis], "port": [{"id": [{"type": "x", "value": there}]}]})
        else:
            about = {"id": identity, "descr": system}
            one = {peer: about} if form == "json" else about
            found.append({port: {"chassis": one, "port": {"id": {"type": "x", "value": there}}}})
    whole = {"interface": found}
    return json.dumps({"lldp": [whole] if form == "json0" else whole})


@pytest.mark.parametrize("form", ["json", "json0", "json without names"])
def test_both_of_lldpclis_json_forms_are_read(form: str) -> None:
    one = fabric(read("lldp", *(lldp(LEAF, n, form) for n in (1, 2)), names=("leaf1.json", "leaf2.json")))
    assert (one.n_leaves, one.n_spines, one.n_hosts, len(one.cables)) == (2, 1, 2, 2)


def test_a_cable_counts_once_whose_ends_are_called_differently() -> None:
    """A server names its port by its interface, and tells the switch the port's MAC address."""
    texts = [lldp(LEAF, 1, "json"), lldp(LEAF, 2, "json"), lldp(SERVER, 1, "json"), lldp(SERVER, 2, "json")]
    names = ("leaf1.json", "leaf2.json", "gpu1.json", "gpu2.json")
    for order in ([0, 1, 2, 3], [2, 3, 0, 1], [0, 2, 1, 3]):
        one = fabric(read("lldp", *(texts[i] for i in order), names=tuple(names[i] for i in order)))
        assert (one.n_hosts, len(one.cables)) == (2, 2)


SIMAI = """5 1 0 3 4 H100
2 3 4
0 2 100Gbps 1us 0
1 3 100Gbps 1us 0
2 4 100Gbps 1us 0
3 4 100Gbps 1us 0
"""


@pytest.mark.parametrize(
    "head", ["5 3 4", "5 3 2 4", "5 3 2 4 100000000000 100000000000", "5 1 0 3 4 H100", "5 1 0 3 4 H100 8"]
)
def test_all_heads_of_an_ns3_topology_mean_the_same_network(head: str) -> None:
    text = SIMAI.replace("5 1 0 3 4 H100", head)
    one = fabric(read("ns3", text))
    assert (one.n_leaves, one.n_spines, one.n_hosts, len(one.cables)) == (2, 1, 2, 2)
    assert [row.format for row in guess([text_source("topology", text)])] == ["ns3"]


@pytest.mark.parametrize(
    ("rate", "gbps"),
    [
        ("100Gbps", 100.0),
        ("100gbps", 100.0),
        ("25Gb/s", 25.0),
        ("10GBps", 80.0),
        ("1Tbps", 1000.0),
        ("400000Mbps", 400.0),
        ("100000000000", 100.0),
        ("1e11", 100.0),
        ("1e11bps", 100.0),
        ("1Gib/s", 1.073741824),
    ],
)
def test_rates_of_ns3_are_those_of_its_data_rate(rate: str, gbps: float) -> None:
    one = fabric(read("ns3", SIMAI.replace("100Gbps", rate)))
    assert [cable.gbps for cable in one.cables] == [pytest.approx(gbps)] * 2


@pytest.mark.parametrize("rate", ["100G", "Gbps", "0Gbps", "-5Gbps", "nanGbps", "1e30Gbps", "100Qbps", "10gBpsx"])
def test_what_is_no_rate_is_refused_with_its_line(rate: str) -> None:
    with pytest.raises(InputError, match=r"file0: line 3: .*rate") as error:
        read("ns3", SIMAI.replace("100Gbps", rate, 1))
    assert "\n" not in str(error.value)


def test_links_and_flows_beyond_the_announced_ones_are_left_out_as_in_the_simulation() -> None:
    imported = read(
        "ns3", f"{SIMAI}\nFirst line: nodes, switches\n3 4 100Gbps 1us 0\n...\n", "1\n0 1 3 7 2\n0 1 3 9 2\n"
    )
    assert len(fabric(imported).cables) == 2
    assert imported.job.flows.bytes.tolist() == [7]
    assert [warning.partition(":")[0] for warning in imported.warnings] == ["file0", "file1"]
    assert "4 links are announced, but 1 further lines look like links" in imported.warnings[0]


def test_a_single_switch_gets_a_spine_that_no_flow_uses() -> None:
    imported = read("ns3", "4 1 3\n3\n0 3 25Gbps 1us 0\n1 3 25Gbps 1us 0\n2 3 25Gbps 1us 0\n")
    one = fabric(imported)
    assert (one.n_leaves, one.n_spines, one.n_hosts) == (1, 1, 3)
    assert imported.warnings == ("there is one switch, n3: 'spine' is added above it, and no flow uses it",)


@settings(deadline=None, max_examples=20)
@given(sizes=st.lists(st.integers(1, 2**40), min_size=1, max_size=4), scale=st.sampled_from([1.0, 0.5, 2.0**-8]))
def test_flows_that_the_simulations_cannot_read_are_scaled_or_refused(sizes: list[int], scale: float) -> None:
    flows = [{"src": "h1", "dst": "h2", "bytes": size} for size in sizes]
    traffic = expand(clos(1, 2, 1), parse_job({"name": "a", "flows": flows}))
    scaled = [ceil(size * scale) for size in sizes]
    if max(scaled) >= 2**32:
        with pytest.raises(InputError, match="flows have at most 4294967295 bytes, a/") as error:
            list(ns3_flows([traffic], scale=scale))
        proposed = float(re.findall(r"by (\S+) or less", str(error.value))[0])
        assert list(ns3_flows([traffic], scale=proposed))
    else:
        assert [int(line.split()[4]) for line in [*ns3_flows([traffic], scale=scale)][1:]] == scaled


def test_flows_of_a_node_with_several_cables_are_refused() -> None:
    text = SIMAI.replace("5 1 0 3 4", "5 1 0 3 5") + "0 3 100Gbps 1us 0\n"
    with pytest.raises(InputError, match="file1: 0: this node has several cables"):
        read("ns3", text, "1\n0 1 3 100 1000 0\n")


@pytest.mark.parametrize("kind", ["kineto", "flight-recorder", "lldp", "chakra"])
@pytest.mark.parametrize("content", [b'{"a": "\xff"}', b"", b"{", b'{"traceEvents": [1, ', b"\xff\x01\x02"])
def test_what_is_no_json_is_refused_in_plain_words(kind: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "rank0.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        importer(kind)(open_sources([file]), ImportRequest())
    told = str(refused.value).removeprefix(f"{file}: ")
    assert not any(sign in told for sign in ("Error", "\\x", "b'", "\n", str(file)))


@settings(deadline=None, max_examples=100)
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


def test_hpccs_files_are_read_as_its_simulation_reads_them(shared_data: Path) -> None:
    one = fabric(importer("ns3")(open_sources([shared_data / "ns3/hpcc-fat.txt"]), ImportRequest()))
    assert [len(layer) for layer in one.layers] == [20, 20, 16]
    assert (one.n_hosts, len(one.cables), len(one.pod_names)) == (320, 20 * 4 + 20 * 4, 5)
    imported = importer("ns3")(open_sources([shared_data / "ns3/hpcc-flow.txt"]), ImportRequest())
    assert imported.job.flows.bytes.tolist() == [200_000_000, 200_000_000]
    assert "2 flows are announced, but 254 further lines look like flows" in imported.warnings[0]


def test_a_fabric_goes_to_standard_output_where_no_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    from controller.cli.main import main

    with pytest.raises(SystemExit) as end:
        main(["import", "ns3", str(EXAMPLES / "ns3-topology.txt")])
    assert not end.value.code
    parse_fabric(json.loads(capsys.readouterr().out))


def test_the_report_of_a_fabric_counts_it_in_json_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from controller.cli.main import main

    with pytest.raises(SystemExit) as end:
        main(
            ["import", "ns3", str(EXAMPLES / "ns3-topology.txt"), "--out", str(tmp_path / "f.json"), "--format", "json"]
        )
    assert not end.value.code
    assert json.loads(capsys.readouterr().out)["fabric"] == {"leaves": 2, "spines": 1, "hosts": 4, "cables": 2}


def test_the_example_of_hpccs_simulation_is_read(shared_data: Path) -> None:
    """It announces the links of one switch, and has others and a text behind them."""
    one = fabric(importer("ns3")(open_sources([shared_data / "wave3/ns3_alibaba-edu_topology.txt"]), ImportRequest()))
    assert (one.n_leaves, one.n_hosts) == (1, 65)
    assert {host.gbps for host in one.hosts} == {100.0}
