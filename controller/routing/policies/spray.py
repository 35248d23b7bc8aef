"""``spray``: every flow evenly over all its live paths, as packet spraying does.

No rule on a switch divides one flow. Hosts do, where an enforcement spreads packets and jobs take them in any order;
of other jobs its plans are a reference to compare with, and ``validate_assignment`` rejects them by default.
"""

from __future__ import annotations

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.placing.place_units import live_paths
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.problem.previous_plan import PreviousPlan


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign equal shares to all live paths; ``seed``, ``previous`` and ``options`` have no effect."""
    demand = Demand.of(fabric, traffic)
    moving = np.flatnonzero(demand.fixed == NETWORK)
    row, path = live_paths(fabric, demand.leaf_src[moving], demand.leaf_dst[moving])
    count = np.bincount(row, minlength=len(moving))
    settled = np.flatnonzero(demand.fixed != NETWORK)
    flow = np.concatenate([moving[row], settled]).astype(np.int32)
    order = np.argsort(flow, kind="stable")
    return Result(
        Assignment(
            flow[order],
            np.concatenate([path, demand.fixed[settled]]).astype(np.int32)[order],
            np.concatenate([1.0 / count[row], np.ones(len(settled))])[order],
        )
    )
