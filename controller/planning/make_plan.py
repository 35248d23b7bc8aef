"""From fabric and traffic to a plan: a policy's assignment, what it is worth, and what nothing could beat."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import Fabric
from controller.model.plan import Bound, Objective, Plan
from controller.model.traffic import Traffic
from controller.routing import Options, Previous, Result, assign
from controller.routing.bounds import bound, gap
from controller.routing.demand import Demand
from controller.routing.objective import evaluate


def make_plan(
    fabric: Fabric,
    traffic: Traffic,
    *,
    policy: str,
    seed: int = 0,
    previous: Previous | None = None,
    intended: Fabric | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
    clock: Callable[[], float],
) -> Plan:
    """Plan a traffic.

    Args:
        previous: the plan before, for policies that move as little as they can.
        intended: the fabric as it is meant to be, against which slowdown is told; without it, ``fabric`` with
            everything up.
        clock: seconds, around the policy's own work.

    Raises:
        InputError: no policy has this name.
        ValueError: the intended fabric has other hosts.
    """
    started = clock()
    result = assign(policy, fabric, traffic, seed=seed, previous=previous, options=options)
    seconds = clock() - started
    return appraise(fabric, traffic, result, policy=policy, seconds=seconds, intended=intended)


def appraise(
    fabric: Fabric,
    traffic: Traffic,
    result: Result,
    *,
    policy: str,
    seconds: float,
    intended: Fabric | None = None,
    demand: Demand | None = None,
) -> Plan:
    """What an assignment is worth, wherever it comes from: with its objective and the bounds, a plan.

    Args:
        demand: ``Demand.of(fabric, traffic)``, if it is there already.

    Raises:
        ValueError: the intended fabric has other hosts.
    """
    demand = demand or Demand.of(fabric, traffic)
    objective = evaluate(fabric, traffic, result.assignment, demand=demand)
    if intended is not None:
        objective = _against(intended, fabric, traffic, objective)
    limit = _tighter(bound(fabric, traffic, demand=demand), result.bound)
    return Plan(
        fabric_version=fabric.version,
        traffic_version=traffic.version,
        policy=policy,
        assignment=result.assignment,
        objective=objective,
        bound=limit,
        gap=gap(objective, limit, result.assignment),
        unroutable=result.assignment.flow[result.assignment.path == UNROUTABLE],
        seconds=max(0.0, seconds),
        status=result.status,
    )


def _against(intended: Fabric, fabric: Fabric, traffic: Traffic, objective: Objective) -> Objective:
    """The objective with its slowdown told against the intended fabric where that is not simply this one, healthy."""
    if intended.link_ids == fabric.link_ids and np.array_equal(intended.link_gbps, fabric.link_gbps):
        return objective
    if [host.name for host in intended.hosts] != [host.name for host in fabric.hosts]:
        raise ValueError("the intended fabric has other hosts than the one that is planned for")
    return dataclasses.replace(objective, healthy_seconds=Demand.of(intended.healthy(), traffic).ideal_seconds)


def _tighter(one: Bound, other: Bound) -> Bound:
    """What two proofs say together; what holds for free splitting holds for single paths, too."""
    split = _least(one.split, other.split)
    return Bound(split, _least(split, one.single, other.single))


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)
