"""Comparison of a trace with ECMP: the ``ecmp`` policy on the same flows, with several hash seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray
from controller.model.traffic import Traffic
from controller.routing import assign
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent
from controller.telemetry.trace_summary import link_rows, measures, measures_by_plane, spread, summary

SEEDS = 20
"""Number of hash seeds; a single one is not representative."""


def under_ecmp(
    usable: Fabric,
    traffic: Traffic,
    *,
    capacity: Fabric | None = None,
    counted_on: Fabric | None = None,
    job: str | None = None,
    seeds: int = SEEDS,
) -> dict[str, Any]:
    """Return imbalance, hot links and lowest speed over several seeds of the hash.

    ``hot`` is that of the seed with the most unevenly used uplinks.

    Args:
        usable: the fabric without drained links.
        traffic: the flows of all jobs.
        capacity: the same fabric with the capacities that plans may use; ``None``: the full capacities.
        counted_on: the same fabric without the links that have no part in an imbalance; ``None``: all have.
        job: the job whose flows and collectives are counted; flows of other jobs still share the links.
        seeds: number of hash seeds.
    """
    demand = Demand.of(capacity or usable, as_sent(traffic))
    members = [k for k, row in enumerate(traffic.collectives) if job in (None, row.job)]
    rows = link_rows(counted_on or usable)
    at = [usable.link_index[row["id"]] for row in rows]
    counted = np.isin(traffic.collective, members)
    drawn: list[list[dict[str, Any]]] = []
    by_plane: list[list[dict[str, Any]]] = []
    speeds: list[float] = []
    worst: tuple[float, int, Assignment] | None = None
    for seed in range(seeds):
        assignment = assign("ecmp", usable, traffic, seed=seed).assignment
        speed = evaluate(demand.fabric, traffic, assignment, demand=demand).speed[members]
        speeds.append(1.0 if np.isnan(speed).all() else float(np.nanmin(speed)))
        loads = _loads(usable, traffic, assignment, counted, at)
        drawn.append(measures([row["layer"] for row in rows], *loads))
        by_plane.append(measures_by_plane(rows, *loads))
        unevenness = drawn[-1][0]["bytes"]["fim"]
        if worst is None or unevenness > worst[0]:
            worst = unevenness, seed, assignment
    assert worst is not None
    return {
        "policy": "ecmp",
        "seeds": seeds,
        "layers": [_over_draws([layers[i] for layers in drawn]) for i in range(len(drawn[0]))],
        "planes": [
            {"plane": row["plane"], **_over_draws([rows[i] for rows in by_plane])} for i, row in enumerate(by_plane[0])
        ],
        "hot": summary(rows, _flows(usable, traffic, worst[2], counted))["hot"],
        "worst_seed": worst[1],
        "min_speed": spread(speeds),
    }


def _over_draws(layers: list[dict[str, Any]]) -> dict[str, Any]:
    first = layers[0]
    counted = {
        unit: {name: spread(layer[unit][name] for layer in layers) for name in first[unit]}
        for unit in ("flows", "bytes")
    }
    return {"layer": first["layer"], "links": first["links"], **counted}


def _loads(
    fabric: Fabric, traffic: Traffic, assignment: Assignment, counted: Any, at: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Return the number of flows and of bytes on each of the links ``at`` [N]."""
    rows = np.flatnonzero(counted[assignment.flow] & (assignment.path >= 0))
    flow, path = assignment.flow[rows], assignment.path[rows]
    table = fabric.ways.links(fabric.host_leaf[traffic.src[flow]], fabric.host_leaf[traffic.dst[flow]], path)
    row, place = np.nonzero(table >= 0)
    links = table[row, place]
    weight = (traffic.bytes[flow] * assignment.share[rows])[row]
    count = np.bincount(links, minlength=fabric.n_links)[at].astype(np.float64)
    size = np.bincount(links, weights=weight, minlength=fabric.n_links)[at]
    return count, size.astype(np.float64)


def _flows(fabric: Fabric, traffic: Traffic, assignment: Assignment, counted: Any) -> list[dict[str, Any]]:
    ids = fabric.link_ids
    return [
        {
            "id": traffic.flow_id(flow),
            "real": [ids[link] for link in fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path)],
            "bytes": int(traffic.bytes[flow]),
        }
        for flow, path in zip(assignment.flow.tolist(), assignment.path.tolist(), strict=True)
        if counted[flow]
    ]
