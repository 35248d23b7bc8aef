"""Task graphs on planned circuits."""

from __future__ import annotations

import numpy as np

from controller.circuits.planning.circuit_plan import ShardPlan
from controller.model.dag import Dag
from controller.model.job import Job
from controller.workload.importers.base import GraphRing
from emulation.circuits.network import CircuitNetwork, Part
from emulation.fluid.dag_parts import with_parts


def on_circuits(dag: Dag, rings: tuple[GraphRing, ...], job: Job, plan: ShardPlan, names: tuple[str, ...]) -> Dag:
    """Return a graph whose messages are cut as the plan says: over trees, all-reduces over the rings of their group.

    Each step of an all-reduce is done on all its rings at once, and ends with the slowest. A graph has one phase.

    Args:
        dag: the graph.
        rings: its all-reduces.
        job: the job of the graph, on servers.
        plan: of the shard of this job.
        names: the servers of the fabric.
    """
    network = CircuitNetwork(plan)
    index = {names[server]: i for i, server in enumerate(plan.shard.servers)}
    server = np.array([index[host] for host in job.hosts])
    of_group = {
        frozenset(group.members): [ring for ring in plan.routes.rings if ring.group == g]
        for g, group in enumerate(plan.shard.demand.groups)
    }
    parts: dict[int, list[Part]] = {}
    for each in rings:
        members = frozenset(server[list(each.ranks)].tolist())
        n = len(each.ranks)
        for task in range(each.first, each.end):
            size = float(dag.bytes[task])
            parts[task] = [
                part
                for ring in of_group[members]
                for part in network.along(ring, (task - each.first) % n, size * ring.share, 0)
            ]
    for task in np.flatnonzero(dag.is_message & (dag.bytes > 0)).tolist():
        if task not in parts:
            src, dst = int(server[dag.rank[task]]), int(server[dag.peer[task]])
            parts[task] = network.message(src, dst, float(dag.bytes[task]), 0)
    of_part = [number for number, own in parts.items() for _ in own]
    flat = [part for own in parts.values() for part in own]
    return with_parts(
        dag,
        network.n_ranks,
        of_part,
        [part.rank for part in flat],
        [part.peer for part in flat],
        np.round([part.bytes for part in flat]).astype(np.int64),
    )
