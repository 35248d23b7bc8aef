"""Bounds from packing whole units into the links of one leaf."""

from __future__ import annotations

import numba as nb
import numpy as np

SLACK = 1e-9
"""Quotients of loads that ought to be whole numbers may lie this much below them."""


@nb.njit(nogil=True, cache=True)
def packing_bound(ptr, load, links, gbps):
    """The largest level that packing allows at every leaf.

    Args:
        ptr: [L+1] units of each leaf; their loads ``load`` [U] descend within it.
        links: [L, K] its live links, -1 for none (two classes may name one link).
    """
    n_leaves, n_paths = links.shape
    best = np.inf
    capacity = np.empty(n_paths)
    for leaf in range(n_leaves):
        first, last = ptr[leaf], ptr[leaf + 1]
        n = 0
        for k in range(n_paths):
            seen = links[leaf, k] < 0
            for other in range(k):
                seen = seen or links[leaf, other] == links[leaf, k]
            if not seen:
                capacity[n] = gbps[links[leaf, k]]
                n += 1
        if n == 0 or first == last or load[first] <= 0.0:
            continue
        equal = True
        for k in range(n):
            equal = equal and capacity[k] == capacity[0]
        if equal:
            best = min(best, _equal_links(load[first:last], n, capacity[0]))
        else:
            best = min(best, _unequal_links(load[first:last], capacity[:n], best))
    return best


@nb.njit(nogil=True, cache=True)
def _equal_links(load, n, capacity):
    """Some link carries i + 1 of the n i + 1 largest units, at least the smallest of these."""
    best = np.inf
    before = np.zeros(len(load) + 1)
    for j in range(len(load)):
        before[j + 1] = before[j] + load[j]
    i = 0
    while n * i < len(load):
        total = before[n * i + 1] - before[n * i - i]
        if load[n * i] > 0.0:
            best = min(best, capacity / total)
        i += 1
    return best


@nb.njit(nogil=True, cache=True)
def _unequal_links(load, capacity, limit):
    """For each load x that occurs: the largest t with sum of floor(c / (t x)) >= how many units have load >= x.

    The sum, seen as a function of t, steps at t = c / (j x): the m-th largest of these values is the answer, and it is
    found by counting: the links take turns in order of their next step.
    """
    best = limit
    step = np.empty(len(capacity), np.int64)
    for i in range(len(load)):
        x = load[i]
        if x <= 0.0:
            break
        if i + 1 < len(load) and load[i + 1] >= x * (1.0 - SLACK):
            continue
        room = 0
        for c in capacity:
            room += int(np.floor(c / (best * x) * (1.0 + SLACK))) if best < np.inf else 0
        if best < np.inf and room >= i + 1:
            continue
        # Start just below the volume bound, where few turns are left.
        t = capacity.sum() / ((i + 1) * x)
        count = 0
        for k in range(len(capacity)):
            step[k] = int(np.floor(capacity[k] / (t * x) * (1.0 + SLACK)))
            count += step[k]
        while count < i + 1:
            t = 0.0
            for k in range(len(capacity)):
                t = max(t, capacity[k] / ((step[k] + 1) * x))
            for k in range(len(capacity)):
                if capacity[k] / ((step[k] + 1) * x) >= t * (1.0 - SLACK):
                    step[k] += 1
                    count += 1
        best = min(best, t)
    return best


@nb.njit(nogil=True, cache=True)
def in_heaviest_phase(part_ptr, part_group, unit_load, leaf_of, group_job, n_leaves, preferred):
    """[U] whether a unit belongs to the phase of its job that loads its leaf most (units of one-phase jobs all do).

    The phase group ``preferred`` (-1: none) counts as its job's heaviest wherever it has a unit.

    A unit shared by several phases counts with the phase of its first part, for which its load is no overestimate
    only if it is alone in it: such units are left out.
    """
    total = np.zeros((n_leaves, len(group_job)))
    for u in range(len(unit_load)):
        g = part_group[part_ptr[u]]
        total[leaf_of[u], g] += unit_load[u] if g != preferred else np.inf
    chosen = np.zeros(len(unit_load), np.bool_)
    for u in range(len(unit_load)):
        g = part_group[part_ptr[u]]
        alone = True
        for p in range(part_ptr[u], part_ptr[u + 1]):
            alone = alone and part_group[p] == g
        if not alone:
            continue
        chosen[u] = True
        for other in range(len(group_job)):
            if group_job[other] == group_job[g] and group_job[g] > 0:
                heavier = total[leaf_of[u], other] > total[leaf_of[u], g]
                earlier = total[leaf_of[u], other] == total[leaf_of[u], g] and other < g
                if heavier or earlier:
                    chosen[u] = False
    return chosen
