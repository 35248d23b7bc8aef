"""Ranks are placed at the NICs that are nearest to their GPUs in an NCCL topology."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.expand import expand
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.nccl_topology import Rails
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.job_file import parse_job
from controller.workload.placement.gpu_placement import by_method, in_order
from controller.workload.placement.placement import Method, crossing_of
from tests.unit.laws import examples

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_ranks_that_share_a_nic_become_flows_between_nics() -> None:
    fabric = clos(2, 2, 2, nics_per_server=2)
    files = [EXAMPLES / "nccl-tests" / "all_reduce.txt"]
    imported = importer("nccl-tests")(open_sources(files), ImportRequest())
    # Four ranks in a ring on two servers of two GPUs, which share the first NIC: two edges cross.
    job = in_order(imported.job, fabric, Rails((0, 0), 2))
    assert Counter(zip(job.flows.src, job.flows.dst, job.flows.bytes.tolist(), strict=True)) == Counter(
        {("h1", "h3", 6 * 1048576): 1, ("h3", "h1", 6 * 1048576): 1}
    )
    own = in_order(imported.job, fabric, Rails((1, 0), 2))
    assert own.hosts == ("h2", "h1", "h4", "h3")
    assert own.collectives == imported.job.collectives
    with pytest.raises(InputError, match="need 4 servers; 2 are free"):
        in_order(imported.job, fabric, Rails((0,), 1))
    with pytest.raises(InputError, match="has no NIC on rail 5"):
        in_order(imported.job, fabric, Rails((5, 0), 6))


@settings(deadline=None, max_examples=examples(20, 120))
@given(
    nic=st.permutations(range(4)),
    ranks=st.integers(1, 4).map(lambda blocks: 4 * blocks),
    method=st.sampled_from(["packed", "scattered", "random"]),
    seed=st.integers(0, 9),
    rail_optimized=st.booleans(),
)
def test_each_rank_is_on_its_gpus_rail_and_servers_hold_ranks_in_a_row(
    nic: list[int], ranks: int, method: Method, seed: int, rail_optimized: bool
) -> None:
    fabric = clos(2, 4, 4, nics_per_server=4, rail_optimized=rail_optimized)
    call = {"name": "c", "op": "all_reduce", "bytes": 10**6, "ranks": list(range(ranks))}
    job = parse_job({"name": "j", "hosts": [f"r{i}" for i in range(ranks)], "collectives": [call]})
    placed = by_method(job, fabric, Rails(tuple(nic), 4), method, seed)
    hosts = [fabric.hosts[fabric.host_index[name]] for name in placed.hosts]
    assert [host.rail for host in hosts] == [nic[i % 4] for i in range(ranks)]
    servers = [host.server for host in hosts]
    assert all(servers[i] == servers[i - i % 4] for i in range(ranks))
    assert len(set(servers)) == ranks // 4
    assert placed.collectives == job.collectives


def test_packed_ranks_behind_shared_nics_cross_no_more_than_scattered_ones() -> None:
    fabric = clos(2, 4, 8, nics_per_server=2)
    calls = [
        {"name": f"c{i}", "op": "all_reduce", "bytes": 10**6, "ranks": list(range(8 * i, 8 * i + 8))} for i in range(4)
    ]
    job = parse_job({"name": "j", "hosts": [f"r{i}" for i in range(32)], "collectives": calls})
    rails = Rails((0, 0, 1, 1), 2)
    packed, scattered = (by_method(job, fabric, rails, method) for method in ("packed", "scattered"))
    # A group of eight is two servers of four GPUs: both are under one leaf, or each ring crosses twice.
    assert crossing_of(fabric, packed).cross_leaf == 0
    assert crossing_of(fabric, packed).network == 4 * 2 * 2 * 7 * 10**6 // 8
    assert crossing_of(fabric, scattered).cross_leaf == crossing_of(fabric, scattered).network
    assert expand(fabric, packed).n_flows == 8
    with pytest.raises(InputError, match="needs 8 servers with 4 NICs each"):
        by_method(job, fabric, Rails((0, 1, 2, 3), 4), "packed")


def test_the_place_command_takes_a_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric, job, out = (tmp_path / name for name in ("fabric.yaml", "job.json", "out.json"))
    fabric.write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 4, nics_per_server: 2}\n")
    call = {"name": "c", "op": "all_reduce", "bytes": 10**6, "ranks": list(range(8))}
    job.write_text(json.dumps({"name": "j", "hosts": [f"r{i}" for i in range(8)], "collectives": [call]}))
    topology = EXAMPLES / "nccl" / "topology.xml"
    arguments = ["job", "place", "--job", str(job), "--fabric", str(fabric), "--out", str(out)]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--topology", str(topology)])
    assert not end.value.code
    # Two servers of four GPUs and two NICs, under one leaf: the ring leaves by the second NIC and enters by the first.
    assert [(row["src"], row["dst"]) for row in json.loads(out.read_text())["flows"]].count(("h2", "h3")) == 1
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--topology", str(job)])
    assert end.value.code == 2
    assert f"fairspine: {job}: is not XML" in capsys.readouterr().err
