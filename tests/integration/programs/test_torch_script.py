"""The example script for PyTorch trains, and its traces become the job that it is.

PyTorch is large, so it is in no extra, and continuous integration skips this: `make test-torch` runs it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulation.training.scripts import StepLine, step_line
from tests.documented import ROOT
from tests.rig.programs import fairspine
from tests.rig.real_controller import free_ports

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (make test-torch)"
)

RANKS, STEPS, WIDTH = 4, 5, 100
GRADIENTS = 2 * WIDTH * WIDTH * 4
LOSS = 4
"""Bytes of the loss, which is summed over the ranks, too."""
LEAST = 100
"""Bytes of gradients are more."""
SECONDS = 900.0


def trained(folder: Path) -> list[list[StepLine]]:
    """Train over the loopback interface, write traces to a folder, and return the steps of each rank."""
    (port,) = free_ports(1)
    shared = {"WORLD_SIZE": str(RANKS), "STEPS": str(STEPS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    script = [
        sys.executable,
        str(ROOT / "examples/training/mlp_torch.py"),
        "--width",
        str(WIDTH),
        "--trace",
        str(folder),
    ]
    ranks = [
        subprocess.Popen(
            script,
            env=os.environ | shared | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        outputs = [rank.communicate(timeout=SECONDS)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * RANKS
    return [[step for line in output.splitlines() if (step := step_line(line)) is not None] for output in outputs]


def test_the_script_trains_and_its_traces_become_a_job_with_the_bytes_of_its_gradients(tmp_path: Path) -> None:
    first, *others = trained(tmp_path)
    assert [step.step for step in first] == list(range(STEPS))
    losses = [step.loss for step in first]
    assert losses == sorted(losses, reverse=True)  # type: ignore[type-var]
    assert len(set(losses)) == STEPS
    assert all([step.loss for step in rank] == losses for rank in others)
    # The profiler begins after the first step.
    traces = sorted(map(str, tmp_path.glob("rank*.json")))
    ran = fairspine("import", "kineto", *traces, "--iterations", str(STEPS - 1))
    assert ran.returncode == 0, ran.stderr
    collectives = json.loads(ran.stdout)["collectives"]
    # The barrier at the end is a broadcast of a few bytes.
    (reduced,) = (each for each in collectives if each["op"] == "all_reduce")
    assert reduced["bytes"] == GRADIENTS + LOSS
    assert reduced["ranks"] == [3, 2, 1, 0]
    assert all(each["bytes"] < LEAST for each in collectives if each is not reduced)
