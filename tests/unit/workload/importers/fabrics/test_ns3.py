"""Topologies and flows of ns-3, HPCC and SimAI become the same fabrics and flows."""

from __future__ import annotations

import json
import re
from collections import Counter
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.workload.expand import expand
from controller.workload.exporters.ns3 import ns3_flows, ns3_topology
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources, text_source
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.laws import examples
from tests.unit.workload.importers.fabrics.reading import (
    EXAMPLES,
    cables,
    fabric,
    fabrics,
    hosts,
    read,
)


@settings(deadline=None, max_examples=examples(15, 90))
@given(one=fabrics)
def test_ns3_topologies_are_read_back(one: Fabric) -> None:
    again = fabric(read("ns3", "\n".join(ns3_topology(one))))
    number = {switch.name: f"n{one.n_hosts + i}" for i, switch in enumerate(one.switches)}
    assert cables(again) == Counter((number[c.lower], number[c.upper], c.gbps) for c in one.cables)
    assert hosts(again) == Counter((f"n{i}", number[h.leaf], h.gbps) for i, h in enumerate(one.hosts))


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


@settings(deadline=None, max_examples=examples(10, 60))
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
