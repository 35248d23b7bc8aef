"""``coloring``: bipartite edge colouring of the leaf multigraph, spines being the colours.

Fastpass (Perry et al., SIGCOMM 2014) picks paths this way. Where all spines are alike, no uplink or downlink carries
more units than the rounded-up fair share. A unit whose colour is not live for it (missing or failed links) gets its
emptiest path instead, and unequal capacities are not seen: ``fair`` goes on from there.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.demand import Demand
from controller.routing.kernels import edge_coloring, place
from controller.routing.previous import Previous


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: Previous | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """One path a placement unit; ``previous`` and ``options`` change nothing."""
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(color_units(demand, seed)))


def color_units(demand: Demand, seed: int) -> IntArray:
    """[U] path class of each unit."""
    fabric = demand.fabric
    classes = np.flatnonzero(fabric.path_type >= 0).astype(np.int32)
    if not demand.n_units:
        return np.zeros(0, dtype=np.int32)
    src, dst, load = demand.unit_src, demand.unit_dst, demand.unit_load
    order = coloring_order(demand)
    left, n_left = edge_coloring.slots(src, order, fabric.n_leaves, len(classes))
    right, n_right = edge_coloring.slots(dst, order, fabric.n_leaves, len(classes))
    hue = edge_coloring.color(left, right, max(n_left, n_right), len(classes), seed & 0xFFFFFFFF)
    path: IntArray = classes[hue]
    place.repair(src, dst, load, fabric.live_up, fabric.live_down, fabric.link_gbps, path)
    return path


def coloring_order(demand: Demand) -> IntArray:
    """[U] units by phase group, then by falling load: what is adjacent is spread over different spines."""
    load = demand.unit_load
    if len(demand.group_job) == 1:
        if (load[1:] <= load[:-1]).all():
            return np.arange(demand.n_units, dtype=np.int32)
        return np.argsort(-load, kind="stable").astype(np.int32)
    return np.lexsort((-load, demand.part_group[demand.part_ptr[:-1]])).astype(np.int32)
