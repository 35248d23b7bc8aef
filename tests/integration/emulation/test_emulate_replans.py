"""``fairspine emulate --learn FEEDER --replans N``: jobs that nobody pushed change their paths while they run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.rig.emulate import EMULATION_SECONDS
from tests.rig.programs import FAIRSPINE
from tests.unit.emulation.experiments.made import ring

pytestmark = pytest.mark.switches


def test_plans_of_learned_jobs_reorder_packets_amid_bursts_and_none_in_idle_times(tmp_path: Path) -> None:
    clos = "{spines: 4, leaves: 4, hosts_per_leaf: 1, host_gbps: 200, uplink_gbps: 100}"
    (tmp_path / "fabric.yaml").write_text(f"clos: {clos}\n")
    (tmp_path / "a.json").write_text(json.dumps(ring("a", ["h1", "h2", "h3", "h4"])))
    files = ["--fabric", str(tmp_path / "fabric.yaml"), "--job", str(tmp_path / "a.json"), "--out", str(tmp_path)]
    done = subprocess.run(
        [FAIRSPINE, "emulate", *files, "--learn", "host", "--replans", "3", "--seconds", "1.5", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=EMULATION_SECONDS,
    )
    assert done.stdout, done.stderr
    idle, amid = json.loads(done.stdout)["rounds"]
    for each in (idle, amid):
        assert len(each["replans"]) == 3
        assert all(one["moved"] > 0 for one in each["replans"])
    # On a busy machine a burst may last longer than it was predicted.
    paused = [one for one in idle["replans"] if not one["sending"]]
    assert paused
    assert sum(one["naks"] for one in paused) == 0
    assert done.returncode == (1 if idle["naks"] else 0), done.stderr
    assert amid["naks"] > idle["naks"]
    assert amid["resent"] >= amid["naks"]
    assert any(one["sending"] for one in amid["replans"])
