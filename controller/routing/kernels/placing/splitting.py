"""Division of flows between two sets of spines such that almost all of them stay whole."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.paths import path_links
from controller.routing.kernels.phases import group_total


@nb.njit(nogil=True, cache=True)
def divide(src, dst, amount, n_leaves, ratio, first_limit, second_limit):
    """Return the part [N] of each flow that goes to the first of two sets of spines, the rest going to the second.

    Every leaf sends the fraction ``ratio`` of its traffic to the first set, and receives the same fraction, exactly:
    begin with that fraction of every flow, and shift along cycles of divided flows (which keeps every leaf's sums)
    until one of them is whole; the flows still divided form a forest, so they are fewer than the leaf ends (flow
    rounding: Cohen, SIAM J. Comput. 24(3), 1995). Then sums may move within the limits if that makes a flow whole.

    Args:
        src: [N] source leaf of each flow.
        dst: [N] destination leaf of each flow.
        amount: [N] size of each flow.
        n_leaves: the number L of leaves.
        ratio: the fraction for the first set.
        first_limit: [2L] most that a leaf may send (and, from L on, receive) by the first set.
        second_limit: [2L] the same by the second set.
    """
    n = len(amount)
    part = np.zeros(n)
    parent = np.full(2 * n_leaves, -1, np.int64)
    by_edge = np.full(2 * n_leaves, -1, np.int64)
    depth_stamp = np.full(2 * n_leaves, -1, np.int64)
    cycle = np.empty(4 * n_leaves + 1, np.int64)
    child = np.empty(4 * n_leaves + 1, np.int64)
    for e in range(n):
        if amount[e] <= 0.0:
            continue
        part[e] = ratio * amount[e]
        u, v = np.int64(src[e]), np.int64(n_leaves + dst[e])
        while True:
            at = u
            while at >= 0:
                depth_stamp[at] = e
                at = parent[at]
            meet = v
            while meet >= 0 and depth_stamp[meet] != e:
                meet = parent[meet]
            at = u
            while at >= 0:
                depth_stamp[at] = -1
                at = parent[at]
            if meet < 0:
                # Different trees: attach v's below u, which reverses the path from v to its root.
                at, above, edge = v, u, np.int64(e)
                while at >= 0:
                    next_above, next_edge = parent[at], by_edge[at]
                    parent[at], by_edge[at] = above, edge
                    at, above, edge = next_above, at, next_edge
                break
            # A cycle: e, then the tree from u up to the meeting point and down to v; every other flow gains.
            length = 0
            at = u
            while at != meet:
                cycle[length], child[length] = by_edge[at], at
                length += 1
                at = parent[at]
            climb = length
            at = v
            while at != meet:
                cycle[length], child[length] = by_edge[at], at
                length += 1
                at = parent[at]
            # Flows next to e lose when e gains. The half from v was collected from its end, where a loss begins too.
            shift_up, shift_down = amount[e] - part[e], part[e]
            for i in range(length):
                j = i if i < climb else i - climb
                f = cycle[i]
                if j % 2 == 0:
                    shift_up = min(shift_up, part[f])
                    shift_down = min(shift_down, amount[f] - part[f])
                else:
                    shift_up = min(shift_up, amount[f] - part[f])
                    shift_down = min(shift_down, part[f])
            shift = shift_up if shift_up <= shift_down else -shift_down
            part[e] += shift
            for i in range(length):
                j = i if i < climb else i - climb
                part[cycle[i]] += -shift if j % 2 == 0 else shift
            for i in range(length):
                f = cycle[i]
                if part[f] <= ROUNDING * amount[f] or part[f] >= (1.0 - ROUNDING) * amount[f]:
                    part[f] = 0.0 if part[f] <= ROUNDING * amount[f] else amount[f]
                    parent[child[i]], by_edge[child[i]] = -1, -1
            if part[e] <= ROUNDING * amount[e] or part[e] >= (1.0 - ROUNDING) * amount[e]:
                part[e] = 0.0 if part[e] <= ROUNDING * amount[e] else amount[e]
                break
    _round_within(src, dst, amount, n_leaves, first_limit, second_limit, part)
    return part


@nb.njit(nogil=True, cache=True)
def _round_within(src, dst, amount, n_leaves, first_limit, second_limit, part):
    """Make divided flows whole where both sets stay within their limits, those closest to whole first."""
    first, second = np.zeros(2 * n_leaves), np.zeros(2 * n_leaves)
    distance = np.full(len(amount), np.inf)
    for e in range(len(amount)):
        first[src[e]] += part[e]
        first[n_leaves + dst[e]] += part[e]
        second[src[e]] += amount[e] - part[e]
        second[n_leaves + dst[e]] += amount[e] - part[e]
        if 0.0 < part[e] < amount[e]:
            distance[e] = min(part[e], amount[e] - part[e])
    for e in np.argsort(distance, kind="mergesort"):
        if distance[e] == np.inf:
            break
        a, b = src[e], n_leaves + dst[e]
        small_first = part[e] <= amount[e] - part[e]
        for attempt in range(2):
            if small_first == (attempt == 0):
                rest = part[e]
                if second[a] + rest <= second_limit[a] and second[b] + rest <= second_limit[b]:
                    part[e] = 0.0
                    first[a] -= rest
                    first[b] -= rest
                    second[a] += rest
                    second[b] += rest
                    break
            else:
                rest = amount[e] - part[e]
                if first[a] + rest <= first_limit[a] and first[b] + rest <= first_limit[b]:
                    part[e] = amount[e]
                    first[a] += rest
                    first[b] += rest
                    second[a] -= rest
                    second[b] -= rest
                    break


@nb.njit(nogil=True, cache=True)
def reunite(flow, group, src, dst, amount, path, ways, limit, budget, group_job):
    """Move pieces to a sibling's path: where links stay within ``limit``, and beyond it until ``budget`` is met.

    Args:
        flow: [R] flow of each piece.
        group: [R] phase group of each piece.
        src: [R] source leaf of each piece.
        dst: [R] destination leaf of each piece.
        amount: [R] load of each piece.
        path: [R] path of each piece; changes in place.
        ways: the live ways.
        limit: [E] most that each link may carry.
        budget: the allowed number of pieces beyond the number of flows.
        group_job: [G] job of each phase group.

    Pieces are examined from the smallest on. Equal paths of one flow then form one piece.
    """
    here, there = np.empty(2 * len(ways.width), np.int64), np.empty(2 * len(ways.width), np.int64)
    load = np.zeros((len(limit), len(group_job)))
    n_flows = 0
    for r in range(len(flow)):
        n = path_links(ways, src[r], dst[r], path[r], here)
        for i in range(n):
            load[here[i], group[r]] += amount[r]
        n_flows = max(n_flows, flow[r] + 1)
    first = np.full(n_flows + 1, -1, np.int64)
    sibling = np.full(len(flow), -1, np.int64)
    pieces = np.zeros(n_flows, np.int64)
    extra = 0
    for r in range(len(flow)):
        sibling[r] = first[flow[r]]
        first[flow[r]] = r
        pieces[flow[r]] += 1
        extra += pieces[flow[r]] > 1
    order = np.argsort(amount, kind="mergesort")
    for forced in range(2):
        for r in order:
            if pieces[flow[r]] < 2 or (forced == 1 and extra <= budget):
                continue
            # Rows that moved here before are part of this piece now.
            old, moved = path[r], 0.0
            other = first[flow[r]]
            while other >= 0:
                moved += amount[other] if path[other] == old else 0.0
                other = sibling[other]
            n = path_links(ways, src[r], dst[r], old, here)
            best, best_fill = -1, np.inf
            other = first[flow[r]]
            while other >= 0:
                k = path[other]
                if k != old:
                    fill = 0.0
                    path_links(ways, src[r], dst[r], k, there)
                    for i in range(n):
                        link = there[i]
                        shared = (here[:n] == link).any()
                        if not shared:
                            load[link, group[r]] += moved
                        fill = max(fill, group_total(load[link], group_job) / limit[link])
                        if not shared:
                            load[link, group[r]] -= moved
                    if fill < best_fill:
                        best, best_fill = k, fill
                other = sibling[other]
            if best < 0 or (forced == 0 and best_fill > 1.0):
                continue
            path_links(ways, src[r], dst[r], best, there)
            for i in range(n):
                load[here[i], group[r]] -= moved
            for i in range(n):
                load[there[i], group[r]] += moved
            other = first[flow[r]]
            while other >= 0:
                if path[other] == old:
                    path[other] = best
                other = sibling[other]
            pieces[flow[r]] -= 1
            extra -= 1
