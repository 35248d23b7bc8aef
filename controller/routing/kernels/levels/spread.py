"""Lower bounds of a collective's time from cuts, and spreads of its flows that may reach them."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE
from controller.model.tolerances import ROUNDING
from controller.model.units import GBIT

SWEEPS = 12
"""Number of iterations of balancing before the linear program is used."""


@nb.njit(nogil=True, cache=True)
def cut_seconds(order, ptr, src, dst, n_bytes, leaf_src, leaf_dst, fixed, gbps, n_hosts, up_gbps, down_gbps):
    """Return the seconds [K] that the narrowest cut requires of each collective; NaN without flows or if unroutable."""
    n_leaves = len(up_gbps)
    out, into = np.zeros(n_hosts), np.zeros(n_hosts)
    up, down = np.zeros(n_leaves), np.zeros(n_leaves)
    seconds = np.full(len(ptr) - 1, np.nan)
    for k in range(len(ptr) - 1):
        longest, dead = 0.0, False
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            gbit = n_bytes[f] * GBIT
            if fixed[f] == UNROUTABLE:
                dead = True
            out[src[f]] += gbit
            into[dst[f]] += gbit
            if fixed[f] != LOCAL:
                up[leaf_src[f]] += gbit
                down[leaf_dst[f]] += gbit
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            h, t, a, b = src[f], dst[f], leaf_src[f], leaf_dst[f]
            longest = max(longest, out[h] / gbps[h], into[t] / gbps[n_hosts + t])
            if up_gbps[a] > 0.0:
                longest = max(longest, up[a] / up_gbps[a])
            if down_gbps[b] > 0.0:
                longest = max(longest, down[b] / down_gbps[b])
            out[h], into[t], up[a], down[b] = 0.0, 0.0, 0.0, 0.0
        if longest > 0.0 and not dead:
            seconds[k] = longest
    return seconds


@nb.njit(nogil=True, cache=True)
def cut_above(order, ptr, n_bytes, leaf_src, leaf_dst, group, up_gbps, down_gbps):
    """Return the seconds [K] that the cuts of the groups of one tier require of each collective.

    ``group`` [L]: the group of each leaf; a flow within one group does not cross the cut.
    """
    up, down = np.zeros(len(up_gbps)), np.zeros(len(up_gbps))
    seconds = np.zeros(len(ptr) - 1)
    for k in range(len(ptr) - 1):
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            a, b = group[leaf_src[f]], group[leaf_dst[f]]
            if a != b:
                up[a] += n_bytes[f] * GBIT
                down[b] += n_bytes[f] * GBIT
        for i in range(ptr[k], ptr[k + 1]):
            a, b = group[leaf_src[order[i]]], group[leaf_dst[order[i]]]
            if up_gbps[a] > 0.0:
                seconds[k] = max(seconds[k], up[a] / up_gbps[a])
            if down_gbps[b] > 0.0:
                seconds[k] = max(seconds[k], down[b] / down_gbps[b])
            up[a], down[b] = 0.0, 0.0
    return seconds


@nb.njit(nogil=True, cache=True)
def fits_at_hosts(src, dst, flow_gbps, gbps, n_hosts):
    """Return whether no host link carries more than its capacity if each flow has its rate [F]."""
    load = np.zeros(2 * n_hosts)
    for f in range(len(src)):
        load[src[f]] += flow_gbps[f]
        load[n_hosts + dst[f]] += flow_gbps[f]
    return (load <= gbps[: 2 * n_hosts] * (1.0 + ROUNDING)).all()


@nb.njit(nogil=True, cache=True)
def fits_cut(leaf_src, leaf_dst, fixed, flow_gbps, group, up_gbps, down_gbps):
    """Return whether the cuts of the groups [L] of one tier carry all flows between groups at their rates [F]."""
    up, down = np.zeros(len(up_gbps)), np.zeros(len(up_gbps))
    for f in range(len(leaf_src)):
        a, b = group[leaf_src[f]], group[leaf_dst[f]]
        if a != b and fixed[f] >= 0:
            up[a] += flow_gbps[f]
            down[b] += flow_gbps[f]
    for g in range(len(up)):
        if max(up[g] - up_gbps[g] * (1.0 + ROUNDING), down[g] - down_gbps[g] * (1.0 + ROUNDING)) > 0.0:
            return False
    return True


@nb.njit(nogil=True, cache=True)
def spread_reaches(order, ptr, gbit, leaf_src, leaf_dst, fixed, seconds, tier, gbps, shares_links):
    """Return whether a spread of each collective's flows [K] fits into ``seconds`` (False: not found, but may exist).

    ``shares_links``: whether two path classes may reach a leaf by one link.
    """
    live_up, live_down = tier.up, tier.down
    n_leaves, n_paths = live_up.shape
    width = np.full((n_leaves, n_leaves), -1.0)
    out, into = np.zeros(n_leaves), np.zeros(n_leaves)
    load = np.zeros(len(gbps))
    row = np.full((n_leaves, n_leaves), -1, np.int32)
    reached = np.ones(len(seconds), np.bool_)
    for k in range(len(seconds)):
        if not seconds[k] > 0.0:
            continue
        # Spread in proportion to the narrower link of each path, a flow fills no link of its leaf by more than its
        # size over the width of all its paths. Often that is sufficient proof, and no spread is needed.
        out[:], into[:] = 0.0, 0.0
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            if fixed[f] < 0:
                continue
            a, b = leaf_src[f], leaf_dst[f]
            if width[a, b] < 0.0:
                width[a, b] = 0.0
                for p in range(n_paths):
                    if live_up[a, p] >= 0 and live_down[b, p] >= 0:
                        width[a, b] += min(gbps[live_up[a, p]], gbps[live_down[b, p]])
            out[a] += gbit[f] / width[a, b]
            into[b] += gbit[f] / width[a, b]
        if not shares_links and max(out.max(), into.max()) <= seconds[k] * (1.0 + ROUNDING):
            continue
        n = 0
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            if fixed[f] >= 0 and row[leaf_src[f], leaf_dst[f]] < 0:
                row[leaf_src[f], leaf_dst[f]] = n
                n += 1
        demand = np.zeros(n)
        src, dst = np.empty(n, np.int32), np.empty(n, np.int32)
        for i in range(ptr[k], ptr[k + 1]):
            f = order[i]
            if fixed[f] >= 0:
                r = row[leaf_src[f], leaf_dst[f]]
                demand[r] += gbit[f]
                src[r], dst[r] = leaf_src[f], leaf_dst[f]
        for r in range(n):
            row[src[r], dst[r]] = -1
        reached[k] = level_out(src, dst, demand, seconds[k], tier, gbps, load, SWEEPS)
    return reached


@nb.njit(nogil=True, cache=True)
def level_out(src, dst, demand, seconds, tier, gbps, load, sweeps):
    """Return whether a spread of the pairs' demands (Gbit) fits into ``seconds``; ``load`` is zero on entry and exit.

    The spread starts even; then each pair in turn is spread in proportion to the room that the others leave.
    """
    live_up, live_down = tier.up, tier.down
    n_paths = live_up.shape[1]
    share = np.zeros((len(src), n_paths))
    room = np.empty(n_paths)
    fits = False
    for sweep in range(sweeps + 1):
        for r in range(len(src)):
            a, b = src[r], dst[r]
            total = 0.0
            for k in range(n_paths):
                u, d = live_up[a, k], live_down[b, k]
                room[k] = 0.0
                if u < 0 or d < 0:
                    continue
                load[u] -= share[r, k]
                load[d] -= share[r, k]
                if sweep == 0:
                    room[k] = min(gbps[u], gbps[d])
                else:
                    room[k] = max(0.0, min(gbps[u] * seconds - load[u], gbps[d] * seconds - load[d]))
                total += room[k]
            if total <= 0.0:
                for k in range(n_paths):
                    if live_up[a, k] >= 0 and live_down[b, k] >= 0:
                        room[k] = min(gbps[live_up[a, k]], gbps[live_down[b, k]])
                        total += room[k]
            for k in range(n_paths):
                share[r, k] = demand[r] * room[k] / total
                if share[r, k] > 0.0:
                    load[live_up[a, k]] += share[r, k]
                    load[live_down[b, k]] += share[r, k]
        fits = True
        for r in range(len(src)):
            for k in range(n_paths):
                if share[r, k] > 0.0:
                    u, d = live_up[src[r], k], live_down[dst[r], k]
                    if max(load[u] / gbps[u], load[d] / gbps[d]) > seconds * (1.0 + ROUNDING):
                        fits = False
                        break
            if not fits:
                break
        if fits:
            break
    for r in range(len(src)):
        for k in range(n_paths):
            if live_up[src[r], k] >= 0 and live_down[dst[r], k] >= 0:
                load[live_up[src[r], k]] = 0.0
                load[live_down[dst[r], k]] = 0.0
    return fits
