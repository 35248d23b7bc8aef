"""Units on whole paths: the load of each link, the units that are on it, and the set of overloaded links.

Loads of phases of one job do not add up: on each link the heaviest phase of each job counts. What a kernel changes here
stays consistent: ``move`` takes a unit with its load from the links of one path to those of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array
from controller.routing.kernels.paths import path_links
from controller.routing.kernels.placing.overloaded_links import update_member
from controller.routing.kernels.without_runtime import inner, without_runtime


class UnitsOnWays(NamedTuple):
    """The constants of a search: U units of P parts, and the fabric's links.

    Attributes:
        src, dst: [U] leaves of each unit.
        meet: [U] the tier of cables above which they meet.
        part_ptr: [U+1] parts of each unit.
        part_group: [P] phase group of each part.
        same_job: [2, G] the first of the groups of each group's job, and the one after the last.
        gbps: [E] capacity of each link.
        room: [E] the load above which a link is overloaded.
    """

    src: IntArray
    dst: IntArray
    meet: IntArray
    part_ptr: IntArray
    part_group: IntArray
    same_job: Int64Array
    gbps: FloatArray
    room: FloatArray


class LoadsOnWays(NamedTuple):
    """Loads in Gbit/s at the target level, updated with every move.

    Attributes:
        part: [P] load of each part.
        unit: [U] load of each unit, if it has one phase.
        link: [E] load of each link.
        by_group: [E, G] load of each link by phase group; [1, G] and unused where there is one phase.
        price: [E] cost of a Gbit/s of overload.
    """

    part: FloatArray
    unit: FloatArray
    link: FloatArray
    by_group: FloatArray
    price: FloatArray


class Crossings(NamedTuple):
    """The units on each link, as a doubly linked list for each link. Entry i of unit u is ``u * 2T + i``.

    Attributes:
        of: [U, 2T] the links of each unit's path; -1 beyond the last.
        head: [E] first entry on the link (-1: none).
        length: [E] number of entries on the link.
        following, leading: [U * 2T] next entry on the link, and the one before.
    """

    of: IntArray
    head: IntArray
    length: IntArray
    following: IntArray
    leading: IntArray


@without_runtime
def _change_in_phases(part_ptr, part_group, part_load, same_job, by_group, u, sign):
    """Return how much a link's load changes, by its loads [G], when unit u comes (sign 1) or goes (-1)."""
    begin, end = part_ptr[u], part_ptr[u + 1]
    total = 0.0
    for p in range(begin, end):
        group = part_group[p]
        first = True
        for q in range(begin, p):
            first = first and same_job[0, part_group[q]] != same_job[0, group]
        if not first:
            continue
        # All parts of one job at once: they may be in several of its phases.
        before, after = 0.0, 0.0
        for g in range(same_job[0, group], same_job[1, group]):
            grown = by_group[g]
            before = max(before, grown)
            for q in range(p, end):
                if part_group[q] == g:
                    grown += sign * part_load[q]
            after = max(after, grown)
        total += after - before
    return total


@inner
def _change(units, loads, link, u, sign):
    """Return how much the load of a link changes when unit u comes (sign 1) or goes (-1)."""
    if len(loads.by_group) == 1:
        return sign * loads.unit[u]
    return _change_in_phases(
        units.part_ptr, units.part_group, loads.part, units.same_job, loads.by_group[link], u, sign
    )


@inner
def growth(units, loads, link, u, sign):
    """Return the growth of a link's weighted overload when unit u comes (sign 1) or goes (-1)."""
    now, room = loads.link[link], units.room[link]
    then = now + _change(units, loads, link, u, sign)
    return loads.price[link] * (max(0.0, then - room) - max(0.0, now - room))


@without_runtime
def _load(units, loads, link, u, sign):
    """Add unit u to a link's load (sign 1), or take it off (-1); return the growth of the weighted overload."""
    now, room = loads.link[link], units.room[link]
    then = now + _change(units, loads, link, u, sign)
    if len(loads.by_group) > 1:
        for p in range(units.part_ptr[u], units.part_ptr[u + 1]):
            loads.by_group[link, units.part_group[p]] += sign * loads.part[p]
    loads.link[link] = then
    return loads.price[link] * (max(0.0, then - room) - max(0.0, now - room))


@without_runtime
def load_path(units, loads, u, links, n, sign):
    """Add unit u to n links, or take it off them; return the growth of the weighted overload."""
    grown = 0.0
    for i in range(n):
        grown += _load(units, loads, np.int64(links[i]), u, sign)
    return grown


@inner
def entry_of(lists, link, skipped):
    """Return the entry of a link after the ``skipped`` first ones."""
    entry = lists.head[link]
    for _ in range(skipped):
        entry = lists.following[entry]
    return entry


@inner
def n_links_of(lists, u):
    """Return the number of links of a unit's path."""
    n = 0
    while n < lists.of.shape[1] and lists.of[u, n] >= 0:
        n += 1
    return n


@without_runtime
def list_unit(units, ways, lists, path, u):
    """Put a unit into the lists of the links of its path; return how many these are."""
    width = lists.of.shape[1]
    row = lists.of[u]
    n = path_links(ways, np.int64(units.src[u]), np.int64(units.dst[u]), np.int64(path[u]), row)
    for i in range(n):
        entry, link = u * width + i, row[i]
        lists.leading[entry], lists.following[entry] = -1, lists.head[link]
        if lists.head[link] >= 0:
            lists.leading[lists.head[link]] = entry
        lists.head[link] = entry
        lists.length[link] += 1
    return n


@without_runtime
def unlist_unit(lists, u):
    """Take a unit out of the lists of its links."""
    width = lists.of.shape[1]
    for i in range(n_links_of(lists, u)):
        entry, link = u * width + i, lists.of[u, i]
        before, after = lists.leading[entry], lists.following[entry]
        if before >= 0:
            lists.following[before] = after
        else:
            lists.head[link] = after
        if after >= 0:
            lists.leading[after] = before
        lists.length[link] -= 1


@without_runtime
def move(units, loads, ways, lists, overloaded, path, u, k):
    """Move a unit to another path, together with its load."""
    n = n_links_of(lists, u)
    load_path(units, loads, u, lists.of[u], n, -1.0)
    unlist_unit(lists, u)
    for i in range(n):
        update_member(loads.link, units.room, lists.head, overloaded, lists.of[u, i])
    path[u] = k
    n = list_unit(units, ways, lists, path, u)
    load_path(units, loads, u, lists.of[u], n, 1.0)
    for i in range(n):
        update_member(loads.link, units.room, lists.head, overloaded, lists.of[u, i])


@nb.njit(nogil=True, cache=True)
def reload(units, loads, lists, path):
    """Compute the loads of units and links from those of the parts."""
    loads.link[:] = 0.0
    loads.by_group[:] = 0.0
    for u in range(len(path)):
        loads.unit[u] = 0.0
        for p in range(units.part_ptr[u], units.part_ptr[u + 1]):
            loads.unit[u] += loads.part[p]
        load_path(units, loads, np.int64(u), lists.of[u], n_links_of(lists, u), 1.0)


@nb.njit(nogil=True, cache=True)
def level_reached(units, lists, part_fixed, part_rising):
    """Return the level at which the first link is full, without phases."""
    fixed, rising = np.zeros(len(units.gbps)), np.zeros(len(units.gbps))
    for u in range(len(units.src)):
        own_fixed, own_rising = 0.0, 0.0
        for p in range(units.part_ptr[u], units.part_ptr[u + 1]):
            own_fixed += part_fixed[p]
            own_rising += part_rising[p]
        for i in range(n_links_of(lists, u)):
            fixed[lists.of[u, i]] += own_fixed
            rising[lists.of[u, i]] += own_rising
    level = np.inf
    for e in range(len(fixed)):
        if rising[e] > 0.0:
            level = min(level, (units.gbps[e] - fixed[e]) / rising[e])
    return level
