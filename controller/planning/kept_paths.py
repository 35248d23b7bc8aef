"""Plans that are not searched for: flows on paths that are remembered, as after a restart and in a rollback."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.plan import Bound, Plan
from controller.model.traffic import Traffic
from controller.planning.make_plan import appraise
from controller.routing import TOLERANCE, Previous, Result
from controller.routing.demand import Demand
from controller.routing.kernels import place
from controller.routing.validate import validate_assignment


def plan_from_paths(
    fabric: Fabric,
    traffic: Traffic,
    memories: Sequence[Previous],
    *,
    policy: str,
    status: str,
    bound: Bound = Bound(),  # noqa: B008 (frozen)
    intended: Fabric | None = None,
    clock: Callable[[], float],
) -> Plan:
    """Each placement unit on the first of its remembered paths that is live; one without any on its emptiest path.

    Args:
        memories: the most wanted first. A unit that the first one split keeps its pieces if all of them are live.
        policy, status: what the plan says of itself; the objective and the bounds are worked out as for any plan.
        bound: what was proved about such plans before, for exactly this fabric and traffic.
    """
    started = clock()
    demand = Demand.of(fabric, traffic)
    first = demand.part_flow[demand.part_ptr[:-1]]
    path = np.full(demand.n_units, -1, dtype=np.int32)
    for memory in memories:
        old = memory.on(fabric).single_paths(traffic)[first]
        path = np.where((path < 0) & _live(demand, old), old, path).astype(np.int32)
    place.repair(
        demand.unit_src, demand.unit_dst, demand.unit_load, fabric.live_up, fabric.live_down, fabric.link_gbps, path
    )
    assignment = demand.assignment(path)
    if memories and memories[0].is_split():
        assignment = _with_pieces(demand, assignment, memories[0].on(fabric))
    validate_assignment(fabric, traffic, assignment, enforceable=not assignment.is_split())
    result = Result(assignment, bound, status)
    seconds = clock() - started
    return appraise(fabric, traffic, result, demand=demand, policy=policy, seconds=seconds, intended=intended)


def _live(demand: Demand, path: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[U] whether a unit can take the path class; negative: no."""
    fabric = demand.fabric
    if not fabric.n_paths:
        return np.zeros(len(path), dtype=np.bool_)
    return (path >= 0) & fabric.up_alive[demand.unit_src, path] & fabric.down_alive[demand.unit_dst, path]


def _with_pieces(demand: Demand, single: Assignment, memory: Previous) -> Assignment:
    """``single`` with the remembered pieces of each split flow, all of whose paths are live."""
    fabric = demand.fabric
    flow, path, share = memory.rows(demand.traffic)
    live = fabric.up_alive[demand.leaf_src[flow], path] & fabric.down_alive[demand.leaf_dst[flow], path]
    count = np.bincount(flow, minlength=demand.traffic.n_flows)
    dead = np.bincount(flow[~live], minlength=demand.traffic.n_flows)
    # Flows that share a port are remembered with a row each, and that is no split.
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


def moved_flows(traffic: Traffic, before: Previous, after: Previous) -> IntArray:
    """Flows of a traffic that have a path before and another one after, ascending.

    Both in the numbers of one fabric (``Previous.on``). A flow that is split counts by its largest piece.
    """
    old, new = before.single_paths(traffic), after.single_paths(traffic)
    moved: IntArray = np.flatnonzero((old >= 0) & (new >= 0) & (old != new)).astype(np.int32)
    return moved
