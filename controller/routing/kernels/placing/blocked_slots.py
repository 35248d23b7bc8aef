"""Adding units where some switches lack a choice that others have, as after the failure of a cable.

``kempe`` gives up a chain that comes to a dead link. Here a dead link is an edge of the graph like any other, its
*blocker*: one from the switch whose uplink of choice k is dead to a switch whose downlink of k is dead (one cable has
both; else a switch of its own is added). As in König's proof (1916), each unit is then added by exchanging two choices
along one chain, blockers with it. At last each blocker gets its choice k back, by exchanging k with the choice it has
along the chain through it. With one dead cable that always succeeds, if no switch has more units than live links.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.routing.kernels.placing.exchanging import exchange

MOST = 64
"""Most blockers with which this is tried."""

CHAINS = 24
"""Pairs of choices tried for one unit; the shortest chain is taken, best one without blockers."""


@nb.njit(nogil=True, cache=True)
def insert(src, dst, tier, path):
    """Place the units without a choice, where each live link has room for one unit.

    Args:
        src: [U] switch of each unit on its way up.
        dst: [U] switch of each unit on its way down.
        tier: the live links of the choices.
        path: [U] choice of each unit, -1: none; changes in place, unless this fails.

    Returns:
        whether all units have a choice now.
    """
    usable, blocker, n_nodes = _blockers(tier.up, tier.down)
    n_units, n_all, n_choices = len(path), len(path) + len(blocker), len(usable)
    if len(blocker) > MOST:
        return False
    ends, choice = np.empty((2, n_all), np.int64), np.empty(n_all, np.int64)
    ends[0, :n_units], ends[1, :n_units], choice[:n_units] = src, dst, path
    ends[0, n_units:], ends[1, n_units:], choice[n_units:] = blocker[:, 0], blocker[:, 1], blocker[:, 2]
    slot = np.full((2, n_nodes, n_choices), -1, np.int64)
    for u in range(n_all):
        k = choice[u]
        if k < 0:
            continue
        if slot[0, ends[0, u], k] >= 0 or slot[1, ends[1, u], k] >= 0:
            return False
        slot[0, ends[0, u], k] = slot[1, ends[1, u], k] = u
    chain = np.empty(n_all, np.int64)
    for u in range(n_units):
        if choice[u] < 0 and not _add(u, n_units, usable, ends, slot, choice, chain):
            return False
    for u in range(n_units, n_all):
        wanted = blocker[u - n_units, 2]
        if choice[u] != wanted:
            n = _through(u, wanted, ends, slot, choice, chain)
            exchange(chain[:n], choice[u], wanted, ends, slot, choice)
    for u in range(n_units, n_all):
        if choice[u] != blocker[u - n_units, 2]:
            return False
    path[:] = choice[:n_units]
    return True


@nb.njit(nogil=True, cache=True)
def _blockers(up, down):
    """Return which choices [K] some link has, blockers [B, 3] (switch up, switch down, choice), and all switches."""
    n_nodes, n_choices = up.shape
    usable = np.zeros(n_choices, np.bool_)
    blockers = np.empty((2 * n_nodes * n_choices, 3), np.int64)
    n, n_all = 0, n_nodes
    for k in range(n_choices):
        for a in range(n_nodes):
            usable[k] = usable[k] or (up[a, k] >= 0 and down[a, k] >= 0)
        if not usable[k]:
            continue
        for a in range(n_nodes):
            dead_up, dead_down = up[a, k] < 0, down[a, k] < 0
            if not (dead_up or dead_down):
                continue
            blockers[n, 0], blockers[n, 1], blockers[n, 2] = a if dead_up else n_all, a if dead_down else n_all, k
            n += 1
            if not (dead_up and dead_down):
                n_all += 1
    return usable, blockers[:n].copy(), n_all


@nb.njit(nogil=True, cache=True)
def _add(u, n_units, usable, ends, slot, choice, chain):
    """Give unit u a choice that is free at its source, by a chain from its destination; return whether there is one."""
    a, b = ends[0, u], ends[1, u]
    chosen, other, cost, tried = -1, -1, 2 * len(choice), 0
    for alpha in range(len(usable)):
        if not usable[alpha] or slot[0, a, alpha] >= 0:
            continue
        if slot[1, b, alpha] < 0:
            chosen, other = alpha, -1
            break
        for beta in range(len(usable)):
            if not usable[beta] or slot[1, b, beta] >= 0 or tried == CHAINS:
                continue
            tried += 1
            n = _through(slot[1, b, alpha], beta, ends, slot, choice, chain)
            length = n + len(choice) * int((chain[:n] >= n_units).any())
            if length < cost:
                chosen, other, cost = alpha, beta, length
    if chosen < 0:
        return False
    if other >= 0:
        n = _through(slot[1, b, chosen], other, ends, slot, choice, chain)
        exchange(chain[:n], chosen, other, ends, slot, choice)
    choice[u] = chosen
    slot[0, a, chosen] = slot[1, b, chosen] = u
    return True


@nb.njit(nogil=True, cache=True)
def _through(first, other, ends, slot, choice, chain):
    """Collect the units that alternate between the choice of ``first`` and another, on both sides of it."""
    n = 0
    own = choice[first]
    for side in range(2):
        u, at, target = first, side, other
        while u >= 0:
            if u != first or side == 0:
                chain[n] = u
                n += 1
            u = slot[at, ends[at, u], target]
            at, target = 1 - at, own if target == other else other
            if u == first:
                return n
    return n
