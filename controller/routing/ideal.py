"""A_k: the seconds a collective takes alone on the live fabric, with its flows split at will.

This is a concurrent-flow optimum. It is never less than the narrowest *cut* requires: a host link, all uplinks of
a leaf together, all its downlinks together. Where no leaf can distinguish the spines, spreading every flow evenly
reaches that bound. Elsewhere an even spread, levelled a little, usually reaches it as well; only the remaining
collectives go to the linear program.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.routing import concurrent
from controller.routing.kernels import spread


def ideal_seconds(
    fabric: Fabric, traffic: Traffic, leaf_src: IntArray, leaf_dst: IntArray, fixed: IntArray
) -> FloatArray:
    """Return the ideal times [K] in seconds; NaN for a collective without flows or with an unroutable one.

    >>> from controller.model.clos import clos
    >>> from controller.routing.demand import Demand
    >>> from controller.model.traffic import Collective
    >>> one = np.array([0, 1], np.int32)
    >>> gigabytes = np.array([10, 5]) * 10**9
    >>> traffic = Traffic(one, one + 2, gigabytes, one * 0, one, one + 49152, (Collective("j", "c"),))
    >>> Demand.of(clos(2, 2, 2), traffic).ideal_seconds  # 10 GB through one 100 Gbit/s NIC: 0.8 s
    array([0.8])
    """
    order, ptr = traffic.by_collective
    up_gbps, down_gbps = _leaf_capacity(fabric)
    cut: FloatArray = spread.cut_seconds(
        order, ptr, traffic.src, traffic.dst, traffic.bytes, leaf_src, leaf_dst, fixed, fabric.link_gbps,
        fabric.n_hosts, up_gbps, down_gbps,
    )  # fmt: skip
    if fabric.path_type.max(initial=-1) <= 0:
        return cut
    reached = spread.spread_reaches(
        order,
        ptr,
        traffic.bytes,
        leaf_src,
        leaf_dst,
        fixed,
        cut,
        fabric.tiers[0],
        fabric.link_gbps,
        fabric.shares_links,
    )
    for k in range(len(cut)):
        if not reached[k]:
            flows = order[ptr[k] : ptr[k + 1]]
            flows = flows[fixed[flows] >= 0]
            seconds = concurrent.least_time(
                fabric, leaf_src[flows], leaf_dst[flows], (traffic.bytes[flows] * GBIT).astype(np.float64)
            )
            cut[k] = max(cut[k], seconds)
    return cut


def _leaf_capacity(fabric: Fabric) -> tuple[FloatArray, FloatArray]:
    """Return the total Gbit/s [L] of each leaf's live uplinks, and of its downlinks."""
    first = fabric.first_cable_link
    gbps = np.where(fabric.link_up, fabric.link_gbps, 0.0)
    up = np.bincount(fabric.cable_lower, weights=gbps[first::2], minlength=fabric.n_leaves)
    down = np.bincount(fabric.cable_lower, weights=gbps[first + 1 :: 2], minlength=fabric.n_leaves)
    return up.astype(np.float64), down.astype(np.float64)
