"""Read a network of another tool in a test, and what a fabric is compared by."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import text_source

EXAMPLES = Path(__file__).parents[5] / "examples" / "fabrics"


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
