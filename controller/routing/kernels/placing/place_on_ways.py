"""Placement of whole units on whole paths of fabrics with several tiers of cables (``place`` knows one choice)."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from controller.model.fabric import FloatArray
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.kernels.paths import met, next_live, path_links
from controller.routing.kernels.placing.walking import add_loads
from controller.routing.kernels.without_runtime import without_runtime


class PathWalk(NamedTuple):
    """The state of a walk over the paths of two leaves, tier by tier: [T] each.

    Attributes:
        lower, upper: the switches below the present choice.
        choice: the present choice.
        number: the choices below, as a number.
        fill: load over capacity of the fullest link so far.
        total: the sum of these over the links so far.
    """

    lower: Int64Array
    upper: Int64Array
    choice: Int64Array
    number: Int64Array
    fill: FloatArray
    total: FloatArray


@nb.njit(nogil=True, cache=True)
def _descent(n_tiers):
    """Return the memory of walks."""
    return PathWalk(
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers, np.int64),
        np.empty(n_tiers),
        np.empty(n_tiers),
    )


@without_runtime
def _best(ways, src, dst, x, gbps, link_load, most, first_only, descent):
    """Return the live path whose fullest link stays least loaded by x more, at most ``most``; -1: there is none.

    Of equal ones the path with the lowest sum over its links, then the lowest number; or, with ``first_only``, the
    lowest number of all. A choice that is no better than the best path so far is not followed to the tiers above.
    """
    first, width, table, up, down, above, _ = ways
    lower, upper, choice, number, fill, total = descent
    top = met(ways, src, dst)
    if top == len(width):
        return np.int64(-1)
    lower[0], upper[0], choice[0], number[0], fill[0], total[0] = src, dst, -1, 0, 0.0, 0.0
    best, best_fill, best_sum, tier = np.int64(-1), most, np.inf, 0
    while tier >= 0:
        choice[tier] += 1
        if choice[tier] == width[tier]:
            tier -= 1
            continue
        out = table[tier] + lower[tier] * width[tier] + choice[tier]
        back = table[tier] + upper[tier] * width[tier] + choice[tier]
        if up[out] < 0 or down[back] < 0:
            continue
        one = (link_load[up[out]] + x) / gbps[up[out]]
        other = (link_load[down[back]] + x) / gbps[down[back]]
        fuller, added = max(fill[tier], one, other), total[tier] + one + other
        if fuller > best_fill or (fuller == best_fill and added >= best_sum):
            continue
        here = number[tier] * width[tier] + choice[tier]
        if tier == top:
            best, best_fill, best_sum = first[top] + here, fuller, added
            if first_only:
                break
            continue
        a, b = above[out], above[back]
        if a >= 0 and b >= 0:
            tier += 1
            lower[tier], upper[tier], choice[tier], number[tier] = a, b, -1, here
            fill[tier], total[tier] = fuller, added
    return best


@nb.njit(nogil=True, cache=True)
def _live_links(ways, a, b, path, links):
    """Return the number of links of a path between two leaves, which are in ``links``; 0: it does not join them."""
    top = met(ways, a, b)
    if top == len(ways.width) or path < ways.first[top] or path >= ways.first[top + 1]:
        return 0
    n = path_links(ways, a, b, path, links)
    for i in range(n):
        if links[i] < 0:
            return 0
    return n


@nb.njit(nogil=True, cache=True)
def add(ways, a, b, path, x, link_load, links):
    """Add x to the links of a path, if it joins the leaves."""
    for i in range(_live_links(ways, a, b, path, links)):
        link_load[links[i]] += x


@nb.njit(nogil=True, cache=True)
def least_loaded(order, src, dst, load, ways, gbps, link_load, path):
    """Give each unit of ``order`` in turn the live path whose fullest link (load over capacity) stays least loaded.

    ``link_load`` [E] is the initial load and is updated; ``path`` [U] receives the path.
    """
    links, descent = np.empty(2 * len(ways.width), np.int64), _descent(len(ways.width))
    for u in order:
        path[u] = _best(ways, np.int64(src[u]), np.int64(dst[u]), load[u], gbps, link_load, np.inf, False, descent)
        add(ways, src[u], dst[u], path[u], load[u], link_load, links)


@nb.njit(nogil=True, cache=True)
def repair(src, dst, load, ways, gbps, path):
    """Give units whose ``path`` [U] does not join their leaves (or is negative) the least loaded one, heaviest first.

    Returns:
        [U] whether each unit had no such path.
    """
    link_load = np.zeros(len(gbps))
    broken = ~add_loads(src, dst, path, load, ways, link_load)
    order = np.flatnonzero(broken)
    if not len(order):
        return broken
    order = order[np.argsort(-load[order], kind="mergesort")]
    least_loaded(order, src, dst, load, ways, gbps, link_load, path)
    return broken


@nb.njit(nogil=True, cache=True)
def first_fit(src, dst, demand, ways, gbps, path):
    """Give units in order the first path with room for their demand; where none has, ``path`` [U] is unchanged."""
    links, descent = np.empty(2 * len(ways.width), np.int64), _descent(len(ways.width))
    reserved, most = np.zeros(len(gbps)), 1.0 + ROUNDING
    for u in range(len(path)):
        k = _best(ways, np.int64(src[u]), np.int64(dst[u]), demand[u], gbps, reserved, most, True, descent)
        if k >= 0:
            path[u] = k
            add(ways, src[u], dst[u], k, demand[u], reserved, links)


@nb.njit(nogil=True, cache=True)
def pick_live(hashes, src, dst, ways, path):
    """Set ``path`` [U] to live path number ``hash mod n`` of the n live paths of each unit."""
    links = np.empty(2 * len(ways.width), np.int64)
    for u in range(len(hashes)):
        top = met(ways, src[u], dst[u])
        first, last = ways.first[top], ways.first[top + 1]
        n = 0
        k = next_live(ways, src[u], dst[u], first, last, links)
        while k >= 0:
            n += 1
            k = next_live(ways, src[u], dst[u], k + 1, last, links)
        k = next_live(ways, src[u], dst[u], first, last, links)
        for _ in range(np.int64(hashes[u]) % n):
            k = next_live(ways, src[u], dst[u], k + 1, last, links)
        path[u] = k
