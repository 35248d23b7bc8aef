"""Several policies on one traffic, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric
from controller.model.plan import Plan
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.routing import Options
from controller.routing.demand import Demand
from controller.routing.filling import Incidence


@dataclass(frozen=True)
class Standing:
    """How one policy does.

    Attributes:
        mean_speed: over the collectives that are on the network, 0 counting for one that does not get through;
            ``None`` where there are none.
        busiest_link: the leaf-spine link that is asked for most of its capacity; ``None`` where none carries anything.
            Hosts' links are left out: no policy changes their load.
        pressure: load over capacity of that link if every collective ran at speed 1; above 1, it slows some down.
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
) -> list[Standing]:
    """One standing a policy, in the order given.

    Raises:
        InputError: no policy has one of the names.
    """
    demand = Demand.of(fabric, traffic)
    plans = (make_plan(fabric, traffic, policy=name, seed=seed, options=options, clock=clock) for name in policies)
    return [_standing(demand, plan) for plan in plans]


def _standing(demand: Demand, plan: Plan) -> Standing:
    fabric = demand.fabric
    speed = plan.objective.speed
    load = Incidence.of(demand, plan.assignment).loads(demand, np.ones_like(speed))
    first = fabric.first_cable_link
    pressure = load[first:] / fabric.link_gbps[first:]
    worst = float(pressure.max(initial=0.0))
    return Standing(
        plan=plan,
        mean_speed=None if np.isnan(speed).all() else float(np.nanmean(speed)),
        busiest_link=fabric.link_ids[first + int(np.argmax(pressure))] if worst > 0 else None,
        pressure=worst,
        pieces=plan.assignment.n_rows,
    )
