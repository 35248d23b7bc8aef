"""A_k: the seconds a collective takes alone on the live fabric, with its flows split at will.

This is a concurrent-flow optimum. It is never less than the narrowest *cut* requires: a host link, all uplinks of
a leaf together, all its downlinks together, and so on for a pod. Where the paths of two leaves are alike, spreading
every flow evenly reaches that bound. Elsewhere an even spread, levelled a little, usually reaches it as well; the
remaining collectives are spread by prices of links, and small ones of those for which that proves nothing go to the
linear program (``least_times``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.routing.kernels.levels import spread, spread_by_tier
from controller.routing.relaxation.least_times import LeastTimes
from controller.routing.relaxation.whole_planes import reached_on_whole

LARGE = 512
"""Flows of a collective for which spreads are not worth their time before those by prices."""


class IdealTimes(NamedTuple):
    """The ideal times of K collectives.

    Attributes:
        seconds: [K] NaN for a collective without flows or with an unroutable one.
        within: [K] by what part of it each ideal time may be longer: 0 unless its linear program is too large.
    """

    seconds: FloatArray
    within: FloatArray


def cut_times(fabric: Fabric, traffic: Traffic, leaf_src: IntArray, leaf_dst: IntArray, fixed: IntArray) -> FloatArray:
    """Return the seconds [K] that the narrowest cut requires of each collective; NaN as in ``IdealTimes``.

    >>> from controller.model.files.clos import clos
    >>> from controller.routing.problem.demand import Demand
    >>> from controller.model.traffic import Collective
    >>> one = np.array([0, 1], np.int32)
    >>> gigabytes = np.array([10, 5]) * 10**9
    >>> traffic = Traffic(one, one + 2, gigabytes, one * 0, one, one + 49152, (Collective("j", "c"),))
    >>> Demand.of(clos(2, 2, 2), traffic).ideal_seconds  # 10 GB through one 100 Gbit/s NIC: 0.8 s
    array([0.8])
    """
    order, ptr = traffic.by_collective
    leaves = fabric.cuts[0]
    cut: FloatArray = spread.cut_seconds(
        order,
        ptr,
        traffic.src,
        traffic.dst,
        traffic.bytes,
        leaf_src,
        leaf_dst,
        fixed,
        fabric.link_gbps,
        fabric.n_hosts,
        leaves.up.gbps,
        leaves.down.gbps,
    )
    for tier in fabric.cuts[1:]:
        above: FloatArray = spread.cut_above(
            order, ptr, traffic.bytes, leaf_src, leaf_dst, tier.group, tier.up.gbps, tier.down.gbps
        )
        cut = np.maximum(cut, above)
    return cut


def ideal_times(
    fabric: Fabric, traffic: Traffic, leaf_src: IntArray, leaf_dst: IntArray, fixed: IntArray, cut: FloatArray
) -> IdealTimes:
    """Return the ideal times of collectives with these ``cut_times`` [K]: the array itself where all are reached."""
    order, ptr = traffic.by_collective
    within = np.zeros(len(cut))
    if fabric.paths_alike:
        return IdealTimes(cut, within)
    gbit = (traffic.bytes * GBIT).astype(np.float64)
    large = np.diff(ptr) >= LARGE
    # For a large collective, the first round of the spread by prices is such a spread, in less time.
    known = _known(fabric, traffic, leaf_src, leaf_dst, fixed, cut)
    reached = spread_reaches(fabric, order, ptr, gbit, leaf_src, leaf_dst, fixed, np.where(large, 0.0, cut), known)
    reached &= known | ~large | ~(cut > 0)
    open_ones = np.flatnonzero(~reached & (cut > 0)).tolist()
    if not open_ones:
        return IdealTimes(cut, within)
    least, cut = LeastTimes(fabric), cut.copy()
    for k in open_ones:
        flows = order[ptr[k] : ptr[k + 1]]
        flows = flows[fixed[flows] >= 0]
        time = least.of(leaf_src[flows], leaf_dst[flows], gbit[flows], float(cut[k]))
        cut[k] = time.at_least
        within[k] = 0.0 if time.exact else time.at_most / time.at_least - 1.0
    return IdealTimes(cut, within)


def spread_reaches(
    fabric: Fabric,
    order: NDArray[np.integer],
    ptr: NDArray[np.integer],
    gbit: FloatArray,
    leaf_src: IntArray,
    leaf_dst: IntArray,
    fixed: IntArray,
    seconds: FloatArray,
    known: BoolArray,
) -> BoolArray:
    """Return whether a spread of each collective's flows fits into its seconds (False: none found, but may exist).

    ``known`` [K] tells of which collectives that is known, where there are two tiers of cables.

    The seconds are not less than host links and cuts require. There are kernels for one tier of cables and for two:
    what a spread over two tiers brings to the switches of the second one is spread there again, pair by pair.
    """
    flows = (order, ptr, gbit, leaf_src, leaf_dst, fixed, seconds)
    if len(fabric.tiers) == 1:
        one: BoolArray = spread.spread_reaches(*flows, fabric.tiers[0], fabric.link_gbps, fabric.shares_links)
        return one
    if len(fabric.tiers) > spread_by_tier.MOST_TIERS:
        return np.zeros(len(seconds), dtype=np.bool_)
    several: BoolArray = spread_by_tier.spread_reaches(*flows, known, fabric.live_ways, fabric.link_gbps)
    return several


def _known(
    fabric: Fabric, traffic: Traffic, leaf_src: IntArray, leaf_dst: IntArray, fixed: IntArray, seconds: FloatArray
) -> BoolArray:
    """Return of which collectives [K] it is quickly known that a spread fits; of none on one tier of cables."""
    if len(fabric.tiers) != spread_by_tier.MOST_TIERS:
        return np.zeros(len(seconds), dtype=np.bool_)
    on_whole = reached_on_whole(fabric, traffic, leaf_src, leaf_dst, fixed, seconds)
    if on_whole[seconds > 0].all():
        return on_whole
    return on_whole | _spread_evenly(fabric, *traffic.by_collective, leaf_src, leaf_dst, fixed)


def _spread_evenly(
    fabric: Fabric,
    order: NDArray[np.integer],
    ptr: NDArray[np.integer],
    leaf_src: IntArray,
    leaf_dst: IntArray,
    fixed: IntArray,
) -> BoolArray:
    """Return whether each collective's flows have only paths that are alike: an even spread then reaches its cuts."""
    out, back = (
        np.logical_and.reduce([getattr(cut, way).even[cut.group] for cut in fabric.cuts]) for way in ("up", "down")
    )
    uneven = (fixed >= 0) & ~(out[leaf_src] & back[leaf_dst])
    before = np.concatenate([[0], np.cumsum(uneven[order])])
    alike: BoolArray = before[ptr[1:]] == before[ptr[:-1]]
    return alike
