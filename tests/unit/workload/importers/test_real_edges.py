"""Edges and bytes of public files, against a reading of them that has nothing of the importers."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import parse_fabric
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources


def _imported(kind: str, *files: Path) -> Imported:
    return importer(kind)(open_sources(list(files)), ImportRequest())


def _fabric(imported: Imported) -> Fabric:
    assert imported.fabric is not None
    return parse_fabric(dict(imported.fabric))


def test_a_log_of_two_servers_of_eight_h100s_has_each_ring_edge_with_its_part_of_the_largest_run(
    shared_data: Path,
) -> None:
    file = shared_data / "nccl-logs/p5-2x8h100-v2.22.3.log.gz"
    text = gzip.decompress(file.read_bytes()).decode(errors="replace")
    # Ring 03 : 5 -> 4 -> 12, as each rank tells it.
    edges = set()
    for channel, before, rank, after in re.findall(r"Ring (\d+) : (\d+) -> (\d+) -> (\d+)", text):
        edges |= {(int(channel), int(before), int(rank)), (int(channel), int(rank), int(after))}
    if not edges:
        # Without them, whole rings of rank 0.
        for channel, order in re.findall(r"Channel (\d+)/\d+ :((?: +\d+){16})", text):
            ring = [int(rank) for rank in order.split()]
            edges |= {(int(channel), a, b) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)}
    across = {edge for edge in edges if edge[1] // 8 != edge[2] // 8}
    channels = {edge[0] for edge in edges}
    size = max(int(row) for row in re.findall(r"\s(\d+) +\d+ +float", text))
    imported = _imported("nccl", file)
    flows = imported.job.flows
    assert imported.ranks == 16
    assert len(flows.src) == len(across) == 2 * len(channels)
    assert set(flows.bytes.tolist()) == {-(-2 * 15 * size // (16 * len(channels)))}


def test_a_containerlab_topology_has_each_of_its_cables(shared_data: Path) -> None:
    file = shared_data / "containerlab/clos01.clab.yml"
    document = yaml.safe_load(file.read_text())["topology"]
    ends = [tuple(end.partition(":")[0] for end in row["endpoints"]) for row in document["links"]]
    servers = {name for name, row in document["nodes"].items() if row["kind"] == "linux"}
    one = _fabric(_imported("containerlab", file))
    assert Counter(frozenset((cable.lower, cable.upper)) for cable in one.cables) == Counter(
        frozenset(pair) for pair in ends if not servers & set(pair)
    )
    assert Counter((host.server, host.leaf) for host in one.hosts) == Counter(
        (a, b) if a in servers else (b, a) for a, b in ends if servers & {a, b}
    )


def test_slurms_topology_has_each_node_below_its_switch(shared_data: Path) -> None:
    file = shared_data / "slurm/topology.conf"
    expected: Counter[tuple[str, str]] = Counter()
    for switch, nodes in re.findall(r"^SwitchName=(\S+).*?Nodes=(\S+)", file.read_text(), re.MULTILINE | re.IGNORECASE):
        for name, ranges, single in re.findall(r"([^,\[]+)\[([^]]+)\]|([^,\[\]]+)", nodes):
            if single:
                expected[single, switch] += 1
            for part in ranges.split(",") if ranges else ():
                first, _, last = part.partition("-")
                for i in range(int(first), int(last or first) + 1):
                    expected[f"{name}{i:0{len(first)}d}", switch] += 1
    assert Counter((host.server, host.leaf) for host in _fabric(_imported("slurm", file)).hosts) == expected
