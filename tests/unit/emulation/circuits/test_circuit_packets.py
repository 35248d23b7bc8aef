"""An iteration on circuits, packet by packet."""

from __future__ import annotations

import numpy as np
import pytest

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import ShardPlan, plan_circuits
from controller.workload.job_file import parse_job
from emulation.circuits.packets import on_packets, packet_flows

GBPS = 100.0


def planned(paths: int) -> ShardPlan:
    ranks = list(range(6))
    calls = [
        {"name": "dp", "op": "all_reduce", "ranks": ranks, "bytes": 20_000_000, "phase": 0},
        {"name": "mp", "op": "all_to_all", "ranks": ranks, "bytes": 8_000_000, "phase": 0},
        {"name": "next", "op": "all_to_all", "ranks": ranks[:4], "bytes": 4_000_000, "phase": 1},
    ]
    job = parse_job({"name": "a", "hosts": [f"h{i + 1}" for i in ranks], "collectives": calls})
    fabric = parse_optical_fabric({"optical": {"servers": 6, "nics": 2, "gbps": GBPS}})
    return plan_circuits(fabric, [("a", job)], effort=0.05, paths=paths, clock=lambda: 0.0).shards[0]


@pytest.mark.parametrize("paths", [1, 2])
def test_packets_take_the_planned_time_within_a_twentieth(paths: int) -> None:
    plan = planned(paths)
    loads = np.zeros(plan.succ.size)
    for flow in packet_flows(plan):
        loads[list(flow.links)] += flow.bytes
    assert np.allclose(loads.reshape(plan.succ.shape), plan.loads.sum(axis=0))
    run = on_packets(plan, GBPS)
    assert run.planned_seconds < run.seconds < 1.05 * run.expected_seconds
