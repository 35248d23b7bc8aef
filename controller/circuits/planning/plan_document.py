"""Plans of circuits as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan
from controller.circuits.planning.stages import CircuitStage
from controller.model.fabric import IntArray


def circuit_plan_document(plan: CircuitPlan, stages: Sequence[CircuitStage] | None = None) -> dict[str, Any]:
    """Return the document of a plan, and of the stages to it (docs/reference/topology.md)."""
    fabric = plan.fabric
    dark = fabric.reconfigure_seconds
    document = {
        "policy": plan.policy,
        "planning_seconds": plan.planning_seconds,
        "shards": [shard_document(fabric, each) for each in plan.shards],
        "changes": {
            "removed": [_circuit(each) for each in plan.removed],
            "added": [_circuit(each) for each in plan.added],
            "kept": len(set(fabric.circuits)) - len(plan.removed),
            "nics": plan.changed_nics,
            "seconds_at_once": dark if plan.changed_nics else 0.0,
            "seconds_by_nic": dark * plan.changed_nics,
        },
    }
    if stages is not None:
        document["stages"] = [_stage_document(plan, each) for each in stages]
    return document


def _stage_document(plan: CircuitPlan, stage: CircuitStage) -> dict[str, Any]:
    """Return the document of a stage; jobs that share servers after the change may share circuits with others in it."""
    planned = {job: each.seconds for each in plan.shards for job in each.shard.jobs}
    return {
        "nics": list(stage.nics),
        "removed": [_circuit(each) for each in stage.removed],
        "added": [_circuit(each) for each in stage.added],
        "seconds": plan.fabric.reconfigure_seconds,
        "during": [
            {
                "jobs": list(each.shard.jobs),
                "servers": [plan.fabric.servers[server] for server in each.shard.servers],
                "seconds": each.seconds,
                "over_plan": ratio(each.seconds, max(planned[job] for job in each.shard.jobs)),
            }
            for each in stage.during
        ],
    }


def shard_document(fabric: OpticalFabric, plan: ShardPlan) -> dict[str, Any]:
    """Return the document of a shard."""
    names = [fabric.servers[server] for server in plan.shard.servers]
    hops = plan.hops
    reached = hops[hops > 0]
    return {
        "jobs": list(plan.shard.jobs),
        "servers": names,
        "seconds": plan.seconds,
        "ideal_seconds": plan.ideal_seconds,
        "bound_seconds": plan.bound_seconds,
        "over_ideal": ratio(plan.seconds, plan.ideal_seconds),
        "over_bound": ratio(plan.seconds, plan.bound_seconds),
        "tax": plan.tax,
        "mean_hops": float(reached.mean()) if len(reached) else None,
        "most_hops": int(reached.max(initial=0)),
        "rules_per_server": plan.rules_per_server,
        "rings": [
            {
                "job": plan.shard.demand.groups[ring.group].job,
                "collective": plan.shard.demand.groups[ring.group].collective,
                "share": ring.share,
                "servers": [names[u] for u in ring.order],
                "nics": None if ring.layer == LOOSE else [int(plan.ends.sender[ring.layer, u]) for u in ring.order],
            }
            for ring in plan.routes.rings
        ],
        "next_hops": {names[u]: _next_hops(names, plan, plan.routes.layer, u) for u in range(len(names))},
        "more_trees": _more_trees(names, plan),
        "circuits": _circuits_with_load(names, plan),
    }


def _next_hops(names: list[str], plan: ShardPlan, layer: IntArray, at: int) -> dict[str, int]:
    return {names[t]: int(plan.ends.sender[layer[t, at], at]) for t in range(len(names)) if layer[t, at] >= 0}


def _more_trees(names: list[str], plan: ShardPlan) -> list[dict[str, Any]]:
    """Return the trees after the first one to each destination, with the part of the bytes in each phase."""
    routes = plan.routes
    return [
        {
            "destination": names[t],
            "tree": tree,
            "shares": routes.shares[:, tree, t].tolist(),
            "next_hops": {
                names[u]: int(plan.ends.sender[routes.trees[tree, t, u], u])
                for u in range(len(names))
                if routes.trees[tree, t, u] >= 0
            },
        }
        for t in range(len(names))
        for tree in range(1, len(routes.trees))
        if (routes.trees[tree, t] >= 0).any()
    ]


def ratio(value: float, of: float) -> float | None:
    """Return the quotient; ``None`` where nothing is sent."""
    return value / of if of else None


def _circuits_with_load(names: list[str], plan: ShardPlan) -> list[dict[str, Any]]:
    d, m = plan.succ.shape
    live = [(k, u) for k in range(d) for u in range(m) if plan.succ[k, u] != u]
    total = plan.loads.sum(axis=0)
    return [
        {
            **_circuit(circuit),
            "from": names[u],
            "from_nic": int(plan.ends.sender[k, u]),
            "to": names[int(plan.succ[k, u])],
            "to_nic": int(plan.ends.receiver[k, u]),
            "bytes": float(np.round(total[k, u])),
        }
        for circuit, (k, u) in zip(plan.circuits, live, strict=True)
    ]


def _circuit(circuit: Circuit) -> dict[str, Any]:
    return {"switch": circuit.switch, "in_port": circuit.in_port, "out_port": circuit.out_port}
