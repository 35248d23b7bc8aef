"""``fairspine emulate --learn``: each feeder alone shows the controller every flow of jobs that nobody pushed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from emulation.experiments.learned.learned_run import MOST_ROUNDS
from emulation.experiments.request import LEARNING_ITERATIONS
from tests.rig.emulate import EMULATION_SECONDS
from tests.rig.programs import FAIRSPINE
from tests.unit.emulation.experiments.made import ring

pytestmark = pytest.mark.switches


# Packets are sampled too seldom for bursts of a second.
@pytest.mark.parametrize(("feeder", "seconds"), [("sflow", 2.0), ("host", 1.0), ("watch", 1.0)])
def test_jobs_are_learned_from_packets_and_planned_as_if_pushed(tmp_path: Path, feeder: str, seconds: float) -> None:
    (tmp_path / "fabric.yaml").write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 4}\n")
    argv = [FAIRSPINE, "emulate", "--fabric", str(tmp_path / "fabric.yaml"), "--out", str(tmp_path / "out")]
    for name, hosts in (("a", ["h1", "h5", "h2", "h6"]), ("b", ["h3", "h7", "h4", "h8"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(ring(name, hosts)))
        argv += ["--job", str(tmp_path / f"{name}.json")]
    done = subprocess.run(
        [*argv, "--learn", feeder, "--seconds", str(seconds), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=EMULATION_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert {row["feeder"] for row in values["jobs"]} == {feeder}
    assert [(row["job"], row["recall"], row["precision"]) for row in values["jobs"]] == [("a", 1, 1), ("b", 1, 1)]
    for row in values["jobs"]:
        assert len(row["names"]) == 1
        assert 0 <= row["appeared"] <= MOST_ROUNDS * LEARNING_ITERATIONS[feeder]
        assert row["known"] is None or row["appeared"] <= row["known"]
        assert min(row[f"{name}_seconds"] for name in ("hashed", "learned", "pushed")) > 0.9 * seconds


def test_a_feeder_that_there_is_not_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 2}\n")
    (tmp_path / "a.json").write_text(json.dumps(ring("a", ["h1", "h3"])))
    files = [
        "--fabric",
        str(tmp_path / "fabric.yaml"),
        "--job",
        str(tmp_path / "a.json"),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        [FAIRSPINE, "emulate", *files, "--learn", "gossip"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "--learn" in done.stderr
    assert "gossip" in done.stderr
    assert not (tmp_path / "out").exists()
