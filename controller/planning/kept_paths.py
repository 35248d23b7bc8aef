"""Plans without a search: flows on earlier paths, as after a restart and in a rollback."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.plan import Bound, Plan
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.planning.make_plan import appraise
from controller.routing import PreviousPlan, Result
from controller.routing.placing import place_units as placing
from controller.routing.policies.chosen_classes import kept_classes
from controller.routing.policies.shifts import reuse_schedule
from controller.routing.problem.demand import Demand
from controller.routing.validate import validate_assignment


def plan_from_paths(
    fabric: Fabric,
    traffic: Traffic,
    memories: Sequence[PreviousPlan],
    *,
    policy: str,
    status: str,
    bound: Bound = Bound(),  # noqa: B008 (frozen)
    intended: Fabric | None = None,
    clock: Callable[[], float],
) -> Plan:
    """Put each placement unit on the first of its earlier paths that is live, or on its least loaded path.

    Args:
        fabric: the fabric to plan on.
        traffic: the flows.
        memories: earlier plans, in order of preference. A unit split by the first keeps its pieces if all are live.
        policy: the policy named in the plan.
        status: the status of the plan; the objective and the bounds are computed as for any plan.
        bound: earlier proved bounds, valid for exactly this fabric and traffic.
        intended: the fabric as configured, the reference of slowdowns; see ``make_plan``.
        clock: returns seconds; measures the time of planning.
    """
    started = clock()
    demand = Demand.of(fabric, traffic)
    first = demand.part_flow[demand.part_ptr[:-1]]
    path = np.full(demand.n_units, -1, dtype=np.int32)
    for memory in memories:
        old = memory.on(fabric).single_paths(traffic)[first]
        path = np.where((path < 0) & _live(demand, old), old, path).astype(np.int32)
    placing.repair(demand, path)
    assignment = demand.assignment(path)
    if memories and memories[0].is_split():
        assignment = _with_pieces(demand, assignment, memories[0].on(fabric))
    validate_assignment(fabric, traffic, assignment, enforceable=not assignment.is_split())
    schedule, classes = None, kept_classes(traffic, memories[0].classes if memories else ())
    if memories:
        classified = dataclasses.replace(demand, traffic=traffic.with_classes(classes)) if classes else demand
        schedule = reuse_schedule(classified, assignment, memories[0].schedule)
    result = Result(assignment, bound, status, schedule, classes=classes)
    seconds = clock() - started
    return appraise(fabric, traffic, result, demand=demand, policy=policy, seconds=seconds, intended=intended)


def _live(demand: Demand, path: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return whether each unit [U] can take its path class; a negative class: no."""
    return demand.fabric.live_ways.joined(demand.unit_src, demand.unit_dst, path)


def _with_pieces(demand: Demand, single: Assignment, memory: PreviousPlan) -> Assignment:
    """Return ``single`` with the earlier pieces of each split flow whose paths are all live."""
    fabric = demand.fabric
    flow, path, share = memory.rows(demand.traffic)
    live = fabric.live_ways.joined(demand.leaf_src[flow], demand.leaf_dst[flow], path)
    count = np.bincount(flow, minlength=demand.traffic.n_flows)
    dead = np.bincount(flow[~live], minlength=demand.traffic.n_flows)
    # Flows that share a port have a row each in the earlier plan; that is not a split.
    total = np.bincount(flow, weights=share, minlength=demand.traffic.n_flows)
    whole = (count > 1) & (dead == 0) & (np.abs(total - 1) < TOLERANCE)
    rows = whole[flow]
    rest = ~whole[single.flow]
    all_flows = np.concatenate([single.flow[rest], flow[rows]])
    order = np.argsort(all_flows, kind="stable")
    return Assignment(
        all_flows[order].astype(np.int32),
        np.concatenate([single.path[rest], path[rows]])[order],
        np.concatenate([single.share[rest], share[rows]])[order],
    )


def moved_flows(traffic: Traffic, before: PreviousPlan, after: PreviousPlan) -> IntArray:
    """Return the flows of a traffic whose path differs between two plans, ascending.

    Both plans use the numbers of one fabric (``PreviousPlan.on``). A split flow counts by its largest piece.
    """
    old, new = before.single_paths(traffic), after.single_paths(traffic)
    moved: IntArray = np.flatnonzero((old >= 0) & (new >= 0) & (old != new)).astype(np.int32)
    return moved
