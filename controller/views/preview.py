"""The document of a preview: the plan after a change beside the plan of now. Pure; nothing of it is saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState, revision
from controller.core.plan_candidate import PlanCandidate, make_candidate
from controller.core.preview_request import ExpandedPreview, PreviewRequest
from controller.model.choices.enforcement import Mode
from controller.model.errors import InputError, NotFoundError
from controller.model.fabric import Fabric
from controller.planning.drain import cables_of
from controller.planning.kept_paths import moved_flows
from controller.planning.plan_document import slowest
from controller.planning.plane_drain import moved_to_other_planes

MOST_MOVED = 1000
"""Flows that are named."""


def compare(
    settings: Settings,
    policies: Sequence[str],
    intended: Fabric | None,
    state: ControllerState,
    preview: ExpandedPreview,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Plan for the changed desired state, as reconciling would, and return both plans side by side.

    Raises:
        InputError: no policy has the name that is to be tried, or there would be more jobs than there may be.
        NotFoundError: a job to delete, or a cable, switch, pod or plane, that is not there.
    """
    before = state.candidate
    assert before is not None
    assert state.fabric is not None
    tried_settings = _settings(settings, preview.request, policies)
    desired = _desired_after(state.desired, state.fabric, preview, settings.max_jobs)
    after = make_candidate(tried_settings, intended, state.fabric, desired, state.applied, clock, before=before)
    moved = np.union1d(
        moved_flows(after.traffic, before.paths.on(state.fabric), after.paths),
        moved_to_other_planes(state.fabric, before.traffic, after.traffic),
    )
    names = sorted({job.name for job in (*state.desired.jobs, *desired.jobs)})
    return {
        "epoch": state.epoch,
        "before": _value(settings, before, state.desired.mode),
        "after": _value(tried_settings, after, desired.mode),
        "moved_count": len(moved),
        "moved": [after.traffic.flow_id(flow) for flow in moved[:MOST_MOVED].tolist()],
        "jobs": [{"job": name, "before": _slowest(before, name), "after": _slowest(after, name)} for name in names],
        "still_used": list(after.drain.still_used),
    }


def _settings(settings: Settings, request: PreviewRequest, policies: Sequence[str]) -> Settings:
    """Return the options with the policy and the seed of the request."""
    if request.policy is not None and request.policy not in policies:
        raise InputError(
            f"no policy has this name; there are {', '.join(policies)}", field="policy", value=request.policy
        )
    return dataclasses.replace(
        settings,
        policy=settings.policy if request.policy is None else request.policy,
        seed=settings.seed if request.seed is None else request.seed,
    )


def _desired_after(desired: DesiredState, fabric: Fabric, preview: ExpandedPreview, max_jobs: int) -> DesiredState:
    """Return the desired state with the changes of the request."""
    request = preview.request
    for name in request.delete:
        if desired.job(name) is None:
            raise NotFoundError("job", name)
        desired = desired.without_job(name)
    for name in {*request.drain, *request.undrain} - desired.drained:
        cables_of(fabric, name)
    for name, document, traffic in preview.jobs:
        old = desired.job(name)
        new = AdmittedJob(
            name=name,
            document=document,
            revision=revision("" if old is None else old.revision, document),
            position=desired.next_position if old is None else old.position,
            changed=0.0,
            by="",
            ports=traffic.udp_src,
            traffic=traffic,
        )
        desired = desired.with_job(new)
    if preview.jobs and len(desired.jobs) > max_jobs:
        raise InputError(f"this gives {len(desired.jobs)} jobs; at most {max_jobs} are allowed", field="put")
    drained = (desired.drained | set(request.drain)) - set(request.undrain)
    return dataclasses.replace(desired, drained=drained, mode=request.mode or desired.mode)


def _value(settings: Settings, candidate: PlanCandidate, mode: Mode) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "policy": plan.policy,
        "seed": settings.seed,
        "mode": mode,
        "min_speed": plan.objective.min_speed,
        "min_level": plan.objective.min_level,
        "bound_split": plan.bound.split,
        "bound_single": plan.bound.single,
        "gap": plan.gap,
        "levels": [
            {"level": level.level, "bound": level.bound, "collectives": level.collectives}
            for level in plan.objective.levels
        ],
        "flows": candidate.traffic.n_flows,
        "unroutable": len(plan.unroutable),
    }


def _slowest(candidate: PlanCandidate, job: str) -> float | None:
    return slowest(candidate.plan, [k for k, row in enumerate(candidate.traffic.collectives) if row.job == job])
