"""Placement of whole units on whole paths of fabrics with several tiers of cables (``place`` knows one choice)."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.paths import met, next_live, path_links
from controller.routing.kernels.placing.walking import add_loads


@nb.njit(nogil=True, cache=True)
def _best(ways, a, b, x, gbps, link_load, links):
    """Return the live path whose fullest link stays least loaded by x more; -1: there is none.

    Of equal ones the path with the lowest sum over its links, then the lowest number.
    """
    top = met(ways, a, b)
    best, best_fill, best_sum = -1, np.inf, np.inf
    if top == len(ways.width):
        return best
    n, last = 2 * (top + 1), ways.first[top + 1]
    path = next_live(ways, a, b, ways.first[top], last, links)
    while path >= 0:
        fill, total = 0.0, 0.0
        for i in range(n):
            one = (link_load[links[i]] + x) / gbps[links[i]]
            fill = max(fill, one)
            total += one
        if fill < best_fill or (fill == best_fill and total < best_sum):
            best, best_fill, best_sum = path, fill, total
        path = next_live(ways, a, b, path + 1, last, links)
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
    links = np.empty(2 * len(ways.width), np.int64)
    for u in order:
        path[u] = _best(ways, src[u], dst[u], load[u], gbps, link_load, links)
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
    links = np.empty(2 * len(ways.width), np.int64)
    reserved = np.zeros(len(gbps))
    for u in range(len(path)):
        top = met(ways, src[u], dst[u])
        if top == len(ways.width):
            continue
        n, last = 2 * (top + 1), ways.first[top + 1]
        k = next_live(ways, src[u], dst[u], ways.first[top], last, links)
        while k >= 0:
            fits = True
            for i in range(n):
                fits = fits and (reserved[links[i]] + demand[u]) / gbps[links[i]] <= 1.0 + ROUNDING
            if fits:
                path[u] = k
                add(ways, src[u], dst[u], k, demand[u], reserved, links)
                break
            k = next_live(ways, src[u], dst[u], k + 1, last, links)


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
