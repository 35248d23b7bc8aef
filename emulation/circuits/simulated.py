"""The time of planned circuits on the fluid simulator, where servers share circuits max-min fairly."""

from __future__ import annotations

from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan
from emulation.circuits.network import CircuitNetwork, iteration
from emulation.fluid.dag import DagRun, run

MOST_SERVERS = 32
"""Of a shard that is simulated: the time of a simulation grows with the fourth power of servers."""


def simulated(plan: ShardPlan, gbps: float) -> DagRun:
    """Simulate one iteration of a shard: nobody paces, so what shares a circuit with others gets an equal part of it.

    No allocation of rates takes less time than the plan says; max-min fair ones may take more.
    """
    return run(iteration(plan), CircuitNetwork(plan).ways(gbps))


def simulated_seconds(plan: CircuitPlan) -> float | None:
    """Return the time of the slowest shard; ``None`` if one is too large."""
    if any(each.shard.demand.n > MOST_SERVERS for each in plan.shards):
        return None
    return max(simulated(each, plan.fabric.gbps).seconds for each in plan.shards)
