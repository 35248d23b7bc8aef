"""Planning with a previous plan: keep as many paths as possible, and move flows only for a sufficient gain."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paths.ways import Ways
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Traffic
from controller.routing.kernels.placing import chains, kempe, place
from controller.routing.placing import place_units as placing
from controller.routing.placing.improve_levels import Goal, improve_levels, levels_of
from controller.routing.placing.pieces import Pieces
from controller.routing.placing.replan_by_tier import repaired
from controller.routing.policies import coloring
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan

NEAR = 0.95
"""Whatever the price of moves, the lowest level is at least this fraction of a fresh plan's."""

AFTERWARDS = 0.01
"""The part of the effort left once the lowest level is at its bound: after a link failure a plan is needed soon."""


class Nearest(NamedTuple):
    """The plans that are closest to the previous one.

    Attributes:
        wanted: [U] old paths that units may keep, -1: none.
        path: [U] the old paths, with new and stranded units on their least loaded ones.
        fullest: ``Goal.fullest`` of these.
        chained: [U] the same with others moved along alternating chains to make room; ``path`` itself where this is
            not too full.
        chained_level: [K] the levels of ``chained``.
        moved: the part of the units with wanted paths that ``chained`` moves.
    """

    wanted: IntArray
    path: IntArray
    fullest: float
    chained: IntArray
    chained_level: FloatArray
    moved: float


def nearest(demand: Demand, goal: Goal, previous: PreviousPlan) -> Nearest:
    """Return the plans that are closest to the previous one."""
    old = previous.on(demand.fabric).single_paths(demand.traffic)[demand.part_flow[demand.part_ptr[:-1]]]
    path = old.copy()
    placing.repair(demand, path)
    fullest = goal.fullest(path)
    wanted = np.where(path == old, old, -1).astype(np.int32)
    if fullest <= 1 + ROUNDING and goal.reached(goal.relaxed):
        return Nearest(wanted, path, fullest, path, goal.relaxed, 0.0)
    return Nearest(wanted, path, fullest, *_chained(demand, goal, old, wanted))


def demand_near(fabric: Fabric, traffic: Traffic, previous: PreviousPlan) -> tuple[Demand, Goal, Nearest]:
    """Return the demand, its bounds, and the plans closest to the previous one.

    Where one of these gives every collective the speed that the cuts allow, all at once, it proves their ideal times:
    mostly in a small part of the time that a proof without a plan takes.
    """
    demand = Demand.at_cuts(fabric, traffic)
    goal = Goal(demand)
    near = nearest(demand, goal, previous) if not fabric.paths_alike and goal.at_speed_1 else None
    if near is not None and near.chained_level is goal.relaxed:
        return demand, goal, near
    proved = demand.proved()
    if proved is not demand:
        demand, goal, near = proved, Goal(proved), None
    return demand, goal, near or nearest(demand, goal, previous)


def replan(
    demand: Demand,
    goal: Goal,
    near: Nearest,
    price: float,
    rounds: int,
    seed: int,
    afresh: Callable[[], tuple[IntArray, FloatArray]],
) -> tuple[IntArray, FloatArray]:
    """Return path classes [U] close to the previous ones (``nearest``), and the levels [K].

    Four plans compete: the old paths with new and stranded flows on their least loaded ones; the same with others moved
    along alternating chains to make room; the better of the two after a search; and, only if none is proved to be
    near enough, one made ``afresh``. A plan that moves a fraction m of the old flows wins over one that moves none if
    the lowest level in which they differ grows by at least the fraction ``price * m``.
    """
    wanted, path, fullest, chained, chained_level, moved = near
    if chained is path:
        return path, chained_level
    if chained_level is goal.relaxed and goal.reached(chained_level) and np.isfinite(fullest):
        # Some collective on the fullest link is slower by as much as that is too full: no need to fill all levels.
        slowest = float(np.nanmax(goal.relaxed)) / fullest
        if float(np.nanmin(goal.relaxed)) >= slowest * (1 + price * moved):
            return chained, chained_level
    level = goal.levels(path)
    if goal.reached(level):
        return path, level
    if _pays(chained_level, level, price * moved):
        path, level = chained, chained_level
        if goal.reached(level):
            return path, level
    lowest, most = float(np.nanmin(level)), float(goal.steps[0])
    effort = int(rounds * (AFTERWARDS if lowest >= most * (1 - TOLERANCE) else 1.0))
    nearby, nearby_level = improve_levels(demand, goal, path, level, effort, seed)
    nearby, nearby_level, moved = _brought_back(demand, nearby, nearby_level, wanted)
    if _pays(nearby_level, level, price * moved):
        path, level = nearby, nearby_level
    if float(np.nanmin(level)) >= NEAR * most:
        return path, level
    fresh, fresh_level = afresh()
    if float(np.nanmin(nearby_level)) > float(np.nanmin(fresh_level)):
        fresh, fresh_level = nearby, nearby_level
    else:
        fresh, fresh_level, moved = _brought_back(demand, _renamed(demand, fresh, wanted), fresh_level, wanted)
    too_far = float(np.nanmin(level)) < NEAR * float(np.nanmin(fresh_level))
    return (fresh, fresh_level) if too_far or _pays(fresh_level, level, price * moved) else (path, level)


def _chained(demand: Demand, goal: Goal, old: IntArray, wanted: IntArray) -> tuple[IntArray, FloatArray, float]:
    """Add new and stranded units to the old plan by chains of moves; return path, levels and the fraction moved.

    Loads are those at the best possible levels: units that fit then slow no other unit.
    """
    fabric, path, load, level = demand.fabric, old.copy(), goal.relaxed_load, None
    if not demand.one_choice:
        path = repaired(demand, fabric.live_ways, load, old)
        level = goal.relaxed if goal.fullest(path) <= 1 + ROUNDING else None
        if level is None:
            placing.repair(demand, path)
    else:
        if kempe.one_slot(load, demand.tier, fabric.link_gbps):
            kempe.insert(demand.unit_src, demand.unit_dst, demand.tier, path)
        chains.insert(demand.unit_src, demand.unit_dst, load, demand.tier, fabric.link_gbps, path)
    moved = int(((wanted >= 0) & (path != wanted)).sum())
    level = goal.levels(path) if level is None else level
    return path, level, moved / max(1, int((wanted >= 0).sum()))


def color_units_with_room(demand: Demand, level: FloatArray, seed: int, ways: Ways | None = None) -> IntArray:
    """Return the path [U] of each unit by edge colouring; chains make room for units that a failed cable strands.

    ``level`` [K] are the levels at which links are to have room. Paths have several choices. ``ways``: those that
    units may take, by default all that are live.
    """
    ways = demand.fabric.live_ways if ways is None else ways
    colored = coloring.color_units(demand, seed, repair=False, ways=ways)
    path = repaired(demand, ways, _load_at(demand, level), colored)
    placing.repair(demand, path, ways)
    return path


def _load_at(demand: Demand, level: FloatArray) -> FloatArray:
    """Return the loads [U] of units when collectives have these levels [K]."""
    return demand.units_of(demand.part_load * np.nan_to_num(level)[demand.traffic.collective[demand.part_flow]])


def kept_pieces(demand: Demand, previous: PreviousPlan) -> Pieces | None:
    """Return the old pieces if all still have live paths; ``None`` if some flow is new or stranded."""
    flow, path, share = previous.on(demand.fabric).rows(demand.traffic)
    live = demand.fabric.live_ways.joined(demand.leaf_src[flow], demand.leaf_dst[flow], path)
    part_of = np.full(demand.traffic.n_flows, -1, dtype=np.int64)
    part_of[demand.part_flow] = np.arange(len(demand.part_flow))
    part = part_of[flow]
    loaded = np.flatnonzero(demand.load[demand.part_flow] > 0)
    if not live.all() or (part < 0).any() or len(np.setdiff1d(loaded, part)):
        return None
    load = demand.load[flow] * share
    rows = load > 0
    return Pieces(part[rows], path[rows].astype(np.int64), load[rows])


def _pays(reached: FloatArray, kept: FloatArray, price: float) -> bool:
    """Return whether levels ``reached`` are worth the price over ``kept``, at the lowest place where they differ."""
    a, b = np.sort(reached[~np.isnan(reached)]), np.sort(kept[~np.isnan(kept)])
    differs = np.flatnonzero(np.abs(a - b) > TOLERANCE * np.maximum(a, b))
    return bool(len(differs)) and bool(a[differs[0]] >= b[differs[0]] * (1 + price))


def _brought_back(
    demand: Demand, path: IntArray, level: FloatArray, wanted: IntArray
) -> tuple[IntArray, FloatArray, float]:
    """Move units back to their old paths where that slows no unit; return path, levels and the fraction that cannot.

    Links are limited to their loads at the plan's levels, so these can only rise. Where paths have several choices none
    is moved back: a unit's old choice on one tier is no use without those on the others.
    """
    fabric, path = demand.fabric, path.copy()
    if not demand.one_choice:
        away = int(((wanted >= 0) & (path != wanted)).sum())
        return path, level, away / max(1, int((wanted >= 0).sum()))
    rate = demand.load[demand.part_flow] * np.nan_to_num(level)[demand.traffic.collective[demand.part_flow]]
    away = place.restore(
        demand.unit_src,
        demand.unit_dst,
        demand.part_ptr,
        demand.part_group,
        rate,
        demand.group_job,
        demand.tier,
        fabric.link_gbps * (1 + ROUNDING),
        wanted,
        path,
    )
    return path, levels_of(demand, path), away / max(1, int((wanted >= 0).sum()))


def _renamed(demand: Demand, path: IntArray, wanted: IntArray) -> IntArray:
    """Exchange equivalent path classes such that many units are on their wanted paths; levels do not change."""
    if not demand.one_choice:
        return path
    kinds, n = demand.fabric.path_type, demand.fabric.n_paths
    known = wanted >= 0
    agree = np.bincount(path[known] * n + wanted[known], minlength=n * n)
    name = np.full(n, -1, dtype=np.int32)
    taken = np.zeros(n, dtype=np.bool_)
    for cell in np.argsort(-agree, kind="stable").tolist():
        old, new = divmod(cell, n)
        if name[old] < 0 and not taken[new] and kinds[old] == kinds[new]:
            name[old], taken[new] = new, True
    renamed: IntArray = name[path]
    return renamed
