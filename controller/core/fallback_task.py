"""What is enforced in a fall-back: the newest fabric, with the flows of an earlier plan that had room. Pure."""

from __future__ import annotations

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.enforcement_tasks import traffic_of_paths
from controller.core.plan_candidate import PlanCandidate
from controller.core.saved.applied_plan import AppliedPlan
from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Int64Array, key_parts, unit_key
from controller.routing import PreviousPlan
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.registry import encode_flows


def fallback_task(state: ControllerState, learn: bool, applied: AppliedPlan) -> EnforcementTask:
    """Return the task of a state with the planned flows of an earlier plan.

    These are the flows that are in both plans. A flow whose earlier path is not live (or drained) takes its path in
    the newest plan, so there are not more rules than the earlier plan had, but for a flow with several pieces.

    Args:
        state: with a fabric and a candidate.
        learn: whether hosts may appear that no rule knows.
        applied: the earlier plan.
    """
    fabric, candidate, planned = state.fabric, state.candidate, None
    assert fabric is not None
    assert candidate is not None
    if state.desired.mode == "planned" and applied.enforced:
        traffic, assignment = traffic_of_paths(_paths(fabric, candidate, applied), state.desired.spread_keys)
        encoding = encode_flows(fabric, traffic, assignment, applied.enforcement)
        planned = PlannedFlows(applied.enforcement, traffic, encoding)
    return EnforcementTask(fabric, candidate.usable, planned, state.unknown, learn, state.desired.enforcement)


def _paths(fabric: Fabric, candidate: PlanCandidate, applied: AppliedPlan) -> PreviousPlan:
    """Return the earlier paths of flows that still exist, with those that are not live replaced by the newest."""
    earlier, newest = applied.paths.on(fabric), candidate.paths.on(fabric)
    there = np.isin(earlier.key, unit_key(candidate.traffic.src, candidate.traffic.dst, candidate.traffic.udp_src))
    dead = there & ~_live(candidate.usable, earlier.key, earlier.path)
    # A piece cannot move by itself: the shares of a flow belong together.
    kept = there & ~np.isin(earlier.key, earlier.key[dead])
    moved = np.isin(newest.key, earlier.key[dead])
    key = np.concatenate([earlier.key[kept], newest.key[moved]])
    order = np.argsort(key, kind="stable")
    path = np.concatenate([earlier.path[kept], newest.path[moved]])
    share = np.concatenate([earlier.share[kept], newest.share[moved]])
    return PreviousPlan(
        earlier.hosts, earlier.paths, key[order], path[order], share[order], earlier.schedule, earlier.classes
    )


def _live(fabric: Fabric, key: Int64Array, path: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return, for each row [R], whether its path class joins the leaves of its hosts."""
    if not len(key):
        return np.zeros(0, dtype=np.bool_)
    src, dst, _ = key_parts(key)
    return fabric.live_ways.joined(fabric.host_leaf[src], fabric.host_leaf[dst], path)
