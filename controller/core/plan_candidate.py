"""A plan for the desired state on a fabric. Pure: reconciling makes one, and a preview tries one.

It is made in two steps. Pushed jobs are planned as if there were no others; learned jobs are then planned on the
capacity that these leave. So learned jobs change neither the paths nor the levels of pushed ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from controller.config import Settings, options_of
from controller.core.desired_state import DesiredState
from controller.core.saved.applied_plan import AppliedPlan
from controller.model.fabric import Fabric
from controller.model.paths.barred_paths import NONE_BARRED, BarredPaths
from controller.model.plan import Bound, Plan
from controller.model.traffic import Traffic
from controller.planning.background import beside_background
from controller.planning.drain import Drain, drain, without_drained
from controller.planning.headroom import with_headroom
from controller.planning.join_plans import join_plans
from controller.planning.kept_paths import plan_from_paths
from controller.planning.live_traffic import live_traffic
from controller.planning.make_plan import make_plan
from controller.planning.plan_inputs import PlanInputs, fabric_hash, traffic_hash
from controller.planning.remaining_capacity import with_loads
from controller.routing import PreviousPlan
from controller.workload.expand import combine


@dataclass(frozen=True)
class PlanCandidate:
    """A plan with its inputs.

    Attributes:
        drain: which drained cables carry nothing, and which are needed all the same.
        usable: the fabric without the former.
        planned_on: ``usable`` without headroom and background load.
        of_pushed: the candidate of the pushed jobs alone; ``None``: there are no others.
        of_learned: the plan of the learned jobs, if there are any.
        learned_on: the version of the fabric on which it was made.
    """

    drain: Drain
    usable: Fabric
    planned_on: Fabric
    traffic: Traffic
    inputs: PlanInputs
    plan: Plan
    of_pushed: PlanCandidate | None = None
    of_learned: Plan | None = None
    learned_on: str = ""

    @property
    def pushed(self) -> PlanCandidate:
        """The candidate of the pushed jobs alone."""
        return self.of_pushed or self

    @cached_property
    def paths(self) -> PreviousPlan:
        """The path of every flow, in the form that is remembered."""
        return PreviousPlan.of(
            self.planned_on, self.traffic, self.plan.assignment, self.plan.schedule, self.plan.classes
        )


def make_candidate(
    settings: Settings,
    intended: Fabric | None,
    fabric: Fabric,
    desired: DesiredState,
    applied: AppliedPlan | None,
    clock: Callable[[], float],
    *,
    before: PlanCandidate | None = None,
    take: PreviousPlan | None = None,
    keep_learned: bool = False,
    barred: BarredPaths = NONE_BARRED,
) -> PlanCandidate:
    """Return the plan of pushed and learned jobs.

    Args:
        settings: headroom, policy, and its seed and options.
        intended: the fabric of the file; ``None``: discovery alone.
        fabric: the fabric as observed.
        desired: jobs and drains.
        applied: the plan that the switches hold; ``None``: none yet.
        clock: seconds, for the policy's own time.
        before: the newest candidate.
        take: paths that flows are to have wherever they are live; the others stay where they are.
        keep_learned: learned flows stay on their live paths, as some of them have ended.
        barred: paths that new plans avoid.
    """
    earlier = None if before is None else before.pushed
    pushed = _of_pushed(settings, intended, fabric, desired, applied, clock, before=earlier, take=take, barred=barred)
    learned = combine(desired.learned_traffic)
    if not learned.n_flows:
        return pushed
    left = with_loads(pushed.planned_on, pushed.plan.objective.link_load)
    plan = None if before is None else before.of_learned
    reference = None if intended is None else with_headroom(intended, settings.headroom)
    same = (
        before is not None
        and plan is not None
        and (before.learned_on, plan.traffic_version) == (left.version, learned.version)
    )
    paths = [] if applied is None else [applied.paths]
    if take is not None:
        plan = plan_from_paths(
            left,
            learned,
            [take, *paths],
            policy=settings.policy,
            status="earlier paths",
            intended=reference,
            clock=clock,
        )
    elif paths and keep_learned and not same:
        plan = plan_from_paths(
            left, learned, paths, policy=settings.policy, status="kept", intended=reference, clock=clock
        )
    elif not same:
        plan = None
    if plan is None or (take is None and barred.rows(left, learned, plan.assignment)):
        plan = make_plan(
            left,
            learned,
            policy=settings.policy,
            seed=settings.seed,
            previous=None if applied is None else applied.paths,
            intended=reference,
            # Programs of learned jobs are told neither shifts nor DSCP, nor to split a flow.
            options=dataclasses.replace(options_of(settings), shifts="off", max_splits=0, classes=1),
            barred=barred,
            clock=clock,
        )
    if desired.traffic:
        every = [*desired.traffic, *desired.learned_traffic]
        traffic = live_traffic(pushed.planned_on, every, pushed.drain.ports).with_classes(pushed.plan.classes)
        both = join_plans(pushed.planned_on, pushed.plan, plan, learned, traffic)
    else:
        traffic, both = learned, plan
    return dataclasses.replace(
        pushed, traffic=traffic, plan=both, of_pushed=pushed, of_learned=plan, learned_on=left.version
    )


def _of_pushed(
    settings: Settings,
    intended: Fabric | None,
    fabric: Fabric,
    desired: DesiredState,
    applied: AppliedPlan | None,
    clock: Callable[[], float],
    *,
    before: PlanCandidate | None = None,
    take: PreviousPlan | None = None,
    barred: BarredPaths = NONE_BARRED,
) -> PlanCandidate:
    """Return the plan of pushed jobs: the earlier one if none of its inputs has changed, else one close to it."""
    aside = drain(fabric, desired.drained)
    usable = without_drained(fabric, aside)
    planned_on = beside_background(usable, settings.headroom, desired.background)
    reference = None if intended is None else with_headroom(intended, settings.headroom)
    traffic = live_traffic(planned_on, desired.traffic, aside.ports)
    same_fabric = before is not None and before.planned_on == planned_on
    inputs = PlanInputs(
        before.inputs.fabric
        if before is not None and same_fabric and before.drain.ports == aside.ports
        else fabric_hash(planned_on, aside.ports),
        traffic_hash(
            (
                (job.name, job.revision, job.ports, [row.qps for row in job.traffic.collectives])
                for job in desired.jobs
                if job.traffic is not None
            ),
            planned_on.tenants,
        ),
        settings.policy,
        settings.seed,
    )

    def candidate(plan: Plan) -> PlanCandidate:
        return PlanCandidate(aside, usable, planned_on, traffic.with_classes(plan.classes), inputs, plan)

    recalled = [] if applied is None else [applied.paths]
    paths: list[PreviousPlan] | None
    if take is not None:
        paths = [take, *recalled] if before is None else [take, before.paths]
        status = "kept" if applied is not None and take is applied.paths else "earlier paths"
    elif before is not None and before.inputs == inputs and same_fabric:
        paths = None
        if not barred.rows(planned_on, traffic, before.plan.assignment):
            return candidate(before.plan)
    elif applied is not None and applied.inputs == inputs:
        paths, status = recalled, "kept"
    else:
        paths = None
    if paths is not None:
        bound = applied.bound if applied is not None and applied.inputs == inputs else Bound()
        known = plan_from_paths(
            planned_on,
            traffic,
            paths,
            policy=settings.policy,
            status=status,
            bound=bound,
            intended=reference,
            clock=clock,
        )
        if take is not None or not barred.rows(planned_on, traffic, known.assignment):
            return candidate(known)
    return candidate(
        make_plan(
            planned_on,
            traffic,
            policy=settings.policy,
            seed=settings.seed,
            previous=applied.paths if applied is not None else None,
            intended=reference,
            options=options_of(settings),
            barred=barred,
            clock=clock,
        )
    )
