"""Progressive filling over levels: the load of each collective on each link, and the level at which a link is full."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import LAST_BIT
from controller.routing.kernels.paths import path_links


@nb.njit(nogil=True, cache=True)
def incidence(order, ptr, row_ptr, row_path, row_share, src, dst, leaf_src, leaf_dst, gbps, n_hosts, ways, n_links):
    """Compute the load of each collective on each link at speed 1.

    Rows of flow f are ``row_ptr[f]:row_ptr[f+1]``; ``ways`` has the links of their paths.

    Returns:
        coll_ptr [K+1], entry_link [N], entry_load [N] in Gbit/s: a sparse matrix by collective, all loads positive.
    """
    place = np.full(n_links, -1, np.int64)
    coll_ptr = np.zeros(len(ptr), np.int64)
    # Without a call: taking arrays out of a tuple for each row takes longer than all the rest.
    up, down, n_short, width = ways.up, ways.down, ways.first[1], ways.width[0]
    links = np.empty(2 * len(ways.width), np.int64)
    bound = 2 * len(src) + len(links) * len(row_path)
    entry_link = np.empty(bound, np.int32)
    entry_load = np.empty(bound, np.float64)
    n = 0
    for k in range(len(ptr) - 1):
        begin = n
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            if gbps[f] <= 0.0:
                continue
            for side in range(2):
                link = src[f] if side == 0 else n_hosts + dst[f]
                if place[link] < begin:
                    place[link] = n
                    entry_link[n], entry_load[n] = link, 0.0
                    n += 1
                entry_load[place[link]] += gbps[f]
            for r in range(row_ptr[f], row_ptr[f + 1]):
                if row_path[r] < 0:
                    continue
                path = row_path[r]
                n_between = 2
                if path < n_short:
                    links[0] = up[leaf_src[f] * width + path]
                    links[1] = down[leaf_dst[f] * width + path]
                else:
                    n_between = path_links(ways, leaf_src[f], leaf_dst[f], path, links)
                for j in range(n_between):
                    link = links[j]
                    if place[link] < begin:
                        place[link] = n
                        entry_link[n], entry_load[n] = link, 0.0
                        n += 1
                    entry_load[place[link]] += gbps[f] * row_share[r]
        coll_ptr[k + 1] = n
    return coll_ptr, entry_link[:n].copy(), entry_load[:n].copy()


@nb.njit(nogil=True, cache=True)
def by_link(coll_ptr, entry_link, entry_load, n_links):
    """Return the same matrix by link: link_ptr [E+1], link_coll [N], link_load [N]."""
    link_ptr = np.zeros(n_links + 1, np.int64)
    for i in range(len(entry_link)):
        link_ptr[entry_link[i] + 1] += 1
    for e in range(n_links):
        link_ptr[e + 1] += link_ptr[e]
    at = link_ptr[:-1].copy()
    link_coll = np.empty(len(entry_link), np.int32)
    link_load = np.empty(len(entry_link), np.float64)
    for k in range(len(coll_ptr) - 1):
        for i in range(coll_ptr[k], coll_ptr[k + 1]):
            e = entry_link[i]
            link_coll[at[e]], link_load[at[e]] = k, entry_load[i]
            at[e] += 1
    return link_ptr, link_coll, link_load


@nb.njit(nogil=True, cache=True)
def _groups_on(e, link_ptr, link_coll, group, seen, used):
    """Write the groups of the collectives on link e to ``used`` [G], ascending, and return their number.

    ``seen`` [G]: scratch, false on entry and exit. With many groups, a link has few of them.
    """
    n = 0
    for i in range(link_ptr[e], link_ptr[e + 1]):
        g = group[link_coll[i]]
        if seen[g]:
            continue
        seen[g] = True
        # Collectives are mostly in the order of their groups.
        at = n
        while at > 0 and used[at - 1] > g:
            used[at] = used[at - 1]
            at -= 1
        used[at] = g
        n += 1
    for i in range(n):
        seen[used[i]] = False
    return n


@nb.njit(nogil=True, cache=True)
def _full_at(
    e, link_ptr, link_coll, link_load, capacity, weight, level, active, group, group_job, fixed, slope, seen, used
):
    """Return the common level at which link e is full: frozen collectives stay, the others (level < 0) rise together.

    ``fixed``, ``slope`` [G]: scratch, zero on entry and exit; ``seen``, ``used`` [G]: as for ``_groups_on``.
    """
    n = _groups_on(e, link_ptr, link_coll, group, seen, used)
    for i in range(link_ptr[e], link_ptr[e + 1]):
        k = link_coll[i]
        if active[k]:
            if level[k] >= 0.0:
                fixed[group[k]] += level[k] * weight[k] * link_load[i]
            else:
                slope[group[k]] += weight[k] * link_load[i]
    # The load is a sum of maxima of lines in the level: convex, so Newton's method from the right descends to the
    # root. The first tangent is the one at infinity.
    t = np.inf
    while True:
        settled, rising = 0.0, 0.0
        at = 0
        while at < n:
            g = used[at]
            best_fixed, best_slope = fixed[g], slope[g]
            at += 1
            while at < n and group_job[used[at]] == group_job[g]:
                other = used[at]
                if t == np.inf:
                    better = slope[other] > best_slope or (slope[other] == best_slope and fixed[other] > best_fixed)
                else:
                    better = fixed[other] + slope[other] * t > best_fixed + best_slope * t
                if better:
                    best_fixed, best_slope = fixed[other], slope[other]
                at += 1
            settled += best_fixed
            rising += best_slope
        if rising <= 0.0:
            break
        closer = max(0.0, capacity[e] - settled) / rising
        if closer >= t * (1.0 - LAST_BIT):
            break
        t = closer
    for i in range(n):
        fixed[used[i]] = 0.0
        slope[used[i]] = 0.0
    return t


@nb.njit(nogil=True, cache=True)
def _watched(link_ptr, link_coll, link_load, capacity, weight, held, active):
    """Return the links that can decide a level: of those loaded by a single collective, only its tightest one.

    Without phases or held levels such a link is full at a level that does not depend on other collectives.
    """
    n_links = len(link_ptr) - 1
    watched = np.empty(n_links, np.int64)
    tightest = np.full(len(weight), -1, np.int64)
    full_at = np.full(len(weight), np.inf)
    n = 0
    for e in range(n_links):
        begin, end = link_ptr[e], link_ptr[e + 1]
        if end == begin:
            continue
        k = link_coll[begin]
        if end > begin + 1 or held[k] >= 0.0:
            watched[n] = e
            n += 1
        elif active[k]:
            full = capacity[e] / (weight[k] * link_load[begin])
            if full < full_at[k]:
                tightest[k], full_at[k] = e, full
    for link in tightest:
        if link >= 0:
            watched[n] = link
            n += 1
    return watched[:n]


@nb.njit(nogil=True, cache=True)
def fill(coll_ptr, entry_link, link_ptr, link_coll, link_load, capacity, weight, held, active, group, group_job):
    """Return the level [K] of each active collective; -1 where it is not active or loads nothing.

    ``held`` [K] is the level of a collective that does not rise with the others, -1 for all that do.

    Raise all levels together until a link is full, freeze the collectives that load it, repeat (Bertsekas and
    Gallager, Data Networks, 6.5.2). A link whose collectives are all frozen is left out from then on.
    """
    level = held.copy()
    fixed = np.zeros(len(group_job))
    slope = np.zeros(len(group_job))
    seen = np.zeros(len(group_job), np.bool_)
    used = np.zeros(len(group_job), np.int64)
    full = np.full(len(link_ptr) - 1, np.inf)
    stale = np.ones(len(link_ptr) - 1, np.bool_)
    links = _watched(link_ptr, link_coll, link_load, capacity, weight, held, active)
    reached = 0.0
    while True:
        n, lowest = 0, np.inf
        for e in links:
            if stale[e]:
                stale[e] = False
                if len(group_job) > 1:
                    full[e] = _full_at(
                        e,
                        link_ptr,
                        link_coll,
                        link_load,
                        capacity,
                        weight,
                        level,
                        active,
                        group,
                        group_job,
                        fixed,
                        slope,
                        seen,
                        used,
                    )
                else:
                    # The same without phases, by far the most frequent case: one line, no Newton steps.
                    settled, rising = 0.0, 0.0
                    for i in range(link_ptr[e], link_ptr[e + 1]):
                        k = link_coll[i]
                        if active[k] and level[k] >= 0.0:
                            settled += level[k] * weight[k] * link_load[i]
                        elif active[k]:
                            rising += weight[k] * link_load[i]
                    full[e] = max(0.0, capacity[e] - settled) / rising if rising > 0.0 else np.inf
            if full[e] < np.inf:
                links[n] = e
                n += 1
                lowest = min(lowest, full[e])
        links = links[:n]
        if lowest == np.inf:
            return level
        # Rounding must not let a later level fall below an earlier one.
        reached = max(reached, lowest)
        for e in links:
            if full[e] > reached:
                continue
            for i in range(link_ptr[e], link_ptr[e + 1]):
                k = link_coll[i]
                if active[k] and level[k] < 0.0:
                    level[k] = reached
                    for j in range(coll_ptr[k], coll_ptr[k + 1]):
                        stale[entry_link[j]] = True


@nb.njit(nogil=True, cache=True)
def loads(link_ptr, link_coll, link_load, speed, group, group_job):
    """Return Gbit/s [E] on each link when collectives run at ``speed`` [K], the heaviest phase of each job counting."""
    total = np.zeros(len(link_ptr) - 1)
    by_group = np.zeros(len(group_job))
    seen = np.zeros(len(group_job), np.bool_)
    used = np.zeros(len(group_job), np.int64)
    for e in range(len(total)):
        n = _groups_on(e, link_ptr, link_coll, group, seen, used)
        for i in range(link_ptr[e], link_ptr[e + 1]):
            k = link_coll[i]
            if speed[k] > 0.0:
                by_group[group[k]] += speed[k] * link_load[i]
        heaviest = 0.0
        for at in range(n):
            g = used[at]
            if at > 0 and group_job[g] != group_job[used[at - 1]]:
                total[e] += heaviest
                heaviest = 0.0
            heaviest = max(heaviest, by_group[g])
            by_group[g] = 0.0
        total[e] += heaviest
    return total
