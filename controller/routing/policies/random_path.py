"""``random``: every placement unit on one of its live paths, chosen uniformly."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.placing.place_units import pick_live
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
    """Assign one path to each unit, drawn from NumPy's PCG64 seeded with ``seed``."""
    demand = Demand.of(fabric, traffic)
    draws = np.random.default_rng(seed).integers(0, 2**32, demand.n_units, dtype=np.uint32)
    return Result(demand.assignment(pick_live(demand, draws)))
