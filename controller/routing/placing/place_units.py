"""Placement of units on the paths of any fabric: by the choices of one tier, or on the whole paths of several.

The kernels of several tiers would do for one, too. But those of one tier look a path's two links up in a table, and are
six to twenty times as fast (2,048 units, 64 leaves, 32 spines).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paths.ways import Ways
from controller.model.traffic import Int64Array
from controller.routing.kernels import hashing
from controller.routing.kernels.placing import place, place_on_ways
from controller.routing.problem.demand import Demand


def least_loaded(demand: Demand, order: NDArray[np.integer], path: IntArray) -> None:
    """Give each unit of ``order`` in turn the path whose fullest link stays least loaded; ``path`` [U] receives it."""
    fabric = demand.fabric
    units = (order, demand.unit_src, demand.unit_dst, demand.unit_load)
    empty = np.zeros(fabric.n_links)
    if demand.one_choice:
        place.least_loaded(*units, demand.tier, fabric.link_gbps, empty, path)
    else:
        place_on_ways.least_loaded(*units, fabric.live_ways, fabric.link_gbps, empty, path)


def repair(demand: Demand, path: IntArray, ways: Ways | None = None) -> None:
    """Give units whose ``path`` [U] is not live for them (or negative) the least loaded one, the heaviest first.

    ``ways``: where paths have several choices, the ways that units may take (by default, all that are live); a unit
    that none of them serves gets -1.
    """
    fabric, units = demand.fabric, (demand.unit_src, demand.unit_dst, demand.unit_load)
    if demand.one_choice:
        place.repair(*units, demand.tier, fabric.link_gbps, path)
    else:
        place_on_ways.repair(*units, fabric.live_ways if ways is None else ways, fabric.link_gbps, path)


def first_fit(demand: Demand, wanted: FloatArray, path: IntArray) -> None:
    """Give units in order the first path with room for what they want [U]; others keep their ``path`` [U]."""
    fabric, units = demand.fabric, (demand.unit_src, demand.unit_dst, wanted)
    if demand.one_choice:
        place.first_fit(*units, demand.tier, fabric.link_gbps, np.zeros(fabric.n_links), path)
    else:
        place_on_ways.first_fit(*units, fabric.live_ways, fabric.link_gbps, path)


def pick_live(demand: Demand, number: NDArray[np.uint32]) -> IntArray:
    """Return path ``number mod n`` of the n live paths of each unit [U]."""
    path = np.empty(demand.n_units, dtype=np.int32)
    units = (number, demand.unit_src, demand.unit_dst)
    if demand.one_choice:
        hashing.pick_live(*units, demand.tier, path)
    else:
        place_on_ways.pick_live(*units, demand.fabric.live_ways, path)
    return path


def live_paths(fabric: Fabric, src: IntArray, dst: IntArray) -> tuple[Int64Array, Int64Array]:
    """Return every live path of each pair of leaves: row [N] of the pair in ``src`` and ``dst`` [P], and path [N]."""
    if len(fabric.tiers) == 1:
        row, path = np.nonzero(fabric.tiers[0].possible(src, dst))
        return row, path
    pairs, pair_of = np.unique(np.stack([src, dst], axis=1), axis=0, return_inverse=True)
    paths = [fabric.live_ways.between(a, b).astype(np.int64) for a, b in pairs.tolist()]
    own = [paths[pair] for pair in pair_of.reshape(-1).tolist()]
    row = np.repeat(np.arange(len(src)), [len(each) for each in own])
    return row, np.concatenate(own) if own else np.zeros(0, dtype=np.int64)
