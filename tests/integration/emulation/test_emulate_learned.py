"""``fairspine emulate --learn``: each feeder alone shows the controller every flow of jobs that nobody pushed."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.experiments.learned.learned_run import MOST_ROUNDS
from emulation.experiments.request import LEARNING_ITERATIONS
from tests.rig.emulate import command, emulated, request, write_job
from tests.rig.programs import fairspine

pytestmark = pytest.mark.switches


# Packets are sampled too seldom for bursts of a second.
@pytest.mark.parametrize(("feeder", "seconds"), [("sflow", 2.0), ("host", 1.0), ("watch", 1.0)])
def test_jobs_are_learned_from_packets_and_planned_as_if_pushed(tmp_path: Path, feeder: str, seconds: float) -> None:
    wanted = request(tmp_path, learn=feeder, seconds=seconds)
    wanted.fabric.write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 4}\n")
    write_job(tmp_path, "a", ["h1", "h5", "h2", "h6"])
    write_job(tmp_path, "b", ["h3", "h7", "h4", "h8"])
    status, values = emulated(wanted)
    assert status == 0
    assert {row["feeder"] for row in values["jobs"]} == {feeder}
    assert [(row["job"], row["recall"], row["precision"]) for row in values["jobs"]] == [("a", 1, 1), ("b", 1, 1)]
    for row in values["jobs"]:
        assert len(row["names"]) == 1
        assert 0 <= row["appeared"] <= MOST_ROUNDS * LEARNING_ITERATIONS[feeder]
        assert row["known"] is None or row["appeared"] <= row["known"]
        assert min(row[f"{name}_seconds"] for name in ("hashed", "learned", "pushed")) > 0.9 * seconds


def test_a_feeder_that_there_is_not_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    done = fairspine(*command(tmp_path, "--learn", "gossip")[1:])
    assert done.returncode == 2
    assert "--learn" in done.stderr
    assert "gossip" in done.stderr
    assert not (tmp_path / "out").exists()
