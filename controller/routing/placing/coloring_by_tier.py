"""Colouring where paths have a choice in each tier of cables: one edge colouring for each choice.

*From below*: the units of each leaf are coloured over its choices, then those of each switch above over its own, and
so on. By de Werra (1971) a leaf with d units and G choices puts at most ceil(d / G) on a link. So with r leaves a pod
and C choices above, C not less than r, a switch above gets at most r ceil(d / G) units for C links, which is at most
ceil(d / G) for each: as few as at the leaves.

*From above*: where C is less than r, the links above limit. The first choice is then coloured for pods in place of
leaves; a pod's D units give ceil(ceil(D / G) / C) = ceil(D / (G C)) on its links, the least possible. A pod's units
are taken in order of leaves, so that those of a leaf are spread, too, though not always as well as possible.

On one tier, ``coloring.color_units`` colours all units at once, whatever cables their leaves have lost, and repairs
units whose colours are not live: there a unit has no further choices that a wrong one would spoil.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import IntArray
from controller.model.paths.ways import Ways
from controller.model.traffic import Int64Array
from controller.routing.kernels.placing import edge_coloring
from controller.routing.problem.demand import Demand


def color_by_tier(
    demand: Demand, ways: Ways, order: IntArray, part: IntArray, seed: int, *, complete: bool, from_above: bool
) -> IntArray:
    """Return a path [U] for each unit, -1 where the colours do not lead to its destination.

    Args:
        demand: the placement units, on a fabric of several tiers.
        ways: the ways that they may take.
        order: [U] the units in the order in which they fill the chunks of their switches.
        part: [U] units of different parts are coloured separately.
        seed: the seed of the colouring.
        complete: whether every switch has a live link for each of its choices.
        from_above: colour the first choice for groups of leaves in place of leaves.
    """
    meet = demand.meet
    number = np.zeros(demand.n_units, dtype=np.int64)
    ends = demand.unit_src.astype(np.int64), demand.unit_dst.astype(np.int64)
    colored = np.ones(demand.n_units, dtype=np.bool_)
    for tier in range(ways.n_tiers):
        there = order[(meet[order] >= tier) & colored[order]]
        if from_above and tier + 1 < ways.n_tiers:
            crosses = meet[there] > tier
            crossing, inside = there[crosses], there[~crosses]
            pods = ways.group[tier][demand.unit_src], ways.group[tier][demand.unit_dst]
            choice = np.zeros(demand.n_units, dtype=np.int64)
            choice[crossing] = _colors(ways, tier, ends, pods, crossing, part, seed, complete=complete, by_switch=True)
            choice[inside] = _colors(ways, tier, ends, ends, inside, part, seed, complete=complete)
            choice = choice[there]
        else:
            choice = _colors(ways, tier, ends, ends, there, part, seed, complete=complete)
        number[there] = number[there] * ways.width[tier] + choice
        if tier + 1 < ways.n_tiers:
            goes_on = meet[there] > tier
            onward, choice = there[goes_on], choice[goes_on]
            for end in ends:
                end[onward] = ways.above[ways.table[tier] + end[onward] * ways.width[tier] + choice]
            colored[onward] = (ends[0][onward] >= 0) & (ends[1][onward] >= 0)
    return np.where(colored, ways.first[np.minimum(meet, ways.n_tiers - 1)] + number, -1).astype(np.int32)


def _colors(
    ways: Ways,
    tier: int,
    switches: tuple[Int64Array, Int64Array],
    vertices: tuple[Int64Array | IntArray, Int64Array | IntArray],
    unit: IntArray,
    part: IntArray,
    seed: int,
    *,
    complete: bool,
    by_switch: bool = False,
) -> Int64Array:
    """Return the choice [N] of each of these units, which are in the order in which they fill chunks.

    Switches with the same live choices are coloured together, as a graph of the ``vertices``. With ``by_switch`` the
    units of a vertex fill its chunks switch by switch.
    """
    chosen = np.zeros(len(unit), dtype=np.int64)
    if not len(unit):
        return chosen
    alike: list[tuple[slice | Int64Array, Int64Array]]
    if complete:
        alike = [(slice(None), np.arange(ways.width[tier]))]
    else:
        live = _live_choices(ways, tier)
        kinds, kind_of = np.unique(live, axis=0, return_inverse=True)
        kind = kind_of.reshape(-1)[switches[0][unit]]
        alike = [(np.flatnonzero(kind == each), np.flatnonzero(kinds[each])) for each in np.unique(kind).tolist()]
    for member, choices in alike:
        if not len(choices):
            continue
        own = unit[member]
        slots = []
        in_parts = part[own].astype(np.int64)
        n_parts = int(in_parts.max()) + 1
        for vertex, switch in zip(vertices, switches, strict=True):
            rows = np.arange(len(own))
            if by_switch:
                rows = np.lexsort((switch[own], in_parts))
            n_vertices = int(vertex.max()) + 1
            spread = vertex[own] if n_parts == 1 else vertex[own] + in_parts * n_vertices
            slots.append(edge_coloring.slots(spread.astype(np.int64), rows, n_vertices * n_parts, len(choices)))
        (left, n_left), (right, n_right) = slots
        hue = edge_coloring.color(left, right, max(n_left, n_right), len(choices), seed & 0xFFFFFFFF)
        chosen[member] = choices[hue]
    return chosen


def _live_choices(ways: Ways, tier: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return [N, K] which choices units of a switch may make: those that some switch below the same ones above has."""
    links = ways.tier(tier)
    live = (links.up >= 0) | (links.down >= 0)
    if tier == 0:
        return np.broadcast_to(live.any(axis=0), live.shape)
    plane = _planes(ways, tier)
    usable = np.zeros((int(plane.max(initial=0)) + 1, live.shape[1]), dtype=np.bool_)
    np.logical_or.at(usable, plane, live)
    # A choice that most switches of a plane have lost (a dead core) would strand the units of all of them.
    return usable[plane]


def _planes(ways: Ways, tier: int) -> Int64Array:
    """Return [N] a number for each switch of a tier, equal for those which one choice of the tier below leads to."""
    above = ways.above[ways.table[tier - 1] : ways.table[tier]].reshape(-1, int(ways.width[tier - 1]))
    n_switches = int(ways.table[tier + 1] - ways.table[tier]) // max(1, int(ways.width[tier]))
    plane = np.zeros(n_switches, dtype=np.int64)
    switch, choice = np.nonzero(above >= 0)
    plane[above[switch, choice]] = choice
    return plane
