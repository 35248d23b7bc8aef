"""Placement of whole units, one after the other, on the best path at that time."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING, SAME_VALUE
from controller.routing.kernels.phases import group_total


@nb.njit(nogil=True, cache=True)
def least_loaded(order, src, dst, load, tier, gbps, link_load, path):
    """Give each unit of ``order`` in turn the path whose fuller link (load over capacity) stays least loaded.

    ``link_load`` [E] is the initial load and is updated; ``path`` [U] receives the class, the lowest on a tie.
    """
    live_up, live_down = tier.up, tier.down
    n_paths = live_up.shape[1]
    for u in order:
        a, b, x = src[u], dst[u], load[u]
        best, best_fill = -1, np.inf
        for k in range(n_paths):
            up, down = live_up[a, k], live_down[b, k]
            if up >= 0 and down >= 0:
                fill = max((link_load[up] + x) / gbps[up], (link_load[down] + x) / gbps[down])
                if fill < best_fill:
                    best, best_fill = k, fill
        path[u] = best
        link_load[live_up[a, best]] += x
        link_load[live_down[b, best]] += x


@nb.njit(nogil=True, cache=True)
def repair(src, dst, load, tier, gbps, path):
    """Give units whose ``path`` [U] is not live for them (or negative) the least loaded one, the heaviest first."""
    live_up, live_down = tier.up, tier.down
    link_load = np.zeros(len(gbps))
    broken = np.empty(len(path), np.int64)
    n = 0
    for u in range(len(path)):
        up, down = -1, -1
        if path[u] >= 0:
            up, down = live_up[src[u], path[u]], live_down[dst[u], path[u]]
        if up >= 0 and down >= 0:
            link_load[up] += load[u]
            link_load[down] += load[u]
        else:
            broken[n] = u
            n += 1
    order = broken[:n]
    order = order[np.argsort(-load[order], kind="mergesort")]
    least_loaded(order, src, dst, load, tier, gbps, link_load, path)


@nb.njit(nogil=True, cache=True)
def restore(src, dst, part_ptr, part_group, part_load, group_job, tier, limit, wanted, path):
    """Move units back to their ``wanted`` path (-1: none) where every link stays within its limit.

    Args:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        part_ptr: [U+1] parts of each unit.
        part_group: [P] phase group of each part.
        part_load: [P] load of each part.
        group_job: [G] job of each phase group.
        tier: the live links of the units' choices.
        limit: [E] most load of each link.
        wanted: [U] path class on which each unit is wanted, -1: none.
        path: [U] changes in place.

    Returns:
        number of units that are not on their wanted path.
    """
    live_up, live_down = tier.up, tier.down
    load = np.zeros((len(limit), len(group_job)))
    for u in range(len(path)):
        for p in range(part_ptr[u], part_ptr[u + 1]):
            load[live_up[src[u], path[u]], part_group[p]] += part_load[p]
            load[live_down[dst[u], path[u]], part_group[p]] += part_load[p]
    away = 0
    more = True
    while more:
        more, away = False, 0
        for u in range(len(path)):
            k = wanted[u]
            if k < 0 or path[u] == k or live_up[src[u], k] < 0 or live_down[dst[u], k] < 0:
                continue
            for p in range(part_ptr[u], part_ptr[u + 1]):
                load[live_up[src[u], path[u]], part_group[p]] -= part_load[p]
                load[live_down[dst[u], path[u]], part_group[p]] -= part_load[p]
                load[live_up[src[u], k], part_group[p]] += part_load[p]
                load[live_down[dst[u], k], part_group[p]] += part_load[p]
            up, down = live_up[src[u], k], live_down[dst[u], k]
            old = path[u]
            path[u] = k
            if group_total(load[up], group_job) <= limit[up] and group_total(load[down], group_job) <= limit[down]:
                more = True
                continue
            away += 1
            path[u] = old
            for p in range(part_ptr[u], part_ptr[u + 1]):
                load[up, part_group[p]] -= part_load[p]
                load[down, part_group[p]] -= part_load[p]
                load[live_up[src[u], old], part_group[p]] += part_load[p]
                load[live_down[dst[u], old], part_group[p]] += part_load[p]
    return away


@nb.njit(nogil=True, cache=True)
def order_by_leaf_sets(src, dst, load, n_leaves):
    """Order the units [U] by sets: the flows out of each leaf, the flows into it, the heaviest of these 2L sets first.

    Within a set the heaviest unit is first; a unit belongs to the first of its two sets.
    """
    total = np.zeros(2 * n_leaves)
    for u in range(len(load)):
        total[src[u]] += load[u]
        total[n_leaves + dst[u]] += load[u]
    rank = np.empty(2 * n_leaves, np.int64)
    rank[np.argsort(-total, kind="mergesort")] = np.arange(2 * n_leaves)
    first = np.empty(len(load), np.int64)
    ptr = np.zeros(2 * n_leaves + 1, np.int64)
    for u in range(len(load)):
        first[u] = min(rank[src[u]], rank[n_leaves + dst[u]])
        ptr[first[u] + 1] += 1
    for s in range(2 * n_leaves):
        ptr[s + 1] += ptr[s]
    at = ptr[:-1].copy()
    order = np.empty(len(load), np.int64)
    for u in range(len(load)):
        order[at[first[u]]] = u
        at[first[u]] += 1
    for s in range(2 * n_leaves):
        members = order[ptr[s] : ptr[s + 1]]
        falling = True
        for i in range(1, len(members)):
            falling = falling and load[members[i]] <= load[members[i - 1]]
        if not falling:
            order[ptr[s] : ptr[s + 1]] = members[np.argsort(-load[members], kind="mergesort")]
    return order


@nb.njit(nogil=True, cache=True)
def first_fit(src, dst, demand, tier, gbps, reserved, path):
    """Give units in order the first path with room for their demand; where none has, ``path`` [U] is unchanged."""
    live_up, live_down = tier.up, tier.down
    n_paths = live_up.shape[1]
    for u in range(len(path)):
        for k in range(n_paths):
            up, down = live_up[src[u], k], live_down[dst[u], k]
            if up < 0 or down < 0:
                continue
            fuller = max((reserved[up] + demand[u]) / gbps[up], (reserved[down] + demand[u]) / gbps[down])
            if fuller <= 1.0 + ROUNDING:
                path[u] = k
                reserved[up] += demand[u]
                reserved[down] += demand[u]
                break


@nb.njit(nogil=True, cache=True)
def estimate_demand(src, dst, send_gbps, receive_gbps):
    """Estimate natural demands [N] (Hedera, section 4.2).

    Senders share their link evenly and receivers cap, until nothing changes.

    A sender divides the capacity left by converged flows among the others; a receiver with too much demand gives its
    flows equal shares, those below the share keeping their demand, and the capped ones have converged.
    """
    n, n_hosts = len(src), len(send_gbps)
    demand = np.zeros(n)
    converged = np.zeros(n, np.bool_)
    by_receiver = np.argsort(dst, kind="mergesort")
    for _ in range(2 * n_hosts + 2):
        changed = False
        settled, open_flows = np.zeros(n_hosts), np.zeros(n_hosts, np.int64)
        for f in range(n):
            if converged[f]:
                settled[src[f]] += demand[f]
            else:
                open_flows[src[f]] += 1
        for f in range(n):
            if not converged[f]:
                wanted = max(0.0, send_gbps[src[f]] - settled[src[f]]) / open_flows[src[f]]
                if abs(wanted - demand[f]) > ROUNDING * send_gbps[src[f]]:
                    demand[f] = wanted
                    changed = True
        at = 0
        while at < n:
            host, after, total = dst[by_receiver[at]], at, 0.0
            while after < n and dst[by_receiver[after]] == host:
                total += demand[by_receiver[after]]
                after += 1
            if total > receive_gbps[host] * (1.0 + ROUNDING):
                members = by_receiver[at:after]
                small = np.zeros(len(members), np.bool_)
                share = receive_gbps[host] / len(members)
                while True:
                    kept, limited = 0.0, 0
                    for i in range(len(members)):
                        if small[i]:
                            kept += demand[members[i]]
                        else:
                            limited += 1
                    share = (receive_gbps[host] - kept) / limited
                    more = False
                    for i in range(len(members)):
                        if not small[i] and demand[members[i]] < share * (1.0 - SAME_VALUE):
                            small[i] = True
                            more = True
                    if not more:
                        break
                for i in range(len(members)):
                    if not small[i]:
                        if not converged[members[i]] or abs(demand[members[i]] - share) > ROUNDING * share:
                            changed = True
                        demand[members[i]] = share
                        converged[members[i]] = True
            at = after
        if not changed:
            break
    return demand
