"""Repair of an earlier plan where paths have several choices: only those that no longer lead anywhere are made anew.

A broken link above leaves the choices below as they are: units of the same plane make room for the stranded ones along
alternating chains between two of the plane's own choices, and no unit of another plane moves.

On one tier (``replan``) chains run over all units at once: no choice there hangs on another one.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.paths.ways import NO_LINK, Tier, Ways
from controller.model.traffic import Int64Array
from controller.routing.kernels.placing import (
    blocked_slots,
    chains,
    equal_chains,
    kempe,
    room_above,
    room_by_matching,
    walking,
)
from controller.routing.placing.link_slots import choose_slots, in_slots, slots_of
from controller.routing.problem.demand import Demand

MOST_CHAINS = 32
"""Most units too many above a tier for which chains are tried, too: each chain tries all others, but few units move."""

ORDERS = 8
"""Most orders of choices in which units are reserved for switches above that have lost links."""


def repaired(demand: Demand, ways: Ways, load: FloatArray, old: IntArray) -> IntArray:
    """Return paths [U] near the ``old`` ones (-1: none) for units of these loads [U], on these ways.

    A unit for which a tier has no live choice has -1, or keeps a path that is no longer live.
    """
    gbps = demand.fabric.link_gbps
    choices = choices_of(ways, demand.meet, old)
    before = choices.copy()
    lower, upper = demand.unit_src.astype(np.int32), demand.unit_dst.astype(np.int32)
    for number in range(ways.n_tiers):
        tier = ways.tier(number)
        there = (demand.meet >= number) & (lower >= 0) & (upper >= 0)
        broken = walking.stranded(there, lower, upper, choices[number], tier)
        if broken.any():
            near = walking.in_reach(there, lower, upper, broken, len(tier.up))
            whole = (tier.up >= 0).all(axis=0) & (tier.down >= 0).all(axis=0)
            if not whole.any():
                near = near[tier.possible(lower[near], upper[near]).any(axis=1)]
            choices[number, broken] = -1
            repaired_choice = _with_room(
                tier, gbps, lower[near], upper[near], load[near], choices[number, near].astype(np.int32)
            )
            moved = near[repaired_choice != choices[number, near]]
            choices[number, near] = repaired_choice
            choices[number + 1 :, moved] = -1
        if number + 1 == ways.n_tiers:
            break
        moved = _make_room_above(demand, ways, load, number, there, lower, upper, choices[number])
        choices[number + 1 :, moved] = -1
        for end in (lower, upper):
            walking.climb(end, choices[number], demand.meet, number, ways)
    path, changed = old.copy(), np.flatnonzero((choices != before).any(axis=0) | (old < 0))
    path[changed] = path_of(ways, demand.meet[changed], choices[:, changed])
    return path


def _make_room_above(
    demand: Demand,
    ways: Ways,
    load: FloatArray,
    number: int,
    on_tier: BoolArray,
    lower: IntArray,
    upper: IntArray,
    picked: Int64Array,
) -> Int64Array:
    """Exchange choices ``picked`` [U] of units ``on_tier`` [U] where switches above have too few links.

    Return the units that moved.

    Nothing is exchanged unless units have equal loads, and links of a tier room for equally many. Of several units on
    a link each counts as one of a choice of its own, which leads to a part of the switch above.
    """
    gbps, none = demand.fabric.link_gbps, np.zeros(0, dtype=np.int64)
    there = slice(None) if on_tier.all() else np.flatnonzero(on_tier)
    tier, onward, own = ways.tier(number), ways.tier(number + 1), load[there]
    count, onward_count = (slots_of(own, each, gbps) for each in (tier, onward))
    if not count or not onward_count:
        return none
    ends, crosses, pods = (lower[there], upper[there]), demand.meet[there] > number, ways.group[number]
    above = ways.above[ways.table[number] : ways.table[number + 1]].reshape(tier.up.shape)
    room = np.stack([(links >= 0).sum(axis=1) for links in (onward.up, onward.down)]) * onward_count
    chosen = picked[there].copy()
    if count > 1 and equal_chains.make_room(*ends, crosses, tier, count, above, room, chosen):
        return _moved(picked, there, chosen)
    excess = _excess(*ends, crosses, above, room, chosen)
    if not excess:
        return none
    before = choose_slots(*ends, chosen, tier, count)
    tier, above, room = in_slots(tier, count), _parts_above(above, count), _divided(room, count)
    problem = (*ends, crosses, tier, above, room)
    candidates = [_matched(*problem, pods, before)]
    if excess <= MOST_CHAINS:
        chained = before.copy()
        room_above.make_room(*problem, chained)
        candidates.append(chained)
    candidates = [choice for choice in candidates if (choice != before).any()]
    orders = np.random.default_rng(0)
    for _ in range(0 if candidates else ORDERS):
        matched = _matched(*problem, pods, before, order=orders.permutation(tier.up.shape[1]))
        if (matched != before).any():
            candidates.append(matched)
            break
    if not candidates:
        return none
    fewest = min(candidates, key=lambda choice: int((choice // count != before // count).sum()))
    return _moved(picked, there, fewest // count)


def _moved(picked: Int64Array, there: slice | Int64Array, chosen: Int64Array) -> Int64Array:
    """Set the choices ``picked`` [U] of the units that are ``there``; return the units whose choice changes."""
    before = picked.copy()
    picked[there] = chosen
    return np.flatnonzero(picked != before)


def _parts_above(above: IntArray, count: int) -> IntArray:
    """Return [N, K * count] the part of a switch above to which each slot of a choice [N, K] leads; -1: none."""
    if count == 1:
        return above
    parts = np.where(above[:, :, None] >= 0, above[:, :, None] * count + np.arange(count), -1)
    return parts.reshape(len(above), -1).astype(above.dtype)


def _divided(room: Int64Array, count: int) -> Int64Array:
    """Return the room [2, M * count] of the parts of switches above, which have these rooms [2, M]."""
    return ((room[:, :, None] + np.arange(count)) // count).reshape(len(room), -1)


def _excess(
    lower: IntArray,
    upper: IntArray,
    crosses: BoolArray,
    above: IntArray,
    room: Int64Array,
    choice: Int64Array,
) -> int:
    """Return by how many units the switches above, up and down, are too full."""
    passed = np.flatnonzero(crosses & (choice >= 0))
    counts = [
        np.bincount(switch[switch >= 0], minlength=room.shape[1])
        for switch in (above[end[passed], choice[passed]] for end in (lower, upper))
    ]
    return int(np.maximum(np.stack(counts) - room, 0).sum())


def _matched(
    lower: IntArray,
    upper: IntArray,
    crosses: BoolArray,
    tier: Tier,
    above: IntArray,
    room: Int64Array,
    pods: IntArray,
    choice: Int64Array,
    *,
    order: Int64Array | None = None,
) -> Int64Array:
    """Return choices [U] of which none leads too many units to a switch above, or the same ones.

    With ``order``, the order in which choices get their units, units are first reserved for choices that need them.
    """
    matched, n_choices = choice.copy(), tier.up.shape[1]
    in_order = np.arange(n_choices) if order is None else order
    settled = room_by_matching.match(
        lower, upper, crosses, tier, above, room, pods, order is not None, in_order, matched
    )
    if not settled.any():
        return choice
    _color_others(lower, upper, tier, settled, matched)
    return choice if (matched < 0).any() else matched


def matched_beside_dead(lower: IntArray, upper: IntArray, tier: Tier, choice: IntArray) -> IntArray:
    """Return choices [U] of which all are live, one for each unit, or the same ones."""
    matched = choice.copy()
    settled = room_by_matching.match_beside_dead(lower, upper, tier, matched)
    if not settled.any():
        return choice
    _color_others(lower, upper, tier, settled, matched)
    return choice if (matched < 0).any() else matched


def _color_others(
    lower: IntArray, upper: IntArray, tier: Tier, settled: BoolArray, choice: IntArray | Int64Array
) -> None:
    """Give units that have no settled choice one of the other choices, where chains make room; ``choice`` changes."""
    rest = np.flatnonzero((choice < 0) | ~settled[choice])
    left = Tier(*(np.where(settled, NO_LINK, links).astype(links.dtype) for links in tier))
    others = choice[rest].astype(np.int32)
    kempe.insert(lower[rest], upper[rest], left, others)
    if (others < 0).any():
        blocked_slots.insert(lower[rest], upper[rest], left, others)
    choice[rest] = others


def choices_of(ways: Ways, meet: IntArray, path: IntArray) -> Int64Array:
    """Return [T, U] the choice of each path on each tier; -1 above the tier where its leaves meet, or without path."""
    made: Int64Array = walking.choices(path, meet, ways.first, ways.width)
    return made


def path_of(ways: Ways, meet: IntArray, choices: Int64Array) -> IntArray:
    """Return the path [U] of these choices [T, U]; -1 where one of them is missing."""
    path = np.full(choices.shape[1], -1, dtype=np.int32)
    for top in range(ways.n_tiers):
        rows = np.flatnonzero((meet == top) & (choices[: top + 1] >= 0).all(axis=0))
        number = np.zeros(len(rows), dtype=np.int64)
        for tier in range(top + 1):
            number = number * ways.width[tier] + choices[tier, rows]
        path[rows] = ways.first[top] + number
    return path


def _with_room(
    tier: Tier, gbps: FloatArray, lower: IntArray, upper: IntArray, load: FloatArray, choice: IntArray
) -> IntArray:
    """Return choices [M] in which units without one (-1) have one where alternating chains make room."""
    seen = np.zeros(len(tier.up), dtype=np.bool_)
    seen[lower] = seen[upper] = True
    used = np.flatnonzero(seen)
    place = np.full(len(tier.up), -1, dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    part = Tier(np.ascontiguousarray(tier.up[used]), np.ascontiguousarray(tier.down[used]))
    src, dst, colored = place[lower], place[upper], choice.copy()
    count = slots_of(load, part, gbps)
    if count > 1:
        placed = choice.copy()
        if equal_chains.insert(src, dst, part, count, placed):
            return placed
    if count:
        slots = in_slots(part, count)
        slot = choose_slots(src, dst, choice, part, count).astype(np.int32)
        kempe.insert(src, dst, slots, slot)
        if (slot < 0).any():
            blocked_slots.insert(src, dst, slots, slot)
        if (slot < 0).any():
            slot = matched_beside_dead(src, dst, slots, slot)
        colored = np.where(slot < 0, -1, slot // count).astype(np.int32)
    if (colored < 0).any():
        chains.insert(src, dst, load, part, gbps, colored)
    return colored
