"""Placement of whole units on whole paths of fabrics with several tiers of cables (``place`` knows one choice)."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.paths import met, next_live, path_links
from controller.routing.kernels.placing.walking import add_loads


@nb.njit(nogil=True, cache=True)
def _best(ways, a, b, x, gbps, link_load, links):
    """Return the live path whose fullest link stays least loaded by x more, and that fill; -1: there is none.

    Of equal ones the path with the lowest sum over its links, then the lowest number.
    """
    top = met(ways, a, b)
    best, best_fill, best_sum = -1, np.inf, np.inf
    if top == len(ways.width):
        return best, best_fill
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
    return best, best_fill


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
        path[u], _ = _best(ways, src[u], dst[u], load[u], gbps, link_load, links)
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


@nb.njit(nogil=True, cache=True)
def _list_links(unit, path, src, dst, ways, links, chains):
    """Add a unit to the lists of the links of its path; ``links`` [2T] receives them."""
    head, after, before, of = chains
    n = path_links(ways, src[unit], dst[unit], path[unit], links)
    for i in range(n):
        entry = unit * of.shape[1] + i
        of[unit, i] = links[i]
        after[entry], before[entry] = head[links[i]], -1
        if head[links[i]] >= 0:
            before[head[links[i]]] = entry
        head[links[i]] = entry


@nb.njit(nogil=True, cache=True)
def _unlist_links(unit, chains):
    """Remove a unit from the lists of its links."""
    head, after, before, of = chains
    for i in range(of.shape[1]):
        if of[unit, i] < 0:
            continue
        entry = unit * of.shape[1] + i
        if before[entry] >= 0:
            after[before[entry]] = after[entry]
        else:
            head[of[unit, i]] = after[entry]
        if after[entry] >= 0:
            before[after[entry]] = before[entry]
        of[unit, i] = -1


@nb.njit(nogil=True, cache=True)
def _units_on(link, chains):
    """Return the units whose paths have a link."""
    head, after, _, of = chains
    units = [np.int64(0) for _ in range(0)]
    entry = head[link]
    while entry >= 0:
        units.append(entry // of.shape[1])
        entry = after[entry]
    return np.array(units)


@nb.njit(nogil=True, cache=True)
def improve(src, dst, load, ways, gbps, path, target, rounds, seed):
    """Move units away from the fullest link, as long as it carries more than ``target`` times its capacity.

    A unit moves to the path whose fullest link stays least loaded, if that is less than what is now the fullest. If no
    unit can, a unit is put onto a path with one link too full, and a unit of that link moves on (an ejection).

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        load: [U] load of each unit.
        ways: the live ways.
        gbps: [E] capacity of each link.
        path: [U] a live path of each unit; changes in place.
        target: the fill of the fullest link at which the search ends.
        rounds: the limit of paths examined; to find the fullest of 32 links counts as one.
        seed: the seed of the order in which units are tried.

    Returns:
        the fill of the fullest link.
    """
    n_links = 2 * len(ways.width)
    links, other = np.empty(n_links, np.int64), np.empty(n_links, np.int64)
    link_load = np.zeros(len(gbps))
    chains = (
        np.full(len(gbps), -1, np.int64),
        np.empty(len(path) * n_links, np.int64),
        np.empty(len(path) * n_links, np.int64),
        np.full((len(path), n_links), -1, np.int64),
    )
    for unit in range(len(path)):
        add(ways, src[unit], dst[unit], path[unit], load[unit], link_load, links)
        _list_links(unit, path, src, dst, ways, links, chains)
    np.random.seed(seed)
    width = 1
    for n_choices in ways.width:
        width *= int(n_choices)
    while True:
        fullest = np.argmax(link_load / gbps)
        most = link_load[fullest] / gbps[fullest]
        rounds -= len(gbps) // 32
        if most <= target * (1.0 + ROUNDING) or rounds <= 0:
            return most
        below = most * (1.0 - ROUNDING)
        units = _units_on(fullest, chains)
        np.random.shuffle(units)
        moved = False
        for u in units:
            add(ways, src[u], dst[u], path[u], -load[u], link_load, links)
            k, fill = _best(ways, src[u], dst[u], load[u], gbps, link_load, links)
            rounds -= width
            if fill < below:
                path[u], moved = k, True
            add(ways, src[u], dst[u], path[u], load[u], link_load, links)
            if moved:
                _unlist_links(u, chains)
                _list_links(u, path, src, dst, ways, links, chains)
                break
            if rounds <= 0:
                return most
        if moved:
            continue
        for u in units:
            moved, rounds = _eject(u, src, dst, load, ways, gbps, path, chains, link_load, below, links, other, rounds)
            if moved:
                break
            if rounds <= 0:
                return most
        if not moved:
            return most


@nb.njit(nogil=True, cache=True)
def _eject(u, src, dst, load, ways, gbps, path, chains, link_load, below, links, other, rounds):
    """Move unit u to a path with one link too full, and one of the units there to another.

    Returns:
        whether it could, and the paths that may still be examined.
    """
    top = met(ways, src[u], dst[u])
    n, last, old = 2 * (top + 1), ways.first[top + 1], path[u]
    add(ways, src[u], dst[u], old, -load[u], link_load, links)
    k = next_live(ways, src[u], dst[u], ways.first[top], last, links)
    while k >= 0 and rounds > 0:
        rounds -= 1
        full, which = 0, -1
        for i in range(n):
            if (link_load[links[i]] + load[u]) / gbps[links[i]] >= below:
                full += 1
                which = links[i]
        if full == 1 and k != old:
            add(ways, src[u], dst[u], k, load[u], link_load, other)
            for v in _units_on(which, chains):
                if v == u:
                    continue
                add(ways, src[v], dst[v], path[v], -load[v], link_load, other)
                relieved = link_load[which] / gbps[which] < below
                to, fill = -1, np.inf
                if relieved:
                    to, fill = _best(ways, src[v], dst[v], load[v], gbps, link_load, other)
                    highest = met(ways, src[v], dst[v])
                    rounds -= ways.first[highest + 1] - ways.first[highest]
                if fill < below:
                    path[u], path[v] = k, to
                    add(ways, src[v], dst[v], to, load[v], link_load, other)
                    for w in (u, v):
                        _unlist_links(w, chains)
                        _list_links(w, path, src, dst, ways, other, chains)
                    return True, rounds
                add(ways, src[v], dst[v], path[v], load[v], link_load, other)
            add(ways, src[u], dst[u], k, -load[u], link_load, other)
        k = next_live(ways, src[u], dst[u], k + 1, last, links)
    add(ways, src[u], dst[u], old, load[u], link_load, links)
    return False, rounds
