"""Planning of a traffic on a fabric: a policy's assignment with its objective and bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import Fabric
from controller.model.paths.barred_paths import NONE_BARRED, BarredPaths
from controller.model.plan import Bound, Objective, Plan
from controller.model.timing import PlanTimes
from controller.model.traffic import Traffic
from controller.planning.around_barred import STATUS, around
from controller.routing import Options, PreviousPlan, Result, assign
from controller.routing.objective.bounds import bound, gap
from controller.routing.objective.fairness import evaluate
from controller.routing.problem.demand import Demand, on_healthy
from controller.routing.problem.rounds import as_sent, phases_of_rounds, summed
from controller.routing.times.flow_estimate import plan_times
from controller.routing.times.starving import starved


def make_plan(
    fabric: Fabric,
    traffic: Traffic,
    *,
    policy: str,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    intended: Fabric | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
    exact_bound: bool = False,
    barred: BarredPaths = NONE_BARRED,
    clock: Callable[[], float],
) -> Plan:
    """Plan a traffic.

    Args:
        fabric: the fabric to plan on.
        traffic: the flows.
        policy: the name of the policy.
        seed: the seed of the policy.
        previous: the previous plan, for policies that limit moves.
        intended: the fabric as configured, the reference of slowdowns; by default, ``fabric`` with everything up.
        options: the options of the policy.
        exact_bound: compute the exact bound with free splitting, whatever time that takes.
        barred: paths that the plan avoids; bounds are those of plans that may use them.
        clock: returns seconds; measures the policy's own work.

    Raises:
        InputError: no policy has this name.
        ValueError: the intended fabric has other hosts.
    """
    started = clock()
    result = _around(
        fabric, traffic, assign(policy, fabric, traffic, seed=seed, previous=previous, options=options), barred
    )
    seconds = clock() - started
    return appraise(
        fabric,
        traffic,
        result,
        policy=policy,
        seconds=seconds,
        intended=intended,
        demand=result.demand,
        exact_bound=exact_bound,
    )


def _around(fabric: Fabric, traffic: Traffic, result: Result, barred: BarredPaths) -> Result:
    """Return the result of a policy without barred paths."""
    if not barred.of_pair:
        return result
    demand = result.demand or Demand.of(fabric, as_sent(traffic))
    assignment = around(fabric, traffic, result.assignment, barred, demand)
    if assignment is None:
        return result
    # A bound for single paths is no less one where some of them are barred.
    return dataclasses.replace(result, assignment=assignment, status=STATUS, demand=demand)


def appraise(
    fabric: Fabric,
    traffic: Traffic,
    result: Result,
    *,
    policy: str,
    seconds: float,
    intended: Fabric | None = None,
    demand: Demand | None = None,
    exact_bound: bool = False,
) -> Plan:
    """Evaluate an assignment from any source: with its objective and the bounds it is a plan.

    Args:
        fabric: the fabric of the assignment.
        traffic: the flows, with the classes of priority that jobs state.
        result: the assignment, with the policy's bounds and status.
        policy: the name of the policy.
        seconds: the time that the policy took.
        intended: the fabric as configured; see ``make_plan``.
        demand: ``Demand.of(fabric, as_sent(traffic))``, if the caller has it already.
        exact_bound: see ``make_plan``.

    Raises:
        ValueError: the intended fabric has other hosts.
    """
    demand = demand or Demand.of(fabric, as_sent(traffic))
    if result.classes:
        is_whole = demand.traffic is traffic
        traffic = traffic.with_classes(result.classes)
        parts = traffic if is_whole else demand.traffic.with_classes(result.classes)
        demand = dataclasses.replace(demand, traffic=parts)
    objective = evaluate(fabric, traffic, result.assignment, demand=demand)
    if intended is not None:
        objective = _against(intended, fabric, traffic, objective)
    proved = bound(fabric, traffic, demand=demand, reached=objective.min_level, exact=exact_bound)
    limit = _tighter(proved, result.bound)
    return Plan(
        traffic_version=traffic.version,
        policy=policy,
        assignment=result.assignment,
        objective=objective,
        bound=limit,
        gap=gap(objective, limit, result.assignment),
        unroutable=result.assignment.flow[result.assignment.path == UNROUTABLE],
        seconds=max(0.0, seconds),
        status=result.status,
        times=_in_phases(traffic, demand.traffic, plan_times(demand, result.assignment)),
        schedule=result.schedule,
        starved=starved(demand, result.assignment),
        classes=result.classes,
    )


def _against(intended: Fabric, fabric: Fabric, traffic: Traffic, objective: Objective) -> Objective:
    """Return the objective with slowdowns relative to the intended fabric, unless that is this one, healthy."""
    if intended.link_ids == fabric.link_ids and np.array_equal(intended.link_gbps, fabric.link_gbps):
        return objective
    if [host.name for host in intended.hosts] != [host.name for host in fabric.hosts]:
        raise ValueError("the hosts of the intended fabric differ from those of the fabric to plan for")
    parts = as_sent(traffic)
    alone = summed(traffic, parts, on_healthy(intended, parts).ideal_seconds)
    return dataclasses.replace(objective, healthy_seconds=alone)


def _in_phases(traffic: Traffic, parts: Traffic, times: PlanTimes | None) -> PlanTimes | None:
    """Return the times of jobs with the seconds of phases in place of those of rounds."""
    if times is None or len(parts.collectives) == len(traffic.collectives):
        return times
    phase_of = phases_of_rounds(traffic, parts)
    jobs = []
    for row in times.jobs:
        seconds: dict[int, float] = {}
        for number, own in row.phase_seconds:
            phase = phase_of[row.job, number]
            seconds[phase] = seconds.get(phase, 0.0) + own
        jobs.append(dataclasses.replace(row, phase_seconds=tuple(seconds.items())))
    return dataclasses.replace(times, jobs=tuple(jobs))


def _tighter(one: Bound, other: Bound) -> Bound:
    """Combine two bounds; a bound for free splitting holds for single paths, too."""
    split = _least(one.split, other.split)
    exact = any(each.split_exact for each in (one, other) if each.split is not None and each.split == split)
    return Bound(split, _least(split, one.single, other.single), exact)


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)
