"""Comparison of several policies on one traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.routing import Options
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent


@dataclass(frozen=True)
class PolicyResult:
    """The result of one policy.

    Attributes:
        mean_speed: over the collectives that are on the network, 0 counting for one with an unroutable flow;
            ``None`` where there are none.
        busiest_link: that between switches with the highest load over capacity; ``None`` where none carries anything.
            Hosts' links are left out: no policy changes their load.
        pressure: load over capacity of that link if every collective ran at speed 1; above 1, it slows some of them.
        pieces: (flow, path) pairs; as many as flows where none is split.
    """

    plan: Plan
    mean_speed: float | None
    busiest_link: str | None
    pressure: float
    pieces: int


def compare(
    fabric: Fabric,
    traffic: Traffic,
    policies: Sequence[str],
    *,
    seed: int = 0,
    options: Options = Options(),  # noqa: B008 (frozen)
    clock: Callable[[], float],
) -> list[PolicyResult]:
    """Plan with each policy and return one result a policy, in the order given.

    Raises:
        InputError: no policy has one of the names.
    """
    demand = Demand.of(fabric, as_sent(traffic))
    plans = (make_plan(fabric, traffic, policy=name, seed=seed, options=options, clock=clock) for name in policies)
    return [_standing(demand, plan) for plan in plans]


def _standing(demand: Demand, plan: Plan) -> PolicyResult:
    fabric = demand.fabric
    speed = plan.objective.speed
    load = Incidence.of(demand, plan.assignment).loads(demand, np.ones(len(demand.traffic.collectives)))
    first = fabric.first_cable_link
    pressure = load[first:] / fabric.link_gbps[first:]
    worst = float(pressure.max(initial=0.0))
    return PolicyResult(
        plan=plan,
        mean_speed=None if np.isnan(speed).all() else float(np.nanmean(speed)),
        busiest_link=fabric.link_ids[first + int(np.argmax(pressure))] if worst > 0 else None,
        pressure=worst,
        pieces=plan.assignment.n_rows,
    )
