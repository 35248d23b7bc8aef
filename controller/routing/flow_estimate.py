"""Expected iteration times with links shared flow by flow: finer than ``expected``, to report and compare plans.

``expected`` takes the flows of a stage as one that ends at once. Here each flow has its own max-min fair rate
and leaves its links when it ends (docs/explanation/objective.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import FloatArray
from controller.model.timing import JobTimes, PlanTimes
from controller.model.tolerances import ROUNDING
from controller.routing.demand import Demand
from controller.routing.expected import DRAWS, ITERATIONS, mean_slowdown, schedule_bound, sending_seconds
from controller.routing.kernels import flow_iterations as kernel
from controller.routing.kernels import progressive_filling
from controller.routing.kernels.flow_sharing import FlowLinks
from controller.routing.stages import Stages, has_times

MOST_EXAMINED = 100_000_000
"""Flows and entries examined for the rates of all draws of all plans: about a second."""

REPORTED = 4
"""The report of one plan gets one in this many of them."""


def plan_times(demand: Demand, assignment: Assignment) -> PlanTimes | None:
    """Return the iteration times of jobs under an assignment; ``None`` if no job states its computing times.

    Where one draw flow by flow is too much work (``REPORTED``), the flows of a stage are one that ends at once.
    """
    if not has_times(demand.traffic):
        return None
    stages = Stages.of(demand)
    by_flow = sending_by_flow(stages, [assignment], MOST_EXAMINED // REPORTED)
    sending = sending_seconds(stages, assignment, DRAWS) if by_flow is None else by_flow[0]
    seconds = stages.by_job(stages.compute + sending)
    compute = stages.by_job(stages.compute)
    phase = stages.demand.traffic.phase[stages.row]
    rows = tuple(
        JobTimes(name, weight, own, alone, took, 1.0 - own / took, tuple(zip(phases, sends, strict=True)))
        for name, weight, own, alone, took, phases, sends in zip(
            stages.names, stages.weight.tolist(), compute.tolist(), stages.alone.tolist(), seconds.tolist(),
            stages.split(phase), stages.split(sending), strict=True,
        )
    )  # fmt: skip
    return PlanTimes(rows, mean_slowdown(stages, seconds), schedule_bound(stages))


def flow_slowdowns(stages: Stages, assignments: Sequence[Assignment]) -> list[float] | None:
    """Return the expected slowdown of each assignment, over the same random phases.

    ``None`` where one draw is more work than ``MOST_EXAMINED``.
    """
    by_flow = sending_by_flow(stages, assignments, MOST_EXAMINED)
    if by_flow is None:
        return None
    return [mean_slowdown(stages, stages.by_job(stages.compute + sending)) for sending in by_flow]


def sending_by_flow(stages: Stages, assignments: Sequence[Assignment], most_examined: int) -> FloatArray | None:
    """Return the expected seconds [A, S] that each stage is sent under each assignment, over the same random phases.

    There are as many draws as ``most_examined`` allows, at most ``DRAWS``; ``None`` where it allows no draw.
    """
    problems = [flow_iterations(stages, assignment) for assignment in assignments]
    horizon = ITERATIONS * float(stages.alone.max(initial=0.0))
    offsets = np.random.default_rng(0).random((DRAWS, len(stages.names))) * stages.alone
    busy, sent = np.zeros((2, len(problems), len(stages.row)))
    spent = 0
    for number, offset in enumerate(offsets):
        if spent * (number + 1) > most_examined * number:
            break
        for i, problem in enumerate(problems):
            played = kernel.play(problem, offset, np.zeros(len(offset)), horizon, most_examined - spent)
            busy[i] += played.busy
            sent[i] += played.sent
            spent += played.examined
            if spent > most_examined:
                return None
    # Apart from rounding, no stage is faster than alone.
    sending: FloatArray = np.maximum(np.where(sent > 0, busy / np.where(sent > 0, sent, 1.0), stages.send), stages.send)
    return sending


def schedule_slowdown(
    stages: Stages, assignment: Assignment, shift: FloatArray, hold: FloatArray, starts: Sequence[float], length: int
) -> float | None:
    """Return the mean slowdown of a schedule.

    Args:
        stages: the jobs.
        assignment: their paths.
        shift: [J] seconds from the begin of the grid to the job's first iteration.
        hold: [J] held period in seconds; 0: iterations follow at once.
        starts: each is a time at or after which all jobs begin, at the first time of their grids; the mean over these.
        length: length of each simulation, in iterations of the longest job.

    Returns:
        ``None`` where it is more work than ``MOST_EXAMINED``.
    """
    problem = flow_iterations(stages, assignment)
    period = np.where(hold > 0, hold, stages.alone)
    horizon = length * float(stages.alone.max(initial=0.0))
    found, spent = [], 0
    for start in starts:
        played = kernel.play(problem, -((shift - start) % period), hold, horizon, MOST_EXAMINED - spent)
        spent += played.examined
        if spent > MOST_EXAMINED:
            return None
        seconds = np.where(played.ended > 0, played.took / np.maximum(played.ended, 1), horizon)
        found.append(mean_slowdown(stages, np.maximum(seconds, stages.alone)))
    return float(np.mean(found))


def flow_iterations(stages: Stages, assignment: Assignment) -> kernel.FlowIterations:
    """Return the jobs, their flows and the links that can be full, for the simulation under an assignment."""
    demand, fabric = stages.demand, stages.demand.fabric
    stage_of = np.full(len(demand.traffic.collectives), -1, dtype=np.int64)
    stage_of[stages.row] = np.arange(len(stages.row))
    stage = stage_of[demand.traffic.collective[assignment.flow]]
    gbps = demand.gbps[assignment.flow] * assignment.share
    used = np.flatnonzero((stage >= 0) & (gbps > 0))
    used = used[np.argsort(stage[used], kind="stable")]
    stage, gbps, flow = stage[used], gbps[used], assignment.flow[used]
    number = np.arange(len(used) + 1)
    ptr, link, _ = progressive_filling.incidence(
        number[:-1], number, number, assignment.path[used], np.ones(len(used)), demand.traffic.src[flow],
        demand.traffic.dst[flow], demand.leaf_src[flow], demand.leaf_dst[flow], gbps, fabric.n_hosts, fabric.ways,
        len(fabric.link_gbps),
    )  # fmt: skip
    row = np.repeat(number[:-1], np.diff(ptr))
    most = np.full(len(used), np.inf)
    np.minimum.at(most, row, fabric.link_gbps[link])
    # Links that all flows together cannot fill limit none beyond its highest rate.
    full = np.bincount(link, weights=most[row], minlength=len(fabric.link_gbps)) > fabric.link_gbps * (1.0 + ROUNDING)
    kept = full[link]
    limiting, link = np.unique(link[kept], return_inverse=True)
    flow_link, entry_flow = link.reshape(-1), row[kept]
    by_link = np.argsort(flow_link, kind="stable")
    links = FlowLinks(
        most, stages.weight[stages.job[stage]], np.searchsorted(entry_flow, number), flow_link,
        np.searchsorted(flow_link[by_link], np.arange(len(limiting) + 1)), entry_flow[by_link],
        fabric.link_gbps[limiting],
    )  # fmt: skip
    return kernel.FlowIterations(
        stages.first, stages.compute, stages.send, np.searchsorted(stage, np.arange(len(stages.row) + 1)),
        gbps * stages.send[stage], links,
    )  # fmt: skip
