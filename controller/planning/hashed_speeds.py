"""The speeds of jobs if switches hash their flows: the policy ``ecmp`` with several seeds of the hash."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.model.traffic import Traffic
from controller.routing import assign
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent

SEEDS = 20
"""Number of hash seeds; a single one is not representative."""


def hashed_speeds(
    usable: Fabric, capacity: Fabric, traffic: Traffic, *, seeds: int = SEEDS
) -> Mapping[str, FloatArray]:
    """Return the speed of each job's slowest collective for each seed [S]; jobs that do not use the network have none.

    Args:
        usable: the fabric without drained links.
        capacity: the same with the capacities that plans may use.
        traffic: the flows of all jobs.
        seeds: number of hash seeds.
    """
    demand = Demand.of(capacity, as_sent(traffic))
    drawn = np.stack(
        [
            evaluate(demand.fabric, traffic, assign("ecmp", usable, traffic, seed=seed).assignment, demand=demand).speed
            for seed in range(seeds)
        ]
    )
    members: dict[str, list[int]] = {}
    for k, row in enumerate(traffic.collectives):
        if not np.isnan(drawn[0, k]):
            members.setdefault(row.job, []).append(k)
    return {job: drawn[:, rows].min(axis=1) for job, rows in members.items()}
