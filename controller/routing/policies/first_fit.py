"""``first_fit``: Global First Fit of Hedera (Al-Fares et al., NSDI 2010).

Flows are placed in order; each takes the first path whose two links still have room for its demand, and reserves it.
A flow that fits nowhere keeps its ECMP path.
"""

from __future__ import annotations

from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.placing import place_units as placing
from controller.routing.policies import ecmp
from controller.routing.policies.hedera import unit_demand
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign one path to each placement unit; ``seed`` seeds the ECMP hash. See ``Options.estimate_demand``."""
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(place_units(demand, seed, options)))


def place_units(demand: Demand, seed: int, options: Options) -> IntArray:
    """Return the path class [U] of each unit."""
    path = ecmp.hash_units(demand, seed, options)
    placing.first_fit(demand, unit_demand(demand, options), path)
    return path
