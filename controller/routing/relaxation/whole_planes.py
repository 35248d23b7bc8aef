"""A spread of flows over the planes that failures have left whole, on fabrics of three tiers of switches.

A plane is a choice of the leaves with all switches above it. Where all its links are there and equal, spreading flows
evenly over such planes alone loads links as evenly as on a healthy fabric with fewer planes: whether a collective's
cut times are reached then follows from sums by leaf and by pod. Most failures leave most planes whole, and few
collectives need all planes to be as fast as their hosts allow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Traffic
from controller.routing.kernels.levels import spread


class WholePlanes(NamedTuple):
    """The capacity of whole planes.

    Attributes:
        leaf_gbps: [L] out of and into each leaf.
        pod: [L] pod of each leaf.
        pod_gbps: [P] out of and into each pod.
    """

    leaf_gbps: FloatArray
    pod: IntArray
    pod_gbps: FloatArray


def whole_planes(fabric: Fabric) -> WholePlanes | None:
    """Return the whole planes of a fabric with two tiers of cables; ``None``: there are none, or links differ."""
    ways, gbps = fabric.live_ways, fabric.link_gbps
    lower, upper = ways.tier(0), ways.tier(1)
    if not lower.up.size or not upper.up.size:
        return None
    above = ways.above[ways.table[0] : ways.table[1]].reshape(lower.up.shape)
    complete = np.asarray(((upper.up >= 0) & (upper.down >= 0)).all(axis=1))
    there = np.asarray((lower.up >= 0) & (lower.down >= 0) & (above >= 0))
    there[there] = complete[above[there]]
    planes = np.flatnonzero(there.all(axis=0))
    pod = ways.group[0]
    switches = np.sort(above[:, planes], axis=1)
    first = np.unique(pod, return_index=True)[1]
    if not len(planes) or (switches[:, 1:] == switches[:, :-1]).any() or (switches != switches[first][pod]).any():
        return None
    used = switches[first].ravel()
    capacities = []
    for tables in ((lower.up[:, planes], lower.down[:, planes]), (upper.up[used], upper.down[used])):
        every = np.concatenate([table.ravel() for table in tables])
        capacity = gbps[every]
        if np.bincount(every).max() > 1 or (capacity != capacity[0]).any():
            return None
        capacities.append(float(capacity[0]))
    pod_gbps = capacities[1] * len(planes) * upper.up.shape[1]
    return WholePlanes(np.full(len(pod), capacities[0] * len(planes)), pod, np.full(len(first), pod_gbps))


def reached_on_whole(
    fabric: Fabric, traffic: Traffic, leaf_src: IntArray, leaf_dst: IntArray, fixed: IntArray, seconds: FloatArray
) -> BoolArray:
    """Return whether whole planes alone carry each collective's flows [K] in its seconds (False: it is not known)."""
    planes = whole_planes(fabric)
    if planes is None:
        return np.zeros(len(seconds), dtype=np.bool_)
    order, ptr = traffic.by_collective
    ends = (traffic.src, traffic.dst, traffic.bytes, leaf_src, leaf_dst)
    hosts = (fixed, fabric.link_gbps, fabric.n_hosts)
    least = spread.cut_seconds(order, ptr, *ends, *hosts, planes.leaf_gbps, planes.leaf_gbps)
    above = spread.cut_above(
        order, ptr, traffic.bytes, leaf_src, leaf_dst, planes.pod, planes.pod_gbps, planes.pod_gbps
    )
    # An unroutable flow makes the first one NaN, which reaches nothing.
    reached: BoolArray = np.maximum(least, above) <= seconds * (1.0 + ROUNDING)
    return reached
