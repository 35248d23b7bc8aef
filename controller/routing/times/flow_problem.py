"""The input of simulations with links shared flow by flow: the jobs, their flows, and the links that can be full."""

from __future__ import annotations

import numpy as np

from controller.model.assignment import Assignment
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.kernels.levels import progressive_filling
from controller.routing.kernels.times import flow_iterations as kernel
from controller.routing.kernels.times.flow_sharing import FlowLinks
from controller.routing.times.stages import Stages


def ring_steps(stages: Stages, most: int) -> Int64Array:
    """Return the number of steps [S] in which each stage is sent: several for a stage of rings, else 1.

    In a ring each host forwards what it has received, so no flow is more than a step ahead of the next one, and flows
    of which one is slow all end late. An all-reduce takes ``2 (n - 1)`` steps; more than ``most`` change little.
    """
    traffic = stages.demand.traffic
    steps = np.ones(len(stages.row), dtype=np.int64)
    if most <= 1:
        return steps
    for s, row in enumerate(stages.row.tolist()):
        of = traffic.collective == row
        pairs = np.unique(np.stack([traffic.src[of], traffic.dst[of]]), axis=1)
        if np.array_equal(pairs[0], np.sort(pairs[1])) and len(np.unique(pairs[0])) == pairs.shape[1]:
            steps[s] = max(1, min(most, 2 * (pairs.shape[1] - 1)))
    return steps


def flow_iterations(stages: Stages, assignment: Assignment, most_steps: int = 1) -> kernel.FlowIterations:
    """Return the jobs, their flows and the links that can be full, for the simulation under an assignment.

    With ``most_steps`` above 1, each step of a ring is a stage, and only the first computes (``ring_steps``).
    """
    demand, fabric = stages.demand, stages.demand.fabric
    stage_of = np.full(len(demand.traffic.collectives), -1, dtype=np.int64)
    stage_of[stages.row] = np.arange(len(stages.row))
    stage = stage_of[demand.traffic.collective[assignment.flow]]
    gbps = demand.gbps[assignment.flow] * assignment.share
    used = np.flatnonzero((stage >= 0) & (gbps > 0))
    used = used[np.argsort(stage[used], kind="stable")]
    steps = ring_steps(stages, most_steps)
    begin = np.concatenate([[0], np.cumsum(steps)])
    of_step = np.repeat(np.arange(len(steps)), steps)
    first = np.searchsorted(stage[used], np.arange(len(steps) + 1))
    rows = [used[first[s] : first[s + 1]] for s in of_step.tolist()]
    step = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    used = np.concatenate([used[:0], *rows])
    stage, gbps, flow = stage[used], gbps[used], assignment.flow[used]
    number = np.arange(len(used) + 1)
    ptr, link, _ = progressive_filling.incidence(
        number[:-1],
        number,
        number,
        assignment.path[used],
        np.ones(len(used)),
        demand.traffic.src[flow],
        demand.traffic.dst[flow],
        demand.leaf_src[flow],
        demand.leaf_dst[flow],
        gbps,
        fabric.n_hosts,
        fabric.ways,
        len(fabric.link_gbps),
    )
    row = np.repeat(number[:-1], np.diff(ptr))
    most = np.full(len(used), np.inf)
    np.minimum.at(most, row, fabric.link_gbps[link])
    # Links that all flows together cannot fill limit none beyond its highest rate.
    together = np.bincount(link, weights=(most / steps[stage])[row], minlength=len(fabric.link_gbps))
    full = together > fabric.link_gbps * (1.0 + ROUNDING)
    kept = full[link]
    limiting, link = np.unique(link[kept], return_inverse=True)
    flow_link, entry_flow = link.reshape(-1), row[kept]
    by_link = np.argsort(flow_link, kind="stable")
    links = FlowLinks(
        most,
        stages.rate_share[stage],
        np.searchsorted(entry_flow, number),
        flow_link,
        np.searchsorted(flow_link[by_link], np.arange(len(limiting) + 1)),
        entry_flow[by_link],
        fabric.link_gbps[limiting],
    )
    compute = np.zeros(len(of_step))
    compute[begin[:-1]] = stages.compute
    send = stages.send / steps
    return kernel.FlowIterations(
        begin[stages.first],
        compute,
        send[of_step],
        np.searchsorted(step, np.arange(len(of_step) + 1)),
        gbps * send[stage],
        links,
    )
