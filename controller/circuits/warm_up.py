"""Compile every kernel of the planner of circuits once, so that no later plan waits for the compiler."""

from __future__ import annotations

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import NOW, POLICIES, plan_circuits
from controller.workload.job_file import parse_job

SERVERS = 6


def warm_up() -> None:
    """Plan circuits for a small job with each policy, or load what that compiles from the disk."""
    ranks = list(range(SERVERS))
    for duplex in (True, False):
        fabric = parse_optical_fabric({"optical": {"servers": SERVERS, "nics": 2, "gbps": 100, "duplex": duplex}})
        job = parse_job(
            {
                "name": "warm-up",
                "hosts": list(fabric.servers),
                "collectives": [
                    {"name": "ring", "op": "all_reduce", "ranks": ranks, "bytes": 8},
                    {"name": "all", "op": "all_to_all", "ranks": ranks, "bytes": 8, "phase": 1},
                ],
            }
        )
        for policy in POLICIES.keys() - {NOW}:
            plan_circuits(fabric, [(job.name, job)], policy=policy, seed=0, effort=0.1, clock=lambda: 0.0)
