"""``path_pinning``: the path is a function of the destination's position in its rack, whatever is sent.

Meta's first scheme ("RDMA over Ethernet for Distributed AI Training at Meta Scale", SIGCOMM 2024): the downlink to the
destination selects the uplink. Hosts of a full rack then have an uplink each. In racks that several jobs share, or
that a job fills in part, destinations of one job can have the same position in different racks, and share uplinks
while others are idle.
"""

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
    """Assign number ``position mod n`` of n live paths; ``seed``, ``previous`` and ``options`` have no effect."""
    demand = Demand.of(fabric, traffic)
    order = np.argsort(fabric.host_leaf, kind="stable")
    leaf = fabric.host_leaf[order]
    position = np.empty(len(leaf), dtype=np.uint32)
    position[order] = np.arange(len(leaf)) - np.searchsorted(leaf, leaf)
    flow = demand.part_flow[demand.part_ptr[:-1]]
    return Result(demand.assignment(pick_live(demand, position[traffic.dst[flow]])))
