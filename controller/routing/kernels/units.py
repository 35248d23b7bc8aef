"""Flows: their leaves, their rates, and their placement units."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE
from controller.model.units import GBIT
from controller.routing.kernels.paths import first_live


@nb.njit(nogil=True, cache=True)
def classify(src, dst, host_leaf, host_up, tier):
    """Return source leaf, destination leaf and fixed path [F] of each flow (0: it needs a path)."""
    live_up, live_down = tier.up, tier.down
    n_paths = live_up.shape[1]
    leaf_src = np.empty(len(src), np.int32)
    leaf_dst = np.empty(len(src), np.int32)
    fixed = np.empty(len(src), np.int32)
    for f in range(len(src)):
        a, b = host_leaf[src[f]], host_leaf[dst[f]]
        leaf_src[f], leaf_dst[f] = a, b
        fixed[f] = UNROUTABLE
        if not host_up[src[f]] or not host_up[dst[f]]:
            continue
        if a == b:
            fixed[f] = LOCAL
            continue
        for k in range(n_paths):
            if live_up[a, k] >= 0 and live_down[b, k] >= 0:
                fixed[f] = 0
                break
    return leaf_src, leaf_dst, fixed


@nb.njit(nogil=True, cache=True)
def classify_on_ways(src, dst, host_leaf, host_up, ways):
    """Do the same on a fabric of several tiers or planes, by its live ways."""
    if complete(ways) or (len(src) >= ways.group.shape[1] and _some_path_is_whole(ways)):
        return _classify_where_they_meet(src, dst, host_leaf, host_up, ways.group)
    leaf_src = np.empty(len(src), np.int32)
    leaf_dst = np.empty(len(src), np.int32)
    fixed = np.empty(len(src), np.int32)
    links = np.empty(2 * len(ways.width), np.int64)
    # 1: a path joins two leaves, 2: none does, 0: not known yet. With one tier a path is found as soon as looked up,
    # and planes have too many leaves for such a table.
    known = ways.group.shape[1] if len(ways.width) > 1 else 0
    joined = np.zeros((known, known), np.int8)
    for f in range(len(src)):
        a, b = host_leaf[src[f]], host_leaf[dst[f]]
        leaf_src[f], leaf_dst[f] = a, b
        fixed[f] = UNROUTABLE
        if not host_up[src[f]] or not host_up[dst[f]]:
            continue
        if a == b:
            fixed[f] = LOCAL
            continue
        if known == 0:
            if first_live(ways, a, b, links) >= 0:
                fixed[f] = 0
            continue
        if joined[a, b] == 0:
            joined[a, b] = 1 if first_live(ways, a, b, links) >= 0 else 2
        if joined[a, b] == 1:
            fixed[f] = 0
    return leaf_src, leaf_dst, fixed


@nb.njit(nogil=True, cache=True)
def complete(ways):
    """Return whether all switches have live links for all their choices, so leaves are joined where they meet."""
    for table in (ways.up, ways.down, ways.above):
        for link in table:
            if link < 0:
                return False
    return ways.width.min() > 0


TRIED = 16
"""Paths that are looked at for one that all leaves have. Most failures leave most paths whole."""


@nb.njit(nogil=True, cache=True)
def _some_path_is_whole(ways):
    """Return whether all leaves have all links of a path, up and down, which then joins them where they meet.

    Few paths are tried, whose choices differ on each tier (False: it is not known).
    """
    n_tiers = len(ways.width)
    first = ways.first[n_tiers - 1]
    n_paths = ways.first[n_tiers] - first
    for turn in range(min(n_paths, TRIED)):
        number = (turn * (n_paths // TRIED + 1)) % n_paths
        whole = True
        for leaf in range(ways.group.shape[1]):
            switch, after, rest = np.int64(leaf), n_paths, number
            for tier in range(n_tiers):
                after //= ways.width[tier]
                at = ways.table[tier] + switch * ways.width[tier] + rest // after
                rest %= after
                whole = bool(ways.up[at] >= 0) and bool(ways.down[at] >= 0)
                if tier + 1 < n_tiers:
                    switch = np.int64(ways.above[at])
                    whole = whole and bool(switch >= 0)
                if not whole:
                    break
            if not whole:
                break
        if whole:
            return True
    return False


@nb.njit(nogil=True, cache=True)
def _classify_where_they_meet(src, dst, host_leaf, host_up, group):
    """Do the same where leaves are joined wherever they meet."""
    leaf_src = np.empty(len(src), np.int32)
    leaf_dst = np.empty(len(src), np.int32)
    fixed = np.empty(len(src), np.int32)
    top = len(group) - 1
    for f in range(len(src)):
        a, b = host_leaf[src[f]], host_leaf[dst[f]]
        leaf_src[f], leaf_dst[f] = a, b
        joined = 0 if group[top, a] == group[top, b] else UNROUTABLE
        if a == b:
            joined = LOCAL
        fixed[f] = joined if host_up[src[f]] and host_up[dst[f]] else UNROUTABLE
    return leaf_src, leaf_dst, fixed


@nb.njit(nogil=True, cache=True)
def meet(src, dst, group):
    """Return [N] the lowest tier above which two leaves meet; the number of tiers: they do not. ``group`` [T, L]."""
    tiers = np.full(len(src), len(group), np.int32)
    for i in range(len(src)):
        for tier in range(len(group)):
            if group[tier, src[i]] == group[tier, dst[i]]:
                tiers[i] = tier
                break
    return tiers


FEW = 32
"""Flows of a host that are compared one by one; more are sorted."""


@nb.njit(nogil=True, cache=True)
def all_distinct(src, dst, port, n_hosts):
    """Return whether no two flows have the same source, destination and port: a bucket sort by source.

    It takes a fifth of the time of sorting all flows by all three.
    """
    first = np.zeros(n_hosts + 1, np.int64)
    for f in range(len(src)):
        first[src[f] + 1] += 1
    for h in range(n_hosts):
        first[h + 1] += first[h]
    key = np.empty(len(src), np.int64)
    for f in range(len(src)):
        key[first[src[f]]] = np.int64(dst[f]) << 16 | port[f]
        first[src[f]] += 1
    begin = 0
    for h in range(n_hosts):
        own = key[begin : first[h]]
        begin = first[h]
        if len(own) > FEW:
            own.sort()
            for i in range(len(own) - 1):
                if own[i] == own[i + 1]:
                    return False
            continue
        for i in range(len(own)):
            equal = False
            for j in range(i):
                equal |= own[j] == own[i]
            if equal:
                return False
    return True


@nb.njit(nogil=True, cache=True)
def rates(n_bytes, collective, ideal):
    """Return the rate [F] of each flow in Gbit/s when its collective has speed 1; 0 without a positive ideal time."""
    gbps = np.zeros(len(n_bytes), np.float64)
    for f in range(len(n_bytes)):
        seconds = ideal[collective[f]]
        if seconds > 0.0:
            gbps[f] = n_bytes[f] * GBIT / seconds
    return gbps


@nb.njit(nogil=True, cache=True)
def unit_loads(part_ptr, part_group, part_load, group_job):
    """Return the load [U] of each unit, of each job the heaviest phase."""
    total = np.zeros(len(part_ptr) - 1, np.float64)
    by_group = np.zeros(len(group_job), np.float64)
    for u in range(len(total)):
        for p in range(part_ptr[u], part_ptr[u + 1]):
            by_group[part_group[p]] += part_load[p]
        heaviest = 0.0
        for g in range(len(group_job)):
            if g > 0 and group_job[g] != group_job[g - 1]:
                total[u] += heaviest
                heaviest = 0.0
            heaviest = max(heaviest, by_group[g])
            by_group[g] = 0.0
        total[u] += heaviest
    return total
