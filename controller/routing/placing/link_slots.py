"""Links that carry several equal units, as so many slots for one unit each.

What is known of links with room for one unit each (alternating chains that always end, matchings beside dead links)
then holds for these links, too: a choice with m slots stands for m choices.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.paths.ways import Tier
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.kernels.placing import edge_coloring

MOST_SLOTS = 64
"""Most slots of a link: above, a few units more or less on a link hardly matter."""

MOST_CELLS = 4_000_000
"""Most slots of all switches of a tier, so that the tables stay small."""


def slots_of(load: FloatArray, tier: Tier, gbps: FloatArray) -> int:
    """Return how many units each live link carries; 0: units have different loads, or links different numbers."""
    if not len(load) or load.min() < load.max() * (1.0 - ROUNDING) or not load.min() > 0.0:
        return 0
    capacity = np.concatenate([gbps[links[links >= 0]] for links in tier])
    if not len(capacity):
        return 0
    least, most = (int(float(each) / float(load[0]) * (1.0 + ROUNDING)) for each in (capacity.min(), capacity.max()))
    fits = least <= MOST_SLOTS and tier.up.size * least <= MOST_CELLS
    return least if least == most and fits else 0


def in_slots(tier: Tier, count: int) -> Tier:
    """Return a tier whose choices are the slots of the tier's choices, ``count`` for each one."""
    return tier if count == 1 else Tier(*(np.repeat(links, count, axis=1) for links in tier))


def choose_slots(lower: IntArray, upper: IntArray, choice: IntArray | Int64Array, tier: Tier, count: int) -> Int64Array:
    """Return the slot [M] of each unit on its choice; -1 without one. No two share one where no link has too many.

    Args:
        lower: [M] switch of each unit on its way up.
        upper: [M] switch of each unit on its way down.
        choice: [M] the choice of each unit; -1: none.
        tier: the links of the choices.
        count: the slots of a choice.
    """
    slot = choice.astype(np.int64)
    if count == 1:
        return slot
    has = np.flatnonzero(choice >= 0)
    n_switches, n_choices = tier.up.shape
    order, sides = np.arange(len(has)), []
    for end in (lower, upper):
        cell = end[has].astype(np.int64) * n_choices + choice[has]
        sides.append(edge_coloring.slots(cell, order, n_switches * n_choices, count))
    (left, n_left), (right, n_right) = sides
    slot[has] = choice[has] * count + edge_coloring.color(left, right, max(n_left, n_right), count, 0)
    return slot
