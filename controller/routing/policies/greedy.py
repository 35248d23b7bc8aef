"""``greedy``: the placement of "Routing for Large ML Models" (arXiv 2503.05324), with bytes in place of flow counts.

All flows out of a leaf form a set, and so do all flows into it. Sets are taken by total load, the largest first; each
flow of a set that has no path yet gets the spine whose fuller link (its uplink or its downlink) is least loaded.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.kernels.placing import place
from controller.routing.placing import place_units as placing
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
    """Assign one path to each placement unit; ``seed``, ``previous`` and ``options`` have no effect."""
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(place_units(demand)))


def place_units(demand: Demand) -> IntArray:
    """Return the path class [U] of each unit."""
    path = np.empty(demand.n_units, dtype=np.int32)
    order = place.order_by_leaf_sets(demand.unit_src, demand.unit_dst, demand.unit_load, demand.fabric.n_leaves)
    placing.least_loaded(demand, order, path)
    return path
