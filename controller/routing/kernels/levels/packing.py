"""Bounds from packing whole units into the links of one leaf."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING


@nb.njit(nogil=True, cache=True)
def packing_bound(ptr, load, links, gbps):
    """Return the largest level that packing allows at every leaf.

    Args:
        ptr: [L+1] units of each leaf; their loads descend within it.
        load: [U] load of each unit.
        links: [L, K] the leaf's live links, -1 for none (two classes may name one link).
        gbps: [E] capacity of each link.
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
    """Bound the level of equal links: some link carries i + 1 of the n i + 1 largest units, at least the smallest."""
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
    """Return the least, over loads x, of the largest t with sum of floor(c / (t x)) >= number of units of load >= x.

    The sum, seen as a function of t, steps at t = c / (j x): the m-th largest of these values is the answer, and it is
    found by counting: the links take turns in order of their next step.
    """
    best = limit
    step = np.empty(len(capacity), np.int64)
    for i in range(len(load)):
        x = load[i]
        if x <= 0.0:
            break
        if i + 1 < len(load) and load[i + 1] >= x * (1.0 - ROUNDING):
            continue
        room = 0
        for c in capacity:
            room += int(np.floor(c / (best * x) * (1.0 + ROUNDING))) if best < np.inf else 0
        if best < np.inf and room >= i + 1:
            continue
        # Start just below the volume bound, from which few turns remain.
        t = capacity.sum() / ((i + 1) * x)
        count = 0
        for k in range(len(capacity)):
            step[k] = int(np.floor(capacity[k] / (t * x) * (1.0 + ROUNDING)))
            count += step[k]
        while count < i + 1:
            t = 0.0
            for k in range(len(capacity)):
                t = max(t, capacity[k] / ((step[k] + 1) * x))
            for k in range(len(capacity)):
                if capacity[k] / ((step[k] + 1) * x) >= t * (1.0 - ROUNDING):
                    step[k] += 1
                    count += 1
        best = min(best, t)
    return best
