"""Hedera's demand estimation: the rates of flows if only host links limited them."""

from __future__ import annotations

from controller.model.fabric import FloatArray
from controller.routing.base import Options
from controller.routing.kernels.placing import place
from controller.routing.problem.demand import Demand


def unit_demand(demand: Demand, options: Options) -> FloatArray:
    """Return the demand [U] of each unit in Gbit/s: its load at level 1, or (``estimate_demand``) Hedera's estimate."""
    if not options.estimate_demand:
        return demand.unit_load
    first = demand.part_flow[demand.part_ptr[:-1]]
    fabric, traffic = demand.fabric, demand.traffic
    gbps = fabric.link_gbps
    estimate: FloatArray = place.estimate_demand(
        traffic.src[first], traffic.dst[first], gbps[: fabric.n_hosts], gbps[fabric.n_hosts : 2 * fabric.n_hosts]
    )
    return estimate
