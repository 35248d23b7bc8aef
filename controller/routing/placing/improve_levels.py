"""Improvement of a plan, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.routing.kernels.levels import spread
from controller.routing.kernels.placing import walking
from controller.routing.objective.bounds import single_bound
from controller.routing.objective.fairness import compare_levels
from controller.routing.objective.incidence import Incidence
from controller.routing.placing.raise_level import Movable, Wanted, raise_level
from controller.routing.problem.demand import Demand

STEPS = (0.02, 0.002)
"""The relative rises of a level with each success of the search: first large ones, as small ones lead to plans that are
only a little better and hard to leave; the last one is the least that is worth a step."""

NEAR = 0.99
"""Where the lowest level stays below this fraction of its bound, the search for it begins once more."""

SHARE = 0.6
"""The part of the remaining effort that the lowest open level gets; the levels above share the rest."""


@dataclass(frozen=True, eq=False)
class Goal:
    """The proved bounds of all levels: a plan that reaches them all is optimal. Each is computed when it is needed."""

    demand: Demand

    @cached_property
    def relaxation(self) -> Incidence:
        """The loads if every leaf had one uplink and one downlink of the total capacity."""
        return Incidence.relaxed(self.demand)

    @cached_property
    def relaxed(self) -> FloatArray:
        """[K] levels in the relaxation (NaN: no level)."""
        demand = self.demand
        only_cuts = demand.fabric.paths_alike or not demand.one_choice
        if only_cuts and len(demand.group_job) == 1 and _all_at_speed_1(demand):
            # Nothing is faster than alone, and alone a collective has speed 1.
            return np.where(demand.in_game, 1.0 / demand.traffic.weight, np.nan)
        return self.relaxation.levels(demand)[0]

    @cached_property
    def relaxed_load(self) -> FloatArray:
        """[U] loads of units at these levels."""
        demand = self.demand
        level = np.nan_to_num(self.relaxed)[demand.traffic.collective[demand.part_flow]]
        return demand.units_of(demand.part_load * level)

    @property
    def at_speed_1(self) -> bool:
        """Whether all collectives have speed 1 in the relaxation, at once."""
        known = self.demand.in_game
        speed = self.relaxed[known] * self.demand.traffic.weight[known]
        return len(self.demand.group_job) == 1 and bool((speed >= 1 - ROUNDING).all())

    @cached_property
    def steps(self) -> FloatArray:
        """[N] bounds of the sorted levels, ascending."""
        demand, relaxed = self.demand, self.relaxed
        known = ~np.isnan(relaxed)
        steps = np.sort(relaxed[known])
        if len(steps):
            lowest = min(float(steps[0]), single_bound(demand))
            if lowest < steps[0] * (1 - TOLERANCE) or len(demand.group_job) > 1:
                # A collective held below the relaxation leaves capacity to the others, and with several phases a
                # level is the worst of many: the only bound of the higher ones is that speeds are at most 1.
                steps = np.maximum(np.sort(1.0 / demand.traffic.weight[known]), steps[-1])
            steps[0] = lowest
        return steps

    def above(self, level: FloatArray, frozen: BoolArray) -> float:
        """Return the best next level in the relaxation if the frozen collectives keep theirs."""
        held = np.where(frozen, np.nan_to_num(level), -1.0)
        return float(self.relaxation.levels(self.demand, held)[0][~frozen].min())

    def reached(self, level: FloatArray) -> bool:
        """Return whether the sorted levels [K] reach all their bounds."""
        if level is self.relaxed:
            return True
        return bool((np.sort(level[~np.isnan(level)]) >= self.steps * (1 - TOLERANCE)).all())

    def levels(self, path: IntArray) -> FloatArray:
        """Return the levels [K] of one path a unit, ``relaxed`` itself if the plan reaches these.

        Where no link is too full at the levels of the relaxation, no filling is needed: no plan allows higher ones.
        """
        return self.relaxed if self.fullest(path) <= 1 + ROUNDING else levels_of(self.demand, path)

    def fullest(self, path: IntArray) -> float:
        """Return load over capacity of the fullest link at the levels of the relaxation; infinite for a dead path.

        It is infinite for jobs with phases, too, whose loads do not just add up.
        """
        demand = self.demand
        if len(demand.group_job) > 1:
            return np.inf
        ends, fabric = (demand.unit_src, demand.unit_dst), demand.fabric
        return float(walking.fullest(*ends, path, self.relaxed_load, fabric.live_ways, fabric.link_gbps))


def _all_at_speed_1(demand: Demand) -> bool:
    """Return whether all collectives can have speed 1 at once, as far as host links and cuts tell."""
    fabric, traffic = demand.fabric, demand.traffic
    if not spread.fits_at_hosts(traffic.src, traffic.dst, demand.gbps, fabric.link_gbps, fabric.n_hosts):
        return False
    flows = (demand.leaf_src, demand.leaf_dst, demand.fixed, demand.gbps)
    return all(spread.fits_cut(*flows, tier.group, tier.up.gbps, tier.down.gbps) for tier in fabric.cuts)


def levels_of(demand: Demand, path: IntArray) -> FloatArray:
    """Return the levels [K] of one path a unit."""
    return Incidence.of(demand, demand.assignment(path)).levels(demand)[0]


def improve_levels(
    demand: Demand, goal: Goal, path: IntArray, level: FloatArray, rounds: int, seed: int
) -> tuple[IntArray, FloatArray]:
    """Search for a lexicographically better plan within ``rounds`` moves tried.

    Args:
        demand: the units to place.
        goal: the bounds at which the search ends.
        path: [U] the path class of each unit in the plan to start from.
        level: [K] the levels of that plan.
        rounds: the limit of moves tried; the part ``SHARE`` comes on top where the lowest level stays low.
        seed: the seed of the search.

    Returns:
        The best plan found, and its levels.
    """
    frozen = np.isnan(level)
    while rounds > 0 and not frozen.all():
        path, level, used = raise_lowest(demand, goal, path, level, frozen, max(1, int(rounds * SHARE)), seed)
        rounds -= used
        frozen = frozen | (level <= float(level[~frozen].min()) * (1 + TOLERANCE))
    return path, level


def raise_lowest(
    demand: Demand,
    goal: Goal,
    path: IntArray,
    level: FloatArray,
    frozen: BoolArray,
    effort: int,
    seed: int,
    *,
    again: bool = True,
) -> tuple[IntArray, FloatArray, int]:
    """Search for a plan with a higher lowest level of the collectives that are not ``frozen`` [K].

    Args:
        demand: the units to place.
        goal: the bounds at which the search ends.
        path: [U] the path class of each unit in the plan to start from.
        level: [K] the levels of that plan.
        frozen: [K] collectives that keep their levels.
        effort: the limit of moves tried.
        seed: the seed of the search.
        again: whether to search once more, with as much effort, where the lowest of all levels stays low.

    Returns:
        The best plan found, its levels, and the moves tried, without those on top.
    """
    collective = demand.traffic.collective[demand.part_flow]
    load = demand.load[demand.part_flow]
    units = Movable(demand.unit_src, demand.unit_dst, demand.part_ptr, demand.part_group, demand.group_job)
    settled, used = int((frozen & ~np.isnan(level)).sum()), 0
    lowest = float(level[~frozen].min())
    target = min(float(goal.steps[settled]), goal.above(level, frozen))
    if lowest >= target * (1 - TOLERANCE):
        return path, level, used
    held = frozen[collective]
    fixed = np.where(held, load * np.nan_to_num(level)[collective], 0.0)
    rising = np.where(held, 0.0, load)
    passes = [(step, max(1, effort // len(STEPS)), 0) for step in STEPS]
    if not settled and again:
        passes.append((STEPS[0], effort, 1))
    for step, most, number in passes:
        if lowest >= target * (NEAR if number else 1 - TOLERANCE):
            break
        wanted = Wanted(fixed, rising, min(target, lowest * (1 + step)), target, step)
        raised, reached, tried = raise_level(demand.fabric, units, wanted, path, most, seed + number)
        used += 0 if number else tried
        if reached > 0.0:
            raised_level = levels_of(demand, raised)
            if compare_levels(raised_level, level) > 0:
                path, level = raised, raised_level
                lowest = float(level[~frozen].min())
    return path, level, used
