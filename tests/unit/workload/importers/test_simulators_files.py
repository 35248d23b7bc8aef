"""Files of htsim, ASTRA-sim, SimAI, AICB and dcn-simulators themselves: read, put on a fabric that fits, planned."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.job import Job
from controller.planning.make_plan import make_plan
from controller.workload.expand import combine, expand
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.htsim import read
from controller.workload.importers.htsim.topology import write_topology
from controller.workload.importers.placing import on_fabric
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.workload.importers.texts import read_text

# One cached fabric of each size: their tables are most of the time here.
_clos = cache(clos)

MATRICES = [
    # file, nodes, connections, collectives
    ("csg-htsim/one.cm", 16, 1, 1),
    ("csg-htsim/bidir.cm", 16, 2, 1),
    ("csg-htsim/incast.cm", 16, 15, 1),
    ("csg-htsim/outcast_incast.cm", 128, 21, 1),
    ("csg-htsim/perm_16n_16c_2MB.cm", 16, 16, 1),
    ("csg-htsim/perm_32n_32c_2MB.cm", 32, 32, 1),
    ("uet-htsim/alltoall_serial_16n.cm", 16, 240, 15),
]
SHAPES = [
    # file, spines, leaves, hosts a leaf
    ("csg-htsim/leaf_spine_tiny.topo", 2, 4, 8),
    ("uet-htsim/leaf_spine_1024.topo", 32, 32, 32),
    ("uet-htsim/leaf_spine_1024_oversub.topo", 8, 32, 32),
]
WORKLOADS = [
    # file, hosts a leaf of a fabric with four, ranks, groups, collectives
    ("SimAI/microAllReduce.txt", 32, 8, 1, 1),
    ("aicb/all_reduce.txt", 4, 16, 1, 1),
    ("aicb/all_to_all.txt", 4, 16, 1, 1),
    ("aicb/G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1_A100.txt", 32, 128, 24, 72),
    ("aicb/L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1_A100.txt", 32, 128, 66, 258),
]


def _imported(kind: str, *files: Path, **request: Any) -> Imported:
    return importer(kind)(open_sources(files), ImportRequest(**request))


def _planned(fabric: Fabric, job: Job) -> int:
    """Bytes on the network, of a job whose every flow has a path."""
    traffic = expand(fabric, parse_job(document_of(job)))
    plan = make_plan(fabric, combine([traffic]), policy="fair", clock=time.perf_counter)
    assert not len(plan.unroutable)
    assert plan.gap is not None
    assert plan.gap >= -1e-9
    return int(traffic.bytes.sum())


@pytest.mark.parametrize(("file", "nodes", "connections", "collectives"), MATRICES)
def test_htsims_connection_matrices_are_planned(
    shared_data: Path, file: str, nodes: int, connections: int, collectives: int
) -> None:
    imported = _imported("htsim", shared_data / file)
    assert (imported.ranks, len(imported.job.flows.src), imported.collectives) == (nodes, connections, collectives)
    fabric = _clos(2, 4, nodes // 4)
    assert _planned(fabric, on_fabric(imported, fabric, None)) == connections * 2_000_000


@pytest.mark.parametrize(("file", "spines", "leaves", "hosts"), SHAPES)
def test_htsims_leaf_spine_topologies_are_fabrics(
    shared_data: Path, file: str, spines: int, leaves: int, hosts: int
) -> None:
    imported = _imported("htsim", shared_data / file)
    assert imported.fabric is not None
    assert parse_fabric(dict(imported.fabric)).version == _clos(spines, leaves, hosts).version


def test_a_matrix_is_planned_on_its_topology(shared_data: Path) -> None:
    folder = shared_data / "csg-htsim"
    imported = _imported("htsim", folder / "perm_32n_32c_2MB.cm", folder / "leaf_spine_tiny.topo")
    assert imported.fabric is not None
    assert _planned(parse_fabric(dict(imported.fabric)), imported.job) == 32 * 2_000_000


@pytest.mark.parametrize(
    ("file", "fabric"),
    [
        ("csg-htsim/fat_tree_1024.topo", pod_clos(16, 8, 8, 8, 8)),
        ("uet-htsim/fat_tree_128_1os.topo", pod_clos(8, 4, 4, 4, 4)),
        ("astra-sim/8nodes.topo", pod_clos(2, 2, 2, 2, 2, host_gbps=200, uplink_gbps=200, core_parallel=2)),
    ],
)
def test_htsims_topologies_of_three_tiers_are_fabrics_and_written_back(
    shared_data: Path, file: str, fabric: Fabric
) -> None:
    imported = _imported("htsim", shared_data / file)
    assert imported.fabric is not None
    assert parse_fabric(dict(imported.fabric)) == fabric
    again = read_text(read, write_topology(fabric))
    assert again.fabric == imported.fabric


@pytest.mark.parametrize(("file", "hosts", "ranks", "groups", "collectives"), WORKLOADS)
def test_simais_and_aicbs_workloads_are_planned(
    shared_data: Path, file: str, hosts: int, ranks: int, groups: int, collectives: int
) -> None:
    fabric = _clos(4, 4, hosts)
    imported = _imported("aicb", shared_data / file, fabric=fabric)
    assert (imported.ranks, imported.groups, imported.collectives) == (ranks, groups, collectives)
    assert _planned(fabric, on_fabric(imported, fabric, None)) > 0


@pytest.mark.parametrize("folder", ["concurrent_jobs_1", "concurrent_jobs_3", "concurrent_jobs_5"])
def test_dcn_simulators_jobs_are_planned_beside_each_other(shared_data: Path, folder: str) -> None:
    """Every job is on the hosts and leaves that its file names; an edge carries 2 (n - 1) steps."""
    fabric = _clos(32, 64, 32)
    root = shared_data / "dcn-simulators"
    for sizes in sorted((root / folder).iterdir()):
        jobs = []
        for file in sorted(sizes.iterdir()):
            imported = _imported("traffic-pairs", file, root / "topology.properties", fabric=fabric)
            assert imported.placed
            rows = [line.split() for line in file.read_text().splitlines()[1:]]
            n = len(imported.job.collectives[0].ranks)
            jobs.append(expand(fabric, imported.job, jobs))
            assert jobs[-1].n_flows == len(rows)
            assert int(jobs[-1].bytes.sum()) == sum(2 * (n - 1) * int(row[5]) for row in rows)
        plan = make_plan(fabric, combine(jobs), policy="fair", clock=time.perf_counter)
        assert not len(plan.unroutable)
