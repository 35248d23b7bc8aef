"""Files of other projects become jobs, and the jobs are planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.cli.main import main

FABRIC = "clos: {spines: 8, leaves: 16, hosts_per_leaf: 16, host_gbps: 100, uplink_gbps: 200}\n"

# Format, files, and what they must have: ranks and flows on the network.
FILES = [
    ("htsim", ["csg-htsim/perm_32n_32c_2MB.cm"], 32, 32),
    ("htsim", ["uet-htsim/alltoall_serial_16n.cm"], 16, 240),
    ("aicb", ["SimAI/microAllReduce.txt"], 8, 8),
    ("aicb", ["aicb/all_reduce.txt"], 256, 256),
    ("traffic-pairs", ["dcn-simulators/concurrent_jobs_1/ring_size_4/job_0-BLOOM.txt"], 192, 192),
    ("chakra", [f"astra-sim/all_reduce_8npus_1MB.{i}.et" for i in range(8)], 8, 8),
]


@pytest.mark.parametrize(("kind", "names", "ranks", "flows"), FILES, ids=[f"{row[0]}-{row[1][0]}" for row in FILES])
def test_a_file_of_another_project_becomes_a_job_that_is_planned(
    shared_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    names: list[str],
    ranks: int,
    flows: int,
) -> None:
    fabric, job = tmp_path / "fabric.yaml", tmp_path / "job.json"
    fabric.write_text(FABRIC)
    files = [str(shared_data / name) for name in names]
    with pytest.raises(SystemExit) as end:
        main(["import", kind, *files, "--fabric", str(fabric), "--out", str(job), "--format", "json"])
    summary = json.loads(capsys.readouterr().out)
    assert not end.value.code
    assert (summary["ranks"], summary["flows"]) == (ranks, flows)
    with pytest.raises(SystemExit) as end:
        main(["plan", "--fabric", str(fabric), "--job", str(job), "--format", "json"])
    assert not end.value.code
    assert len(json.loads(capsys.readouterr().out)["flows"]) == flows
