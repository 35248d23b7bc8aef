"""Upper bounds on the lowest level of any plan: with free splitting, and with one path a placement unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.plan import Bound, Objective
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Traffic
from controller.routing.kernels.levels import packing
from controller.routing.objective.fairness import relaxed_levels
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.problem.rounds import as_sent
from controller.routing.relaxation.least_times import LeastTimes

MOST_PHASES = 64
"""Phases of all jobs that a bound examines one by one; of the others only the heaviest at a leaf counts."""


class SplitBound(NamedTuple):
    """The bound with free splitting, and whether some way to split flows reaches it."""

    level: float
    exact: bool


def bound(
    fabric: Fabric, traffic: Traffic, *, demand: Demand | None = None, reached: float = 0.0, exact: bool = False
) -> Bound:
    """Return both bounds on ``min_level``; 1 where no collective has a level.

    Where some plan has ``reached`` what the cuts allow, that is the bound, and no search is needed.

    ``split`` is the relaxation in closed form where the live paths of two leaves are alike. Elsewhere it is proved by a
    spread, or by the linear program if that is small (``LeastTimes``) or an ``exact`` bound is asked for; else it is a
    weaker bound, and ``split_exact`` is false.
    ``single`` also accounts for units being indivisible: see ``single_bound``.
    """
    demand = demand or Demand.of(fabric, as_sent(traffic))
    if not demand.in_game.any():
        return Bound(1.0, 1.0)
    level, is_exact = split_bound(demand, reached, exact=exact)
    # Speeds are at most 1; the relaxation may be above that by rounding.
    split = SplitBound(min(level, float(1.0 / demand.traffic.weight[demand.in_game].max())), is_exact)
    if traffic.spreadable.any():
        # Some of the flows are divisible.
        return Bound(split.level, split.level, split.exact)
    return Bound(split.level, min(split.level, single_bound(demand)), split.exact)


def split_bound(demand: Demand, reached: float = 0.0, *, exact: bool = False) -> SplitBound:
    """Return the largest t such that all collectives could have level t if every flow could be split freely.

    ``reached`` is the lowest level of some plan, or 0; ``exact`` as in ``bound``.
    """
    levels = relaxed_levels(demand)
    if levels is not None:
        return SplitBound(float(np.nanmin(levels)), True)
    moving = np.flatnonzero((demand.fixed == NETWORK) & (demand.gbps > 0))
    cut = cut_bound(demand)
    if reached >= cut * (1 - ROUNDING):
        return SplitBound(cut, True)
    if demand.in_game.sum() == 1 and not (exact and demand.ideal_within.any()):
        # What limits one collective is its ideal time.
        return SplitBound(float(1.0 / demand.traffic.weight[demand.in_game][0]), not demand.ideal_within.any())
    time = LeastTimes(demand.fabric, exact=exact).of(
        demand.leaf_src[moving],
        demand.leaf_dst[moving],
        demand.load[moving],
        1.0 / cut,
        demand.group[demand.traffic.collective[moving]],
        demand.group_job,
    )
    return SplitBound(min(cut, 1.0 / time.at_least), time.exact)


def cut_bound(demand: Demand) -> float:
    """Return the bound from host links and the cuts of the fabric: >= ``split_bound``, and cheap."""
    if not demand.in_game.any():
        return 1.0
    level, _ = Incidence.relaxed(demand).levels(demand)
    return float(np.nanmin(level))


def single_bound(demand: Demand) -> float:
    """Return a bound for one path a unit: at each leaf and pod, both ways, whole units are packed into live links.

    A link of capacity c carries at most floor(c / (t x)) units of load x or more at level t. For every load x that
    occurs, these numbers must add up to the number of units that have it. For n equal units on s equal uplinks this
    is the rounding up of n / s. Where links are equal, also the i + 1 smallest of the s i + 1 largest units must fit
    on one link, since some link carries i + 1 of them (a pigeonhole bound of bin packing: Martello and Toth, Knapsack
    Problems, 8.3). Of a job with several phases only one counts: the heaviest at the leaf, then each of them in turn.
    """
    if not demand.n_units:
        return np.inf
    best = _packed(demand, demand.unit_src, demand.tier.up, demand.fabric.n_leaves)
    best = min(best, _packed(demand, demand.unit_dst, demand.tier.down, demand.fabric.n_leaves))
    for tier in demand.fabric.cuts[1:]:
        src, dst = tier.group[demand.unit_src], tier.group[demand.unit_dst]
        crosses = src != dst
        best = min(best, _packed(demand, src, tier.up.links, len(tier.up.gbps), crosses))
        best = min(best, _packed(demand, dst, tier.down.links, len(tier.down.gbps), crosses))
    return best


def _packed(
    demand: Demand, group_of: IntArray, links: IntArray, n_groups: int, crosses: BoolArray | None = None
) -> float:
    """Return the packing bound of groups of leaves with these links [N, M]; ``crosses`` [U]: units that use them."""
    load, best = demand.unit_load, np.inf
    equal = load.min() == load.max()
    for together in _together(demand, group_of, n_groups):
        chosen = together if crosses is None else together[crosses[together]]
        ptr = np.zeros(n_groups + 1, dtype=np.int64)
        np.cumsum(np.bincount(group_of[chosen], minlength=n_groups), out=ptr[1:])
        # Of equal loads, the usual case, only the numbers count, in any order.
        order = chosen if equal else chosen[np.lexsort((-load[chosen], group_of[chosen]))]
        best = min(best, float(packing.packing_bound(ptr, load[order], links, demand.fabric.link_gbps)))
    return best


def _together(demand: Demand, group_of: IntArray, n_groups: int) -> Iterator[NDArray[np.int64]]:
    """Yield the units that may load a group all at once: of each job with several phases only one of them there.

    That is the phase that loads the group most; then each phase in turn is taken wherever it has a unit. A unit that
    several phases share counts with that of its first part, for which its load is no overestimate only if it is alone
    in it: such units are left out.
    """
    if len(demand.group_job) == 1:
        yield np.arange(demand.n_units)
        return
    ptr, phase = demand.part_ptr, demand.part_group
    own = phase[ptr[:-1]].astype(np.int64)
    others = np.add.reduceat((phase != np.repeat(own, np.diff(ptr))).astype(np.int64), ptr[:-1])
    # Each pair of a group and a phase.
    pairs, pair = np.unique(group_of * np.int64(len(demand.group_job)) + own, return_inverse=True)
    place, phase_of = np.divmod(pairs, len(demand.group_job))
    load = np.bincount(pair, weights=demand.unit_load, minlength=len(pairs))
    job = demand.group_job[phase_of]
    order = np.lexsort((phase_of, -load, job, place))
    heaviest = np.ones(len(pairs), dtype=np.bool_)
    heaviest[order[1:]] = (place[order[1:]] != place[order[:-1]]) | (job[order[1:]] != job[order[:-1]])
    heaviest |= job == 0
    for preferred in (-1, *range(1, min(len(demand.group_job), MOST_PHASES + 1))):
        chosen = heaviest
        if preferred >= 0:
            there = np.zeros(n_groups, dtype=np.bool_)
            there[place[phase_of == preferred]] = True
            chosen = np.where(there[place] & (job == demand.group_job[preferred]), phase_of == preferred, heaviest)
        yield np.flatnonzero(chosen[pair] & (others == 0))


def gap(objective: Objective, limit: Bound, assignment: Assignment) -> float | None:
    """Return ``bound / min_level - 1`` with the bound that applies: free splitting where the plan splits flows."""
    value = limit.split if assignment.is_split() or limit.single is None else limit.single
    if value is None or objective.min_level <= 0:
        return None
    return max(0.0, value / objective.min_level - 1.0)
