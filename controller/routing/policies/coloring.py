"""``coloring``: bipartite edge colouring of the leaf multigraph, spines being the colours.

Fastpass (Perry et al., SIGCOMM 2014) picks paths this way. Where all spines are alike, no uplink or downlink carries
more units than the rounded-up fair share. A unit whose colour is not live for it (missing or failed links) gets its
least loaded path instead. Unequal capacities are ignored here; ``fair`` improves the result.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.paths.ways import Ways
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.kernels import units
from controller.routing.kernels.placing import edge_coloring
from controller.routing.placing import place_units as placing
from controller.routing.placing.coloring_by_tier import color_by_tier
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.problem.rounds import steps_of_rounds

MANY = 4
"""Least average number of flows in a class of equal loads for the classes to be coloured separately."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign one path to each placement unit; ``previous`` and ``options`` have no effect."""
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(color_units(demand, seed)))


def color_units(
    demand: Demand,
    seed: int,
    *,
    apart: bool = False,
    from_above: bool = False,
    repair: bool = True,
    ways: Ways | None = None,
) -> IntArray:
    """Return the path class [U] of each unit.

    Each phase is coloured separately (the first of every job together, then the second, and so on): phases that never
    run at the same time do not compete for spines.

    Args:
        demand: the placement units, with their leaves and loads.
        seed: the seed of the colouring; its low 32 bits count.
        apart: also colour each class of equal loads by itself.
        from_above: where paths have several choices, spread pods before leaves (``coloring_by_tier``).
        repair: give units whose colours are not live their least loaded path; else they may have -1, or a dead path.
        ways: where paths have several choices, the ways that units may take; by default, all that are live.
    """
    fabric = demand.fabric
    if not demand.n_units:
        return np.zeros(0, dtype=np.int32)
    order, part = _in_parts(demand, apart)
    if not demand.one_choice:
        ways = fabric.live_ways if ways is None else ways
        complete = bool(units.complete(ways))
        path = color_by_tier(demand, ways, order, part, seed, complete=complete, from_above=from_above)
        if repair and not complete:
            placing.repair(demand, path, ways)
        return path
    classes = np.flatnonzero(fabric.path_type >= 0).astype(np.int32)
    src, dst = demand.unit_src, demand.unit_dst
    vertices = fabric.n_leaves * (int(part.max()) + 1)
    left, n_left = edge_coloring.slots(src + part * fabric.n_leaves, order, vertices, len(classes))
    right, n_right = edge_coloring.slots(dst + part * fabric.n_leaves, order, vertices, len(classes))
    hue = edge_coloring.color(left, right, max(n_left, n_right), len(classes), seed & 0xFFFFFFFF)
    one: IntArray = classes[hue]
    if repair:
        placing.repair(demand, one)
    return one


def has_rounds(demand: Demand) -> bool:
    """Return whether flows of one collective differ in load by classes, as in rounds (halving and doubling).

    Rounds are not phases, because other collectives of the job run meanwhile; but of two plans with equal levels, the
    one that spreads each round evenly is faster.
    """
    load = demand.part_load
    if not len(load) or (load == load[0]).all():
        return False
    collective = demand.traffic.collective[demand.part_flow]
    kinds = np.unique(np.stack([collective.astype(np.float64), load], axis=1), axis=0)
    several = np.bincount(kinds[:, 0].astype(np.int64))
    return bool(several.max() > 1) and len(kinds) * MANY <= len(load)


def _in_parts(demand: Demand, apart: bool) -> tuple[IntArray, IntArray]:
    """Return units [U] part by part, by falling load (adjacent ones go over different spines), and their parts [U]."""
    load, group_job = demand.unit_load, demand.group_job
    part = np.zeros(demand.n_units, dtype=np.int32)
    if len(group_job) > 1:
        first = np.flatnonzero(np.diff(group_job, prepend=-1))
        rank = np.arange(len(group_job)) - first[np.searchsorted(first, np.arange(len(group_job)), side="right") - 1]
        part = rank.astype(np.int32)[demand.part_group[demand.part_ptr[:-1]]]
    if apart:
        pairs = np.stack([part.astype(np.float64), load], axis=1)
        part = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    elif len(group_job) == 1 and (load[1:] <= load[:-1]).all():
        return np.arange(demand.n_units, dtype=np.int32), part
    if len(group_job) == 1 and not apart:
        return np.argsort(-load, kind="stable").astype(np.int32), part
    # So flows that a tree sends in one step go over different spines, too, as far as whole flows can.
    step = steps_of_rounds(demand.traffic)[demand.part_flow[demand.part_ptr[:-1]]]
    return np.lexsort((step, -load, part)).astype(np.int32), part
