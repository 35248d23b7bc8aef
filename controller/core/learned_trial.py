"""Trial plans of learned jobs: what planning gains over hashing, and whether another plan pays. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from controller.config import Settings, options_of
from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.plan_candidate import PlanCandidate, make_candidate
from controller.core.reconcile import barred_for
from controller.learning.acting import pays
from controller.model.fabric import Fabric
from controller.model.paths.barred_paths import NONE_BARRED
from controller.model.plan import Plan
from controller.planning.kept_paths import moved_flows
from controller.planning.make_plan import make_plan
from controller.planning.remaining_capacity import with_loads
from controller.routing import PreviousPlan
from controller.workload.expand import combine


class LearnedSpeeds(NamedTuple):
    """Speeds of a learned job's slowest group, if its flows are hashed and if they are planned."""

    hashed_speed: float
    planned_speed: float


def gains(
    settings: Settings,
    intended: Fabric | None,
    state: ControllerState,
    desired: DesiredState,
    clock: Callable[[], float],
) -> Mapping[str, LearnedSpeeds]:
    """Return the speeds of the learned jobs of a desired state, by name, beside what pushed jobs send."""
    candidate = _try(settings, intended, state, desired, clock)
    if candidate is None or candidate.of_learned is None:
        return {}
    traffic = combine(desired.learned_traffic)
    left = with_loads(candidate.pushed.planned_on, candidate.pushed.plan.objective.link_load)
    hashed = make_plan(left, traffic, policy="ecmp", seed=settings.seed, clock=clock).objective.speed
    planned = candidate.of_learned.objective.speed
    by_job: dict[str, LearnedSpeeds] = {}
    for k, row in enumerate(traffic.collectives):
        if np.isnan(planned[k]):
            continue
        before = by_job.get(row.job, LearnedSpeeds(1.0, 1.0))
        by_job[row.job] = LearnedSpeeds(
            min(before.hashed_speed, float(hashed[k])), min(before.planned_speed, float(planned[k]))
        )
    return by_job


def another_plan_pays(
    settings: Settings,
    intended: Fabric | None,
    state: ControllerState,
    desired: DesiredState,
    clock: Callable[[], float],
) -> bool:
    """Return whether the learned jobs of a desired state gain enough by a new plan, against the paths of today.

    If the desired state has another background load than the present one, all jobs count: all are planned beside it.
    """
    applied, fabric = state.applied, state.fabric
    new = _try(settings, intended, state, desired, clock)
    if applied is None or fabric is None or new is None:
        return False
    kept = _try(settings, intended, state, desired, clock, take=applied.paths)
    assert kept is not None
    price = options_of(settings).churn_price
    if desired.background != state.desired.background:
        moved = moved_flows(new.traffic, applied.paths.on(fabric), new.paths)
        return pays(_value(kept.plan), _value(new.plan), len(moved), new.traffic.n_flows, price)
    if new.of_learned is None or kept.of_learned is None:
        return False
    traffic = combine(desired.learned_traffic)
    moved = moved_flows(traffic, applied.paths.on(fabric), new.paths)
    return pays(_value(kept.of_learned), _value(new.of_learned), len(moved), traffic.n_flows, price)


def _try(
    settings: Settings,
    intended: Fabric | None,
    state: ControllerState,
    desired: DesiredState,
    clock: Callable[[], float],
    take: PreviousPlan | None = None,
) -> PlanCandidate | None:
    if state.fabric is None:
        return None
    barred = NONE_BARRED if state.network is None else barred_for(state.fabric, state.network, desired)
    return make_candidate(
        settings,
        intended,
        state.fabric,
        desired,
        state.applied,
        clock,
        before=state.candidate,
        take=take,
        barred=barred,
    )


def _value(plan: Plan) -> float:
    """Return what ``fair`` maximises: less slowdown where computing times are known, else the lowest level."""
    return 1 / plan.times.slowdown if plan.times is not None else plan.objective.min_level
