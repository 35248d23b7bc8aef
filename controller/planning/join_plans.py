"""Two plans as one: of pushed jobs, and of learned jobs on the capacity that those leave."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.plan import Level, Objective, Plan
from controller.model.timing import PlanTimes
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.planning.sending_seconds import flow_seconds
from controller.routing.objective.bounds import gap
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent, summed


def join_plans(fabric: Fabric, first: Plan, second: Plan, second_traffic: Traffic, traffic: Traffic) -> Plan:
    """Return the plan of both; the flows, speeds and levels of the first stay exactly what they are.

    The bounds of the first hold for both: the lowest level of a plan of all flows is at most that of a plan of some.

    Args:
        fabric: on which the first was planned.
        first: the plan with priority.
        second: a plan on the capacity that the first one leaves.
        second_traffic: its flows.
        traffic: those of the first, then those of the second.
    """
    flows = traffic.n_flows - second_traffic.n_flows
    one, other = first.assignment, second.assignment
    assignment = Assignment(
        np.concatenate([one.flow, other.flow + np.int32(flows)]),
        np.concatenate([one.path, other.path]),
        np.concatenate([one.share, other.share]),
    )
    objective = _joined(first.objective, _against(fabric, second_traffic, second.objective))
    if first.objective.flow_seconds is not None or second.objective.flow_seconds is not None:
        own = traffic.of_flows(np.arange(flows)), second_traffic
        took = [flow_seconds(each, plan.objective) for each, plan in zip(own, (first, second), strict=True)]
        objective = dataclasses.replace(objective, flow_seconds=np.concatenate(took))
    return Plan(
        traffic_version=traffic.version,
        policy=first.policy,
        assignment=assignment,
        objective=objective,
        bound=first.bound,
        gap=gap(objective, first.bound, assignment),
        unroutable=np.concatenate([first.unroutable, second.unroutable + np.int32(flows)]),
        seconds=first.seconds + second.seconds,
        status=first.status,
        times=_joined_times(first.times, second.times),
        schedule=first.schedule,
        starved=first.starved,
        classes=first.classes,
    )


def _against(fabric: Fabric, traffic: Traffic, objective: Objective) -> Objective:
    """Return an objective with speeds relative to a fabric with more capacity than that of the plan."""
    parts = as_sent(traffic)
    alone = summed(traffic, parts, Demand.of(fabric, parts).ideal_seconds)
    with np.errstate(invalid="ignore"):
        ratio = np.where(objective.speed > 0, alone / objective.ideal_seconds, 1.0)
    speed = np.minimum(objective.speed * ratio, 1.0)
    level = (speed / traffic.weight)[~np.isnan(objective.ideal_seconds)]
    return dataclasses.replace(
        objective,
        ideal_seconds=alone,
        speed=speed,
        levels=tuple(Level(value, None, 1) for value in level.tolist()),
        min_speed=float(np.nanmin(speed, initial=1.0)),
        min_level=float(level.min()) if len(level) else 1.0,
    )


def _joined(one: Objective, other: Objective) -> Objective:
    return Objective(
        ideal_seconds=np.concatenate([one.ideal_seconds, other.ideal_seconds]),
        healthy_seconds=np.concatenate([one.healthy_seconds, other.healthy_seconds]),
        speed=np.concatenate([one.speed, other.speed]),
        link_load=one.link_load + other.link_load,
        levels=_merged(one.levels + other.levels),
        min_speed=min(one.min_speed, other.min_speed),
        min_level=min(one.min_level, other.min_level),
        exact_phases=one.exact_phases and other.exact_phases,
    )


def _merged(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    steps: list[Level] = []
    for step in sorted(levels, key=lambda step: step.level):
        if steps and step.level <= steps[-1].level * (1 + TOLERANCE):
            steps[-1] = Level(steps[-1].level, None, steps[-1].collectives + step.collectives)
        else:
            steps.append(Level(step.level, None, step.collectives))
    return tuple(steps)


def _joined_times(one: PlanTimes | None, other: PlanTimes | None) -> PlanTimes | None:
    if one is None or other is None:
        return one or other
    jobs = one.jobs + other.jobs
    slowdown = float(np.average([job.slowdown for job in jobs], weights=[job.weight for job in jobs]))
    # A slowdown is at least 1.
    return PlanTimes(jobs, max(1.0, slowdown), 1.0)
