"""Files as other projects write them, made here by their formats' public descriptions: recognised, imported, planned.

The projects' own files are not part of the repository (``shared_data``); with these, every clone tries every importer
as a user does.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import FORMATS
from controller.workload.importers.streams import open_sources
from tests.unit.workload.importers.traces.small_traces import ALL_REDUCE, COLLECTIVE, et, node
from tests.unit.workload.importers.traces.xplanes import Instruction, Run, profile, shape

SPINES, LEAVES, HOSTS = 2, 4, 4
FABRIC = f"clos: {{spines: {SPINES}, leaves: {LEAVES}, hosts_per_leaf: {HOSTS}, host_gbps: 100, uplink_gbps: 100}}\n"
BYTES = 1_000_000
ROOT = Path(__file__).parents[4]


def matrix(ranks: int) -> dict[str, bytes]:
    """Return htsim's connection matrix of a ring."""
    rows = [f"{rank}->{(rank + 1) % ranks} id {rank + 1} start 0 size {BYTES}" for rank in range(ranks)]
    return {"ring.cm": "\n".join([f"Nodes {ranks}", f"Connections {ranks}", *rows, ""]).encode()}


def workload(ranks: int) -> dict[str, bytes]:
    """Return AICB's workload of one all-reduce in groups of tensor parallelism that are all ranks."""
    head = (
        f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {ranks} ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: {ranks} "
        "checkpoints: 0 checkpoint_initiates: 0"
    )
    return {"workload.txt": f"{head}\n1\nlayer -1 1 ALLREDUCE {BYTES} 1 NONE 0 1 NONE 0 1\n".encode()}


def execution_traces(ranks: int) -> dict[str, bytes]:
    """Return Chakra's execution traces of one all-reduce."""
    call = node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=BYTES, involved_dim=[True])
    return {f"all_reduce.{rank}.et": et(call) for rank in range(ranks)}


def traffic_pairs(ranks: int) -> dict[str, bytes]:
    """Return a traffic file of dcn-simulators, where hosts have numbers behind those of leaves and spines."""
    first = LEAVES + SPINES
    rows = [
        f"{first + rank} {first + to} {rank // HOSTS} {to // HOSTS} 0 {BYTES} 0 0"
        for rank, to in ((rank, (rank + 1) % ranks) for rank in range(ranks))
    ]
    head = "#src dst src_tor dst_tor start_time flow_size compute_time stage_index"
    return {"job_0.txt": "\n".join([head, *rows, ""]).encode()}


def jax_profile(ranks: int) -> dict[str, bytes]:
    """Return a profile of JAX with one all-reduce."""
    run = Run([Instruction("all-reduce.1", "all-reduce", shape(BYTES))], ranks, {"all-reduce.1": 1})
    return {"host.xplane.pb": profile(run)}


def monitoring(ranks: int) -> dict[str, bytes]:
    """Return what OpenMPI's monitoring counts of messages around a ring."""
    rows = [
        f"# POINT TO POINT\nE\t{rank}\t{(rank + 1) % ranks}\t{BYTES} bytes\t1 msgs sent\n# OSC\n# COLLECTIVES\n"
        for rank in range(ranks)
    ]
    return {f"run.{rank}.prof": text.encode() for rank, text in enumerate(rows)}


MADE: dict[str, Callable[[int], dict[str, bytes]]] = {
    "htsim": matrix,
    "aicb": workload,
    "chakra": execution_traces,
    "traffic-pairs": traffic_pairs,
    "jax-trace": jax_profile,
    "openmpi-monitoring": monitoring,
}
"""Format -> files of a job whose ranks are a ring, each sending to the next one."""


def written(folder: Path, kind: str, ranks: int) -> list[str]:
    """Write the files of a format; return their paths."""
    for name, content in MADE[kind](ranks).items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in MADE[kind](ranks)]


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    """Return what a command prints as JSON."""
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--format", "json"])
    printed = capsys.readouterr()
    assert not end.value.code, printed.err
    return json.loads(printed.out)


@pytest.mark.parametrize("ranks", [2, 16])
@pytest.mark.parametrize("kind", list(MADE))
def test_files_of_a_ring_become_a_job_whose_every_flow_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, ranks: int
) -> None:
    fabric, job = tmp_path / "fabric.yaml", tmp_path / "job.json"
    fabric.write_text(FABRIC)
    place = ["--fabric", str(fabric)]
    summary = asked(capsys, "import", kind, *written(tmp_path, kind, ranks), *place, "--out", str(job))
    assert isinstance(summary, dict)
    assert (summary["ranks"], summary["flows"]) == (ranks, ranks)
    plan = asked(capsys, "plan", *place, "--job", str(job))
    assert isinstance(plan, dict)
    assert (len(plan["flows"]), plan["unroutable"]) == (ranks, [])
    assert len({flow["bytes"] for flow in plan["flows"]}) == 1


@pytest.mark.parametrize("kind", list(MADE))
def test_made_files_are_recognised_compressed_or_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (file, *_) = written(tmp_path, kind, 4)
    packed = Path(f"{file}.gz")
    packed.write_bytes(gzip.compress(Path(file).read_bytes()))
    rows = asked(capsys, "import", "--guess", file, str(packed))
    assert isinstance(rows, list)
    assert [row["format"] for row in rows] == [kind, kind]


def test_every_format_has_an_example_or_a_file_that_is_made_here() -> None:
    examples = [
        path for path in (ROOT / "examples").rglob("*") if path.is_file() and path.suffix not in (".py", ".toml")
    ]
    known = {row.format for path in examples for row in guess(open_sources([path]))}
    assert FORMATS.keys() - known - MADE.keys() == set()
