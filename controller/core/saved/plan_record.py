"""The record of a plan for the history: its inputs, its result, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.reconcile import links_down
from controller.core.speeds.speeds_now import Hindrance, speeds_now
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.planning.kept_paths import moved_flows
from controller.planning.plane_drain import moved_to_other_planes
from controller.routing import PreviousPlan


@dataclass(frozen=True)
class PlanRecord:
    """A plan in the history: its inputs, its result, and its cause. No number in it is NaN.

    Attributes:
        epoch: its number; larger is newer.
        at: when, seconds since 1970.
        cause: what brought it about, for people.
        by: the token whose request it was; ``None``: the network was the cause.
        fabric_version, traffic_version: hashes of what it was made from, as their maker defines them.
        links_down: directed links or cables that were down; drained: ids that were drained; jobs: names, in order.
        seconds: the policy's own time.
        moved: flows that were there before and got another path.
        rollback_of: the epoch whose paths it took up again.
        paths: ``None`` where there are none, and in lists of plans.
        enforcement: by which kind of rules switches followed it, where the mode lets them.
        min_speed: planned; 0 if some flow has no path (records of earlier versions: of the others).
        min_level, bounds, gap: of collectives whose flows all have a path.
        slowest: speed of the slowest job by the rules for it; 0: some flow of the job cannot arrive. ``None``: rules do
            not decide it (switches hash flows), no job uses the network, or the record is of an earlier version.
        reason: why the request was made, in the words of who made it; ``None``: not given.
    """

    epoch: int
    at: float
    cause: str
    by: str | None
    policy: str
    seed: int
    mode: str
    fabric_version: str
    traffic_version: str
    links_down: tuple[str, ...]
    drained: tuple[str, ...]
    jobs: tuple[str, ...]
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    seconds: float
    flows: int
    moved: int
    unroutable: int
    rollback_of: int | None = None
    paths: PreviousPlan | None = None
    enforcement: str = DEFAULT_ENFORCEMENT
    slowest: float | None = None
    reason: str | None = None


def plan_record(
    state: ControllerState,
    before: ControllerState,
    *,
    at: float,
    cause: str = "",
    by: str | None = None,
    reason: str | None = None,
    rollback_of: int | None = None,
) -> PlanRecord | None:
    """Return the record of the plan of a state, or ``None`` where there is no new plan that switches are given.

    In mode ``frozen`` it is the record of what the switches hold: after a restart they are given the same again.

    Args:
        state: the new state.
        before: the state before it.
        at: when it was computed, seconds since 1970.
        cause: what a request (of the token ``by``) changed; changes of the network are in ``state``.
        by: name of the token of that request; ``None``: no request.
        reason: that of the request; ``None``: it gave none.
        rollback_of: epoch of the plan that was restored; ``None``: no rollback.
    """
    candidate, fabric = state.candidate, state.fabric
    if candidate is None or fabric is None or (state.epoch == before.epoch and before.candidate is not None):
        return None
    if state.desired.mode == "frozen" and before.desired.mode == "frozen":
        # The switches get no new rules, and the plan that they hold is recorded already.
        return None
    paths: PreviousPlan | None = candidate.paths
    inputs, down, drained = candidate.inputs, links_down(fabric), state.desired.drained
    enforcement = state.desired.enforcement
    if state.desired.mode == "frozen":
        held = state.applied
        if held is None or not held.given:
            return None
        paths = held.paths if held.enforced else None
        inputs, down, drained = held.inputs, held.links_down, held.drained
        enforcement = held.enforcement
    moved = 0
    if before.applied is not None:
        moving = moved_flows(candidate.traffic, before.applied.paths.on(fabric), candidate.paths)
        if before.candidate is not None and before.fabric is not None and before.fabric.hosts == fabric.hosts:
            others = moved_to_other_planes(fabric, before.candidate.traffic, candidate.traffic)
            moving = np.union1d(moving, others)
        moved = len(moving)
    slowest = speeds_now(state, connected=True, unconfirmed="", hindrance=Hindrance()).slowest
    return PlanRecord(
        epoch=state.epoch,
        at=at,
        cause=_cause(cause, state, before),
        by=by,
        policy=inputs.policy,
        seed=inputs.seed,
        mode=state.desired.mode,
        enforcement=enforcement,
        fabric_version=inputs.fabric,
        traffic_version=inputs.traffic,
        links_down=down,
        drained=tuple(sorted(drained)),
        jobs=tuple(job.name for job in state.jobs if job.traffic is not None),
        min_speed=candidate.plan.objective.min_speed,
        min_level=candidate.plan.objective.min_level,
        bound_split=candidate.plan.bound.split,
        bound_single=candidate.plan.bound.single,
        gap=candidate.plan.gap,
        seconds=candidate.plan.seconds,
        flows=candidate.traffic.n_flows,
        moved=moved,
        unroutable=len(candidate.plan.unroutable),
        rollback_of=rollback_of,
        paths=paths,
        slowest=None if slowest is None else slowest[1],
        reason=reason,
    )


def _cause(asked: str, state: ControllerState, before: ControllerState) -> str:
    """Return the reason for a new plan, for people."""
    causes = [asked] if asked else []
    causes += [f"{name} {'up' if up else 'down'}" for name, up in state.changes[:5]]
    if len(state.changes) > 5:
        causes.append(f"and {len(state.changes) - 5} more")
    return ", ".join(causes) or ("the controller started" if before.candidate is None else "the network changed")
