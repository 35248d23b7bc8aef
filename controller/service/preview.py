"""What a change would do, compared with what is: pure, and nothing of it is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from controller.config import Settings
from controller.model.errors import InputError, NotFoundError
from controller.model.fabric import Fabric
from controller.planning.drain import cables_of
from controller.planning.kept_paths import moved_flows
from controller.planning.plan_document import slowest
from controller.rest.backend import Mode
from controller.rest.schemas import PreviewForm
from controller.service.admission import Tried
from controller.service.draft import Draft, make_draft
from controller.service.step import Step
from controller.service.wanted import Admitted, Wanted, revision

MOST_MOVED = 1000
"""Flows that are named."""


def compare(
    settings: Settings,
    policies: Sequence[str],
    intended: Fabric | None,
    step: Step,
    tried: Tried,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Plan what would be wanted as the next step would, and tell both plans side by side.

    Raises:
        InputError: no policy has the name that is to be tried, or there would be more jobs than there may be.
        NotFoundError: a job to delete, or a cable, spine or leaf, that is not there.
    """
    before = step.draft
    assert before is not None
    assert step.fabric is not None
    tried_settings = _settings(settings, tried.form, policies)
    wanted = _wanted(step.wanted, step.fabric, tried, settings.max_jobs)
    after = make_draft(tried_settings, intended, step.fabric, wanted, step.memory, clock, before=before)
    moved = moved_flows(after.traffic, before.paths.on(step.fabric), after.paths)
    names = sorted({job.name for job in (*step.wanted.jobs, *wanted.jobs)})
    return {
        "epoch": step.epoch,
        "before": _value(settings, before, step.wanted.mode),
        "after": _value(tried_settings, after, wanted.mode),
        "moved_count": len(moved),
        "moved": [after.traffic.flow_id(flow) for flow in moved[:MOST_MOVED].tolist()],
        "jobs": [{"job": name, "before": _slowest(before, name), "after": _slowest(after, name)} for name in names],
        "still_used": list(after.drain.still_used),
    }


def _settings(settings: Settings, form: PreviewForm, policies: Sequence[str]) -> Settings:
    """The options with the policy and the seed to try."""
    if form.policy is not None and form.policy not in policies:
        raise InputError(f"no such policy; there are {', '.join(policies)}", field="policy", value=form.policy)
    return dataclasses.replace(
        settings,
        policy=settings.policy if form.policy is None else form.policy,
        seed=settings.seed if form.seed is None else form.seed,
    )


def _wanted(wanted: Wanted, fabric: Fabric, tried: Tried, max_jobs: int) -> Wanted:
    """What would be wanted."""
    form = tried.form
    for name in form.delete:
        if wanted.job(name) is None:
            raise NotFoundError("job", name)
        wanted = wanted.without_job(name)
    for name in {*form.drain, *form.undrain} - wanted.drained:
        cables_of(fabric, name)
    for name, document, traffic in tried.jobs:
        old = wanted.job(name)
        new = Admitted(
            name=name,
            document=document,
            revision=revision("" if old is None else old.revision, document),
            position=wanted.next_position if old is None else old.position,
            changed=0.0,
            by="",
            ports=traffic.udp_src,
            traffic=traffic,
        )
        wanted = wanted.with_job(new)
    if tried.jobs and len(wanted.jobs) > max_jobs:
        raise InputError(f"that makes {len(wanted.jobs)} jobs, and there is room for {max_jobs}", field="put")
    drained = (wanted.drained | set(form.drain)) - set(form.undrain)
    return dataclasses.replace(wanted, drained=drained, mode=form.mode or wanted.mode)


def _value(settings: Settings, draft: Draft, mode: Mode) -> dict[str, Any]:
    plan = draft.plan
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
        "flows": draft.traffic.n_flows,
        "unroutable": len(plan.unroutable),
    }


def _slowest(draft: Draft, job: str) -> float | None:
    return slowest(draft.plan, [k for k, row in enumerate(draft.traffic.collectives) if row.job == job])
