"""Spreads of a collective's flows on a fabric of three tiers of switches, which may reach the bound of its cuts."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING

MOST_TIERS = 2
"""Most tiers of cables that these spreads know."""


@nb.njit(nogil=True, cache=True)
def _width(a, b, up, down, begin, n_choices, gbps):
    """Return the total of the narrower links of all choices between two switches of the second tier; 0: none."""
    total = 0.0
    if a < 0 or b < 0:
        return total
    for c in range(n_choices):
        u, d = up[begin + a * n_choices + c], down[begin + b * n_choices + c]
        if u >= 0 and d >= 0:
            total += min(gbps[u], gbps[d])
    return total


@nb.njit(nogil=True, cache=True)
def _even(links, ways, gbps):
    """Return the capacity of each link [M] of switches of the second tier that have all, and all alike; 0: others.

    Two choices may share a link (a core with more cables to one switch than to another): those switches have 0, too.
    """
    n_choices, begin = ways.width[1], ways.table[1]
    evenly = np.zeros((ways.table[2] - begin) // max(1, n_choices))
    for a in range(len(evenly)):
        own = links[begin + a * n_choices : begin + (a + 1) * n_choices]
        if own.min() >= 0 and (own[1:] > own[:-1]).all() and (gbps[own] == gbps[own[0]]).all():
            evenly[a] = gbps[own[0]]
    return evenly


@nb.njit(nogil=True, cache=True)
def _spread_below(flows, gbit, leaf_src, leaf_dst, by_above, ways, gbps, even, width, load, between, spread):
    """Add the flows to the links of the first tier, and to the pairs of switches above to which they come.

    Between two switches with links that are all alike, what comes to them loads their links alike: ``spread`` [2, M].
    """
    up, down, above, group = ways.up, ways.down, ways.above, ways.group
    n_first, n_second, begin = ways.width[0], ways.width[1], ways.table[1]
    part = np.empty(n_first)
    for f in flows:
        s, d = leaf_src[f], leaf_dst[f]
        inside = group[0, s] == group[0, d]
        for j in range(n_first):
            u, v = up[s * n_first + j], down[d * n_first + j]
            part[j] = min(gbps[u], gbps[v]) if u >= 0 and v >= 0 else 0.0
            if inside or part[j] == 0.0:
                continue
            a, b = above[s * n_first + j], above[d * n_first + j]
            if even[0, a] > 0.0 and even[0, a] == even[1, b]:
                width[a, b] = even[0, a] * n_second
            elif width[a, b] < 0.0:
                width[a, b] = _width(a, b, up, down, begin, n_second, gbps)
            if by_above or width[a, b] == 0.0:
                part[j] = width[a, b]
        total = part.sum()
        for j in range(n_first):
            if part[j] > 0.0:
                amount = gbit[f] * part[j] / total
                load[up[s * n_first + j]] += amount
                load[down[d * n_first + j]] += amount
                a, b = above[s * n_first + j], above[d * n_first + j]
                if not inside and even[0, a] > 0.0 and even[0, a] == even[1, b]:
                    spread[0, a] += amount / n_second
                    spread[1, b] += amount / n_second
                elif not inside:
                    between[a, b] += amount


@nb.njit(nogil=True, cache=True)
def _spread_above(flows, leaf_src, leaf_dst, ways, gbps, width, load, between, uneven):
    """Spread what comes to each pair of switches over its links above, and clear it; ``uneven`` gets the switches."""
    up, down, above = ways.up, ways.down, ways.above
    n_first, n_second, begin = ways.width[0], ways.width[1], ways.table[1]
    for f in flows:
        for j in range(n_first):
            a, b = above[leaf_src[f] * n_first + j], above[leaf_dst[f] * n_first + j]
            if a < 0 or b < 0 or between[a, b] <= 0.0:
                continue
            uneven[0, a] = uneven[1, b] = True
            for c in range(n_second):
                u, v = up[begin + a * n_second + c], down[begin + b * n_second + c]
                if u >= 0 and v >= 0:
                    amount = between[a, b] * min(gbps[u], gbps[v]) / width[a, b]
                    load[u] += amount
                    load[v] += amount
            between[a, b] = 0.0


@nb.njit(nogil=True, cache=True)
def _fits(flows, leaf_of, links, ways, gbps, seconds, load, spread, even, uneven, done):
    """Return whether no link of the flows' leaves, nor of the switches above, is busy for longer; clear the loads.

    ``spread`` [M] is what loads each link of a switch above, beside ``load`` [E], which only ``uneven`` [M] switches
    have; both are cleared. ``done`` [L] is false for all leaves on entry and exit.
    """
    above = ways.above
    n_first, n_second, begin = ways.width[0], ways.width[1], ways.table[1]
    fits = True
    for f in flows:
        leaf = leaf_of[f]
        if done[leaf]:
            continue
        done[leaf] = True
        for j in range(n_first):
            e = links[leaf * n_first + j]
            if e < 0:
                continue
            fits = fits and load[e] <= gbps[e] * seconds * (1.0 + ROUNDING)
            load[e] = 0.0
            a = above[leaf * n_first + j]
            if a < 0:
                continue
            if not uneven[a]:
                fits = fits and spread[a] <= even[a] * seconds * (1.0 + ROUNDING)
                spread[a] = 0.0
                continue
            for c in range(n_second):
                e = links[begin + a * n_second + c]
                if e >= 0:
                    fits = fits and load[e] + spread[a] <= gbps[e] * seconds * (1.0 + ROUNDING)
                    load[e] = 0.0
            spread[a], uneven[a] = 0.0, False
    for f in flows:
        done[leaf_of[f]] = False
    return fits


@nb.njit(nogil=True, cache=True)
def spread_reaches(order, ptr, gbit, leaf_src, leaf_dst, fixed, seconds, known, ways, gbps):
    """Return whether a spread of each collective's flows [K] fits into ``seconds`` (False: not found, but may exist).

    ``known`` [K] tells of which collectives the caller knows that one does.

    Two spreads are tried: over the switches of the second tier in proportion to the links of the two leaves, and in
    proportion to what is above. Above, a flow is spread in proportion to the narrower link of each choice.
    """
    n_switches = (ways.table[2] - ways.table[1]) // max(1, ways.width[1])
    width = np.full((n_switches, n_switches), -1.0)
    between = np.zeros((n_switches, n_switches))
    even, spread = np.zeros((2, n_switches)), np.zeros((2, n_switches))
    uneven = np.zeros((2, n_switches), np.bool_)
    if n_switches and ways.width[1]:
        even[0], even[1] = _even(ways.up, ways, gbps), _even(ways.down, ways, gbps)
    load, done = np.zeros(len(gbps)), np.zeros(ways.group.shape[1], np.bool_)
    reached = np.zeros(len(seconds), np.bool_)
    for k in range(len(seconds)):
        reached[k] = known[k] or not seconds[k] > 0.0
        if reached[k]:
            continue
        flows = order[ptr[k] : ptr[k + 1]]
        flows = flows[fixed[flows] >= 0]
        for by_above in range(2):
            if reached[k]:
                break
            _spread_below(flows, gbit, leaf_src, leaf_dst, by_above, ways, gbps, even, width, load, between, spread)
            _spread_above(flows, leaf_src, leaf_dst, ways, gbps, width, load, between, uneven)
            reached[k] = True
            for side, leaf_of, links in ((0, leaf_src, ways.up), (1, leaf_dst, ways.down)):
                state = (load, spread[side], even[side], uneven[side], done)
                # Both sides are looked at, whatever the first is: that clears their loads.
                reached[k] &= _fits(flows, leaf_of, links, ways, gbps, seconds[k], *state)
    return reached
