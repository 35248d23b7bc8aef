"""``fairspine emulate --learn FEEDER --replans N``: jobs that nobody pushed change their paths while they run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.rig.emulate import emulated, request
from tests.unit.emulation.experiments.made import ring

pytestmark = pytest.mark.switches

ATTEMPTS = 3
"""A machine may be so busy that each burst lasts longer than those before, or ends before the rules are written."""


def test_plans_of_learned_jobs_reorder_packets_amid_bursts_and_none_in_idle_times(tmp_path: Path) -> None:
    wanted = request(tmp_path, learn="host", replans=2, seconds=3.6)
    clos = "{spines: 4, leaves: 4, hosts_per_leaf: 1, host_gbps: 200, uplink_gbps: 100}"
    wanted.fabric.write_text(f"clos: {clos}\n")
    # It computes twice as long as it sends on planned paths, for 0.12 s: on a busy machine bursts last longer than
    # predicted, and rules are written up to a second after their expected end.
    (tmp_path / "a.json").write_text(json.dumps(ring("a", ["h1", "h2", "h3", "h4"]) | {"compute_seconds": 0.24}))
    wanted = dataclasses.replace(wanted, jobs=(tmp_path / "a.json",))
    for _ in range(ATTEMPTS):
        status, values = emulated(wanted)
        idle, amid = values["rounds"]
        if any(not one["sending"] for one in idle["replans"]) and amid["naks"]:
            break
    for each in (idle, amid):
        assert len(each["replans"]) == 2
        assert all(one["moved"] > 0 for one in each["replans"])
    paused = [one for one in idle["replans"] if not one["sending"]]
    assert paused
    assert sum(one["naks"] for one in paused) == 0
    # A busy machine may send so slowly that nothing waits on a path that is left: the command says so.
    assert status == (1 if idle["naks"] or not amid["naks"] else 0)
    assert amid["resent"] >= amid["naks"]
    assert any(one["sending"] for one in amid["replans"]) or not amid["naks"]
