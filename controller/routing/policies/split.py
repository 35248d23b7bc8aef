"""``split``: few flows cut in few pieces, with every link as full as with free splitting.

1. Path classes that no leaf can distinguish form a type. Where there are several types, a vertex of the linear program
   says how much of each pair of leaves goes by which type; few pairs use more than one.
2. Within a type all spines are alike, and flows are divided among them by time slots or by halves (``dividing``).
   Where paths have a choice in each of several tiers, both steps are taken tier by tier (``split_by_tier``).
   Where that falls short, a vertex of the linear program over whole paths gives the pieces.
3. Pieces are put together again where that costs no more than ``TOLERATED`` of the level, or until they are few enough.
   If that is at odds with the level, pieces are searched for better places; small instances go to an integer program.
4. Where whole flows could reach a higher level than the pieces, they are also placed as ``fair`` does, and the better
   plan is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from controller.model.fabric import Fabric
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.objective.bounds import single_bound, split_bound
from controller.routing.objective.fairness import compare_levels
from controller.routing.objective.incidence import Incidence
from controller.routing.placing.fewest_pieces import fewest_pieces, vertex_pieces
from controller.routing.placing.improve_levels import Goal, levels_of
from controller.routing.placing.incremental_split import incremental_split
from controller.routing.placing.pieces import Pieces
from controller.routing.placing.split_by_tier import divided_by_tier
from controller.routing.policies import coloring
from controller.routing.policies.whole_paths import fresh_plan
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan

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
    if not demand.in_game.any():
        return Result(demand.assignment(path))
    best = split_bound(demand).level
    levels = levels_of(demand, path)
    whole_level = min(best, single_bound(demand))
    if np.nanmin(levels) < AIM * best <= whole_level:
        # Whole flows may do, for which no linear program is needed.
        path, levels = fresh_plan(demand, Goal(demand), seed, options)
    if np.nanmin(levels) >= AIM * best:
        cut, cut_levels = demand.assignment(path), levels
    else:
        cut = split_units(demand, best, seed, budget(demand, options)).assignment(demand)
        cut_levels = Incidence.of(demand, cut).levels(demand)[0]
    if np.nanmin(cut_levels) >= whole_level * (1 - TOLERANCE):
        return Result(cut)
    path, levels = fresh_plan(demand, Goal(demand), seed, options)
    return Result(demand.assignment(path) if compare_levels(levels, cut_levels) > 0 else cut)


def budget(demand: Demand, options: Options) -> int:
    """Return the number of extra pieces allowed: at most leaves x spines, or the links between three layers.

    Flows of different rounds or phases meet no others of their job, so each round may have that many.
    """
    fabric = demand.fabric
    most = len(fabric.ways.up) * (1 if len(fabric.tiers) == 1 else 2)
    most *= int(np.bincount(demand.group_job).max())
    return most if options.max_splits is None else min(most, options.max_splits)


def split_units(demand: Demand, best: float, seed: int, extra: int) -> Pieces:
    """Return pieces that reach about ``best`` (``bound_split``) with at most ``extra`` more of them than flows."""
    level, tried = best * TOLERATED, []
    for divided in _divisions(demand, best * AIM, seed):
        pieces = divided.merged().enforceable(demand).reunited(demand, 1.0 / level, extra)
        if pieces.lowest_level(demand) >= level * (1 - TOLERANCE):
            return pieces
        # Where the budget was tight, some pieces overload their links: they move and swap as whole units do.
        moved, reached = pieces.searched(demand, level, POLISHING, seed)
        moved = moved.merged()
        if reached:
            return moved
        tried += [pieces, moved]
    path = coloring.color_units(demand, seed)
    few = incremental_split(demand, path, level, extra, seed) or fewest_pieces(demand, level, extra)
    return few or max(tried, key=lambda pieces: pieces.lowest_level(demand))


def _divisions(demand: Demand, level: float, seed: int) -> Iterator[Pieces]:
    """Yield pieces that let every collective have this level, or nearly so, by one method after the other."""
    yield divided_by_tier(demand, level, seed)
    if demand.one_choice:
        return
    # Tier by tier, sums of switches are kept, not those of pairs: which may cost level where links have failed.
    vertex = vertex_pieces(demand, level)
    if vertex is not None:
        yield vertex
