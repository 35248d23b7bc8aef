"""The document of a preview: the plan after a change beside the plan of now. Pure; nothing of it is saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState, revision
from controller.core.enforcement_tasks import flow_encoding_for, task_for_mode
from controller.core.plan_candidate import PlanCandidate, make_candidate
from controller.core.port_choice import own_ports
from controller.core.ports.enforcer import CompiledPlan, Compiler
from controller.core.reconcile import barred_for
from controller.core.requests.preview_request import ExpandedPreview, PreviewRequest
from controller.core.speeds.job_speeds import JobSpeeds, job_speeds
from controller.core.speeds.speeds_now import Hindrance, SpeedsNow, speeds_now
from controller.model.errors import InputError, NotFoundError
from controller.model.fabric import Fabric, FloatArray
from controller.model.paths.barred_paths import NONE_BARRED
from controller.planning.drain import cables_of
from controller.planning.hashed_speeds import hashed_speeds
from controller.planning.kept_paths import moved_flows
from controller.planning.plane_drain import moved_to_other_planes
from controller.telemetry.trace_summary import spread
from controller.views.documents import drain_outcome

MOST_MOVED = 1000
"""Flows that are named."""


def compare(
    settings: Settings,
    policies: Sequence[str],
    intended: Fabric | None,
    state: ControllerState,
    preview: ExpandedPreview,
    clock: Callable[[], float],
    compiler: Compiler,
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
    barred = NONE_BARRED if state.network is None else barred_for(state.fabric, state.network, desired)
    after = make_candidate(
        tried_settings, intended, state.fabric, desired, state.applied, clock, before=before, barred=barred
    )
    moved = np.union1d(
        moved_flows(after.traffic, before.paths.on(state.fabric), after.paths),
        moved_to_other_planes(state.fabric, before.traffic, after.traffic),
    )
    names = sorted({job.name for job in (*state.desired.jobs, *desired.jobs)})
    was = _Side(settings, state.desired, before, state.speeds, _most_rules(state.fabric, state.compiled))
    # A job that is new has no speed in the state before; the paths of mode frozen are those that switches hold.
    speeds = job_speeds(desired.mode, state.fabric, after, state.applied, JobSpeeds(), headroom=tried_settings.headroom)
    tried = _Side(tried_settings, desired, after, speeds, _rules_after(compiler, state, desired, after))
    return {
        "epoch": state.epoch,
        "before": was.value(),
        "after": tried.value(),
        "moved_count": len(moved),
        "moved": [after.traffic.flow_id(flow) for flow in moved[:MOST_MOVED].tolist()],
        "jobs": [
            {
                "job": name,
                "before": was.speed(name),
                "after": tried.speed(name),
                "before_expected": was.expected(name),
                "after_expected": tried.expected(name),
            }
            for name in names
        ],
        "drains": [_drained(state.fabric, after, name) for name in dict.fromkeys(preview.request.drain)],
        "still_used": list(after.drain.still_used),
    }


@dataclass(frozen=True)
class _Side:
    """A plan before or after the change, and what becomes of it in its mode."""

    settings: Settings
    desired: DesiredState
    candidate: PlanCandidate
    speeds: JobSpeeds
    most_rules: int

    @cached_property
    def _hashed(self) -> Mapping[str, FloatArray]:
        """The speeds of jobs by hash seed, in mode ``ecmp``."""
        if self.desired.mode != "ecmp":
            return {}
        return hashed_speeds(self.candidate.usable, self.candidate.planned_on, self.candidate.traffic)

    @cached_property
    def _now(self) -> SpeedsNow:
        return speeds_now(
            dataclasses.replace(ControllerState(), desired=self.desired, speeds=self.speeds),
            connected=True,
            unconfirmed="",
            hindrance=Hindrance(),
        )

    def speed(self, job: str) -> float | None:
        return self._now.jobs.get(job)

    def expected(self, job: str) -> dict[str, float] | None:
        drawn = self._hashed.get(job)
        return None if drawn is None else spread(drawn.tolist())

    def value(self) -> dict[str, Any]:
        slowest, drawn = self._now.slowest, list(self._hashed.values())
        return {
            **_value(self.settings, self.candidate, self.desired),
            "slowest": None if slowest is None else slowest[1],
            "expected": spread(np.min(drawn, axis=0).tolist()) if drawn else None,
            "most_rules": self.most_rules,
        }


def _rules_after(compiler: Compiler, state: ControllerState, desired: DesiredState, candidate: PlanCandidate) -> int:
    """Return the rules of the switch with the most after the change.

    Raises:
        InputError: the enforcement cannot carry the jobs.
    """
    assert state.fabric is not None
    if desired.mode == "frozen":
        return _most_rules(state.fabric, state.compiled)
    try:
        encoding = flow_encoding_for(state.fabric, desired, candidate, state.applied)
        compiled = compiler(task_for_mode(state.fabric, desired, candidate, encoding, state.unknown, learn=False))
    except InputError as error:
        raise InputError(str(error), field="enforcement", value=desired.enforcement) from None
    return _most_rules(state.fabric, compiled)


def _most_rules(fabric: Fabric, compiled: CompiledPlan | None) -> int:
    return 0 if compiled is None else max(compiled.size(switch.key) for switch in fabric.switches)


def _drained(fabric: Fabric, candidate: PlanCandidate, name: str) -> dict[str, Any]:
    """Return how the drain of an id would end."""
    cables, used = cables_of(fabric, name), set(candidate.drain.still_used)
    up = {cable for cable, each in zip(fabric.cable_names, fabric.cables, strict=True) if each.up}
    still_used = [cable for cable in cables if cable in used]
    outcome = drain_outcome(still_used, [cable for cable in cables if cable in up])
    return {"id": name, "outcome": outcome, "cables": list(cables), "still_used": still_used}


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
    for i, name in enumerate(request.delete):
        if desired.job(name) is None:
            raise NotFoundError("job", name, field=f"delete[{i}]")
        desired = desired.without_job(name)
    for field, ids in (("drain", request.drain), ("undrain", request.undrain)):
        for i, name in enumerate(ids):
            try:
                if name not in desired.drained:
                    cables_of(fabric, name)
            except NotFoundError as error:
                raise error.in_field(f"{field}[{i}]") from None
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
    after = dataclasses.replace(desired, drained=drained).in_mode(request.mode, request.enforcement)
    for job in after.jobs if after.chooses_ports and not desired.chooses_ports else ():
        if job.traffic is not None and own_ports(job.traffic, after.enforcement):
            reason = f"job {job.name} has source ports of its own, so its paths cannot be selected by them"
            raise InputError(reason, field="enforcement", value=after.enforcement)
    return after


def _value(settings: Settings, candidate: PlanCandidate, desired: DesiredState) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "policy": plan.policy,
        "seed": settings.seed,
        "mode": desired.mode,
        "enforcement": desired.enforcement,
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
