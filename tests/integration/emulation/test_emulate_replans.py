"""``fairspine emulate --learn FEEDER --replans N``: jobs that nobody pushed change their paths while they run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.rig.emulate import emulated, request, write_job

pytestmark = pytest.mark.switches


def test_plans_of_learned_jobs_reorder_packets_amid_bursts_and_none_in_idle_times(tmp_path: Path) -> None:
    wanted = request(tmp_path, learn="host", replans=2, seconds=1.2)
    clos = "{spines: 4, leaves: 4, hosts_per_leaf: 1, host_gbps: 200, uplink_gbps: 100}"
    wanted.fabric.write_text(f"clos: {clos}\n")
    one_job = (write_job(tmp_path, "a", ["h1", "h2", "h3", "h4"]),)
    status, values = emulated(dataclasses.replace(wanted, jobs=one_job))
    idle, amid = values["rounds"]
    for each in (idle, amid):
        assert len(each["replans"]) == 2
        assert all(one["moved"] > 0 for one in each["replans"])
    # On a busy machine a burst may last longer than it was predicted.
    paused = [one for one in idle["replans"] if not one["sending"]]
    assert paused
    assert sum(one["naks"] for one in paused) == 0
    assert status == (1 if idle["naks"] else 0)
    assert amid["naks"] > idle["naks"]
    assert amid["resent"] >= amid["naks"]
    assert any(one["sending"] for one in amid["replans"])
