"""Speeds of jobs by the rules that switches should hold; in the modes ``ecmp`` and ``frozen``, not the plan's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from controller.core.plan_candidate import PlanCandidate
from controller.core.saved.applied_plan import AppliedPlan
from controller.model.assignment import LOCAL, Assignment
from controller.model.choices.enforcement import Mode
from controller.model.fabric import BoolArray, Fabric, FloatArray
from controller.model.plan import Objective
from controller.model.tolerances import TOLERANCE
from controller.planning.drain import Drain, joined_by_spines
from controller.planning.headroom import with_headroom
from controller.routing import PreviousPlan
from controller.routing.objective.fairness import evaluate


@dataclass(frozen=True)
class JobSpeeds:
    """Speeds of jobs' slowest collectives, by job. Jobs without flows on the network have none.

    Attributes:
        speed: by the rules that switches should hold; ``None``: these do not decide it, because a switch hashes flows.
        slowdown: the time over the time alone on the intended fabric with all links up; ``None`` with ``speed``.
        whole: ``slowdown`` when all links were last in use, for the same jobs; ``None``: not known.
        whole_for: hash of those jobs.
        jobs: those with flows on the network, in order.
        cut_off: those of them with a flow that no rules could carry, because nothing joins its hosts: at speed 0.
    """

    speed: Mapping[str, float] | None = None
    slowdown: Mapping[str, float] | None = None
    whole: Mapping[str, float] | None = None
    whole_for: str = ""
    jobs: tuple[str, ...] = ()
    cut_off: frozenset[str] = frozenset()


def job_speeds(
    mode: Mode,
    fabric: Fabric,
    candidate: PlanCandidate,
    applied: AppliedPlan | None,
    before: JobSpeeds,
    *,
    headroom: float,
) -> JobSpeeds:
    """Return the speeds of all jobs.

    Args:
        mode: ``planned``: flows take the candidate's paths; ``ecmp``: they are hashed; ``frozen``: they take the paths
            of the applied plan.
        fabric: the fabric as observed.
        candidate: the newest plan.
        applied: the plan that switches hold.
        before: the speeds of the state before this one.
        headroom: part of each link's capacity that plans leave free.
    """
    objective: Objective | None = None
    if mode == "frozen":
        candidate = candidate.pushed
    carried = carried_unplanned(candidate)
    # A flow that base forwarding carries without a planned path is hashed, and shares links with planned flows.
    if mode == "planned" and not carried.any():
        objective = candidate.plan.objective
    elif mode == "frozen" and applied is not None and applied.enforced:
        objective = _held(with_headroom(fabric, headroom), candidate, applied.paths)
    inputs = candidate.inputs.traffic
    speeds = JobSpeeds(
        whole=before.whole if before.whole_for == inputs else None,
        whole_for=inputs,
        jobs=tuple(_by_job(candidate, candidate.plan.objective.speed)),
        cut_off=frozenset(_jobs_of(candidate, candidate.plan.unroutable[~carried].tolist())),
    )
    if objective is None:
        return speeds
    alone = candidate.plan.objective.healthy_seconds
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = objective.ideal_seconds / objective.speed / alone
    slower = _by_job(candidate, -slowdown)
    speeds = dataclasses.replace(
        speeds, speed=_by_job(candidate, objective.speed), slowdown={job: -value for job, value in slower.items()}
    )
    if fabric.link_up.all() and candidate.drain == Drain():
        return dataclasses.replace(speeds, whole=speeds.slowdown)
    return speeds


def carried_unplanned(candidate: PlanCandidate) -> BoolArray:
    """Return, for each flow without a planned path, whether base forwarding carries it all the same."""
    flows, fabric, traffic = candidate.plan.unroutable, candidate.planned_on, candidate.traffic
    if not len(flows):
        return np.zeros(0, dtype=np.bool_)
    src, dst = traffic.src[flows], traffic.dst[flows]
    hosts_up = fabric.link_up[src] & fabric.link_up[fabric.n_hosts + dst]
    carried: BoolArray = hosts_up & joined_by_spines(fabric)[fabric.host_leaf[src], fabric.host_leaf[dst]]
    return carried


def _jobs_of(candidate: PlanCandidate, flows: Iterable[int]) -> set[str]:
    traffic = candidate.traffic
    return {traffic.collectives[traffic.collective[flow]].job for flow in flows}


def _held(fabric: Fabric, candidate: PlanCandidate, paths: PreviousPlan) -> Objective | None:
    """Return the objective of the flows on the paths that switches hold; ``None`` if some flow has no live one."""
    traffic = candidate.traffic
    flow, path, share = paths.on(fabric).rows(traffic)
    leaf_src, leaf_dst = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    local = np.flatnonzero(leaf_src == leaf_dst)
    placed = np.bincount(flow, weights=share, minlength=traffic.n_flows)
    placed[local] = 1.0
    live = fabric.live_ways.joined(leaf_src[flow], leaf_dst[flow], path)
    if not live.all() or (placed < 1 - TOLERANCE).any() or not fabric.link_up[: fabric.first_cable_link].all():
        return None
    # Flows that share a source port have a row each, and each of them finds all of these.
    share = share / placed[flow]
    rows = np.concatenate([flow, local])
    order = np.argsort(rows, kind="stable")
    assignment = Assignment(
        rows[order].astype(np.int32),
        np.concatenate([path, np.full(len(local), LOCAL, dtype=np.int32)])[order],
        np.concatenate([share, np.ones(len(local))])[order],
    )
    return evaluate(fabric, traffic, assignment)


def _by_job(candidate: PlanCandidate, values: FloatArray) -> dict[str, float]:
    """Return the lowest of the values [K] of each job's collectives, NaN left out."""
    traffic, known = candidate.traffic, ~np.isnan(values)
    lowest = np.full(len(traffic.jobs), np.inf)
    np.minimum.at(lowest, traffic.job_index[known], values[known])
    with_values = np.bincount(traffic.job_index[known], minlength=len(lowest)) > 0
    return {job: value for job, value, has in zip(traffic.jobs, lowest.tolist(), with_values, strict=True) if has}
