"""``split``: few flows cut in few pieces, with every link as full as with free splitting.

1. Path classes that no leaf can distinguish form a type. Where there are several types, a vertex of the linear program
   says how much of each pair of leaves goes by which type; few pairs use more than one.
2. Within a type all spines are alike, and flows are divided among them by time slots or by halves (``dividing``).
   Where paths have a choice in each of several tiers, both steps are taken tier by tier (``split_by_tier``).
3. Pieces are put together again where that costs no more than ``TOLERATED`` of the level, or until they are few enough.
   If that is at odds with the level, pieces are searched for better places; small instances go to an integer program.
"""

from __future__ import annotations

import sys

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array, Traffic
from controller.routing.base import Options, Result
from controller.routing.objective.bounds import split_bound
from controller.routing.placing.dividing import SwitchLoads, by_kind, spread
from controller.routing.placing.fewest_pieces import fewest_pieces
from controller.routing.placing.improve_levels import levels_of
from controller.routing.placing.incremental_split import incremental_split
from controller.routing.placing.pieces import Pieces
from controller.routing.placing.split_by_tier import divided_by_tier
from controller.routing.policies import coloring
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.relaxation import concurrent

AIM = 0.997
"""The fraction of ``bound_split`` that is the first target; the small remainder keeps more flows whole."""

TOLERATED = 0.992
"""The least fraction of ``bound_split`` that merging pieces may reach."""

POLISHING = 100_000
"""Moves and swaps of pieces that are tried if merging pieces lost more than is tolerated."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign paths and shares within 1 % of ``bound_split``; at most ``options.max_splits`` extra pieces."""
    demand = Demand.of(fabric, traffic)
    path = coloring.color_units(demand, seed)
    best = split_bound(demand).level if demand.in_game.any() else 1.0
    levels = levels_of(demand, path)
    if not demand.in_game.any() or np.nanmin(levels) >= AIM * best:
        return Result(demand.assignment(path))
    return Result(split_units(demand, best, seed, budget(fabric, options)).assignment(demand))


def budget(fabric: Fabric, options: Options) -> int:
    """Return the number of extra pieces allowed: at most leaves x spines, or the links between three layers."""
    most = len(fabric.ways.up) * (1 if len(fabric.tiers) == 1 else 2)
    return most if options.max_splits is None else min(most, options.max_splits)


def split_units(demand: Demand, best: float, seed: int, extra: int) -> Pieces:
    """Return pieces that reach about ``best`` (``bound_split``) with at most ``extra`` more of them than flows."""
    divided = _divided(demand, best * AIM, seed) if demand.one_choice else divided_by_tier(demand, best * AIM, seed)
    pieces = divided.merged().enforceable(demand)
    pieces = pieces.reunited(demand, 1.0 / (best * TOLERATED), extra)
    # Where the budget was tight, some pieces overload their links: they move and swap as whole units do.
    level = best * TOLERATED
    if pieces.lowest_level(demand) >= level * (1 - TOLERANCE):
        return pieces
    moved, reached = pieces.searched(demand, level, POLISHING, seed)
    if reached:
        return moved.merged()
    path = coloring.color_units(demand, seed)
    return incremental_split(demand, path, level, extra, seed) or fewest_pieces(demand, level, extra) or pieces


def _by_type(demand: Demand, level: float) -> list[tuple[Int64Array, Int64Array, FloatArray]]:
    """Return (paths of a type, parts, loads) such that every type's links can carry its loads at this level."""
    load = demand.load[demand.part_flow]
    part = np.flatnonzero(load > 0).astype(np.int64)
    ways, gbps = demand.fabric.live_ways, demand.fabric.link_gbps
    if demand.fabric.path_type.max(initial=-1) <= 0:
        return [(np.flatnonzero(demand.fabric.path_type == 0), part, load[part])]
    flow = demand.part_flow[part]
    kinds = concurrent.kinds(ways, gbps)
    ends = demand.leaf_src[flow], demand.leaf_dst[flow]
    loads = load[part], demand.part_group[part], demand.group_job
    known = ways, kinds, gbps, 0, ends, ways.meet(*ends), *loads
    # The bound of a large instance may be a little too high to be reached.
    routing = concurrent.route(*known, seconds=1.0 / level, most=sys.maxsize) or concurrent.route(
        *known, most=sys.maxsize
    )
    assert routing is not None
    # All leaves have the same types.
    of_type = kinds[0][0]
    return [(np.flatnonzero(of_type == kind), part[row], cut) for kind, row, cut in by_kind(routing, load[part])]


def _divided(demand: Demand, level: float, seed: int) -> Pieces:
    """Return pieces with which all links carry about what they can where every collective has this level."""
    fabric, gbps, seconds = demand.fabric, demand.fabric.link_gbps, 1.0 / level
    blocks = []
    for classes, part, load in _by_type(demand, level):
        flow = demand.part_flow[part]
        src, dst = demand.leaf_src[flow], demand.leaf_dst[flow]
        ends = SwitchLoads(part, load, src, dst, demand.part_group[part], fabric.n_leaves)
        room = gbps[demand.tier.up[src, classes[0]]] * seconds, gbps[demand.tier.down[dst, classes[0]]] * seconds
        blocks.append(spread(classes, ends, room, len(demand.group_job) == 1, seed))
    return Pieces.joined(blocks)
