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
    """Do the same on a fabric of several tiers, by its live ways."""
    leaf_src = np.empty(len(src), np.int32)
    leaf_dst = np.empty(len(src), np.int32)
    fixed = np.empty(len(src), np.int32)
    links = np.empty(2 * len(ways.width), np.int64)
    n_leaves = ways.group.shape[1]
    # 1: a path joins two leaves, 2: none does, 0: not known yet.
    joined = np.zeros((n_leaves, n_leaves), np.int8)
    for f in range(len(src)):
        a, b = host_leaf[src[f]], host_leaf[dst[f]]
        leaf_src[f], leaf_dst[f] = a, b
        fixed[f] = UNROUTABLE
        if not host_up[src[f]] or not host_up[dst[f]]:
            continue
        if a == b:
            fixed[f] = LOCAL
            continue
        if joined[a, b] == 0:
            joined[a, b] = 1 if first_live(ways, a, b, links) >= 0 else 2
        if joined[a, b] == 1:
            fixed[f] = 0
    return leaf_src, leaf_dst, fixed


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
