"""CircuitRoutes over circuits: one path per destination, rings pinned to circuits, and rings in an order of their own.

The packets for one server follow one tree to it, so a server needs one rule for each other server. Trees are chosen one
by one, each a tree of least cost where a circuit costs more, the fuller it is. A ring whose members are just a cycle of
one NIC's circuits is *pinned*: each member sends by this NIC to the next one. Any other ring is *loose*: it may have
any order, and sends as messages do. Groups that are pinned on every NIC divide their bytes over these rings; the bytes
of any other group are cut into equal parts, each of which gets the ring that is cheapest then.
"""

from __future__ import annotations

import numba as nb
import numpy as np

_LEAST_COST = 1e-3
_SHARP = 4.0
_SHARPER = 2.0
_BEGINS = 4
"""From how many of its members the order of a ring is looked for."""
LOOSE = -1
"""Stands for the NIC of a ring that is not pinned."""


@nb.njit(nogil=True, cache=True)
def predecessors(succ):
    """Return from which server each NIC receives, as ``succ`` for the other direction."""
    pred = np.empty_like(succ)
    for k in range(succ.shape[0]):
        for u in range(succ.shape[1]):
            pred[k, u] = u
        for u in range(succ.shape[1]):
            if succ[k, u] != u:
                pred[k, succ[k, u]] = u
    return pred


@nb.njit(nogil=True, cache=True)
def pinned_rings(succ, first, members):
    """Return [G, d] whether a NIC's circuits contain a cycle of just the members of a group.

    Args:
        succ: [d, n].
        first: [G + 1] where the members of each group begin.
        members: the members of all groups, one group after the other.
    """
    d, n = succ.shape
    pinned = np.zeros((len(first) - 1, d), dtype=np.bool_)
    inside = np.zeros(n, dtype=np.bool_)
    for g in range(len(first) - 1):
        inside[:] = False
        for i in range(first[g], first[g + 1]):
            inside[members[i]] = True
        size = first[g + 1] - first[g]
        start = members[first[g]]
        for k in range(d):
            u, count = succ[k, start], 1
            while u != start and inside[u] and count < size:
                u = succ[k, u]
                count += 1
            pinned[g, k] = u == start and count == size and size > 1
    return pinned


@nb.njit(nogil=True, cache=True)
def _tree(target, succ, pred, cost, distance, nic, order, closed):
    """Find the cheapest tree to a server (Dijkstra, 1959); return how many servers are in it.

    ``distance`` [n], ``nic`` [n] (by which each server sends) and ``order`` [n] (nearest first) are filled.
    """
    d, n = succ.shape
    distance[:] = np.inf
    nic[:] = -1
    closed[:] = False
    distance[target] = 0.0
    for count in range(n):
        v, least = -1, np.inf
        for u in range(n):
            if not closed[u] and distance[u] < least:
                v, least = u, distance[u]
        if v < 0:
            return count
        closed[v] = True
        order[count] = v
        for k in range(d):
            u = pred[k, v]
            if u != v and not closed[u]:
                length = least + cost[k, u]
                if length < distance[u]:
                    distance[u] = length
                    nic[u] = k
    return n


@nb.njit(nogil=True, cache=True)
def _send(target, sent, succ, nic, order, count, load, sign, through):
    """Add what all servers send to one of them to the load of the circuits of its tree."""
    through[:] = sent[:, target]
    for i in range(count - 1, 0, -1):
        u = order[i]
        if through[u] != 0.0:
            k = nic[u]
            load[k, u] += sign * through[u]
            through[succ[k, u]] += through[u]


@nb.njit(nogil=True, cache=True)
def _pour(bytes_, levels, shares):
    """Divide bytes so that the highest of levels + shares is lowest; levels are infinite where nothing may go."""
    shares[:] = 0.0
    usable = np.sort(levels[np.isfinite(levels)])
    if len(usable) == 0:
        return
    total = 0.0
    water = 0.0
    for i in range(len(usable)):
        total += usable[i]
        water = (bytes_ + total) / (i + 1)
        if i + 1 == len(usable) or water <= usable[i + 1]:
            break
    for k in range(len(levels)):
        if np.isfinite(levels[k]) and water > levels[k]:
            shares[k] = water - levels[k]


@nb.njit(nogil=True, cache=True)
def _balance(succ, first, members, pinned_bytes, pinned, shares, load):
    """Divide what each group sends on pinned rings anew over these, group by group, with all else as it is."""
    d = succ.shape[0]
    levels = np.empty(d)
    for g in range(len(pinned_bytes)):
        if not pinned[g].any():
            continue
        for k in range(d):
            levels[k] = np.inf
            if pinned[g, k]:
                levels[k] = 0.0
                for i in range(first[g], first[g + 1]):
                    load[k, members[i]] -= shares[g, k]
                    levels[k] = max(levels[k], load[k, members[i]])
        _pour(pinned_bytes[g], levels, shares[g])
        for k in range(d):
            if pinned[g, k]:
                for i in range(first[g], first[g + 1]):
                    load[k, members[i]] += shares[g, k]


@nb.njit(nogil=True, cache=True)
def _tour(own, distance, used, trial):
    """Put the members of a ring in the cheapest order that is found by going on to the nearest one; return its cost.

    ``distance[t, u]`` is the cost from u to t.
    """
    size = len(own)
    best = 0.0
    for i in range(size):
        best += distance[own[(i + 1) % size], own[i]]
    chosen = own.copy()
    for attempt in range(min(size, _BEGINS)):
        used[:size] = False
        begin = (attempt * size) // _BEGINS if size > _BEGINS else attempt
        trial[0] = own[begin]
        used[begin] = True
        length = 0.0
        for i in range(1, size):
            nearest, least = 0, np.inf
            for j in range(size):
                if not used[j] and distance[own[j], trial[i - 1]] < least:
                    nearest, least = j, distance[own[j], trial[i - 1]]
            used[nearest] = True
            trial[i] = own[nearest]
            length += least
            if length >= best:
                break
        # A walk that was left has no last member.
        if length < best:
            length += distance[trial[0], trial[size - 1]]
            if length < best:
                best = length
                chosen[:] = trial[:size]
    own[:] = chosen
    return best


@nb.njit(nogil=True, cache=True)
def _set_costs(load, sharpness, cost):
    """Set costs that rise exponentially from the emptiest to the fullest circuit (Plotkin, Shmoys and Tardos, 1995)."""
    emptiest, fullest = load.min(), load.max()
    scale = sharpness / (fullest - emptiest) if fullest > emptiest else 0.0
    for k in range(load.shape[0]):
        for u in range(load.shape[1]):
            cost[k, u] = np.exp(scale * (load[k, u] - fullest)) + _LEAST_COST


@nb.njit(nogil=True, cache=True)
def _add_ring(ring, part, sign, succ, nic, load, sent):
    """Add the bytes of a loose ring to the circuits on its way, and to what servers send each other."""
    size = len(ring)
    for i in range(size):
        u, t = ring[i], ring[(i + 1) % size]
        sent[u, t] += sign * part
        while u != t:
            k = nic[t, u]
            load[k, u] += sign * part
            u = succ[k, u]


@nb.njit(nogil=True, cache=True)
def _choose_rings(
    succ,
    nic,
    order,
    first,
    members,
    part,
    pinned,
    sharpness,
    chosen,
    rings,
    pinned_bytes,
    shares,
    load,
    sent,
    cost,
    distance,
    used,
    trial,
    begun,
):
    """Choose a ring for each part of each group anew: the cheapest pinned one, or a loose one.

    ``chosen`` [G, Q] is the NIC of a pinned ring or ``LOOSE``, ``rings`` [Q, members] the order of loose ones.
    """
    d, n = succ.shape
    for g in range(len(part)):
        if pinned[g].all():
            continue
        begin, end = first[g], first[g + 1]
        for q in range(chosen.shape[1]):
            own = rings[q, begin:end]
            if begun:
                if chosen[g, q] == LOOSE:
                    _add_ring(own, part[g], -1.0, succ, nic, load, sent)
                else:
                    # Shares are not those of parts any more after they were balanced: take it where most is.
                    most = np.argmax(shares[g])
                    taken = min(part[g], shares[g, most])
                    left = part[g] - taken
                    for i in range(begin, end):
                        load[most, members[i]] -= taken
                    shares[g, most] -= taken
                    for other in range(d):
                        piece = min(left, shares[g, other])
                        if piece > 0:
                            for i in range(begin, end):
                                load[other, members[i]] -= piece
                            shares[g, other] -= piece
                            left -= piece
                    pinned_bytes[g] -= part[g]
            _set_costs(load, sharpness, cost)
            for j in range(begin, end):
                t = members[j]
                distance[t, t] = 0.0
                for i in range(1, n):
                    u = order[t, i]
                    k = nic[t, u]
                    distance[t, u] = cost[k, u] + distance[t, succ[k, u]]
            least = _tour(own, distance, used, trial)
            chosen[g, q] = LOOSE
            for k in range(d):
                if pinned[g, k]:
                    length = 0.0
                    for i in range(begin, end):
                        length += cost[k, members[i]]
                    if length <= least:
                        least = length
                        chosen[g, q] = k
            if chosen[g, q] == LOOSE:
                _add_ring(own, part[g], 1.0, succ, nic, load, sent)
            else:
                k = chosen[g, q]
                for i in range(begin, end):
                    load[k, members[i]] += part[g]
                shares[g, k] += part[g]
                pinned_bytes[g] += part[g]


@nb.njit(nogil=True, cache=True)
def route(succ, messages, first, members, edge_bytes, parts, passes, seed):
    """Choose routes, ring orders and shares of rings, so that the fullest circuit carries few bytes.

    Args:
        succ: [d, n].
        messages: [n, n] bytes from each server to each other.
        first: [G + 1] where the members of each group begin.
        members: the members of all groups; loose rings begin in this order.
        edge_bytes: [G] the bytes that each member of a group sends to the next one.
        parts: the number Q of equal parts of the bytes of a group that is not pinned on every NIC.
        passes: how often all trees and rings are chosen anew.
        seed: of the random order of trees.

    Returns:
        (the bytes of the fullest circuit, infinite where a server cannot reach another;
        [n, n] the NIC by which a server (second) sends to a destination (first), -1 to itself;
        [G, Q] the NIC of each part's ring or ``LOOSE``;
        [Q, members] the order of the loose ring of each part;
        [G, d] the bytes of each group's pinned ring on each NIC;
        [d, n] the bytes of each circuit).
    """
    np.random.seed(seed)
    d, n = succ.shape
    groups = len(edge_bytes)
    pred = predecessors(succ)
    pinned = pinned_rings(succ, first, members)
    chosen = np.full((groups, parts), LOOSE, dtype=np.int8)
    rings = np.empty((parts, len(members)), dtype=members.dtype)
    for q in range(parts):
        rings[q] = members
    part = edge_bytes / parts
    shares = np.zeros((groups, d))
    pinned_bytes = np.zeros(groups)
    for g in range(groups):
        if pinned[g].all():
            pinned_bytes[g] = edge_bytes[g]
    load = np.zeros((d, n))
    sent = messages.copy()
    best = np.inf
    best_nic = np.full((n, n), -1, dtype=np.int8)
    best_chosen, best_rings, best_shares, best_load = chosen.copy(), rings.copy(), shares.copy(), load.copy()
    nic = np.full((n, n), -1, dtype=np.int8)
    order = np.zeros((n, n), dtype=np.int32)
    distance = np.full((n, n), np.inf)
    cost = np.ones((d, n))
    through, closed = np.empty(n), np.empty(n, dtype=np.bool_)
    used, trial = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=members.dtype)
    _balance(succ, first, members, pinned_bytes, pinned, shares, load)
    for turn in range(passes + 1):
        sharpness = _SHARP + _SHARPER * turn
        for t in np.random.permutation(n):
            if turn > 0:
                _send(t, sent, succ, nic[t], order[t], n, load, -1.0, through)
                _set_costs(load, sharpness, cost)
            if _tree(t, succ, pred, cost, distance[t], nic[t], order[t], closed) < n:
                return np.inf, best_nic, best_chosen, best_rings, best_shares, best_load
            _send(t, sent, succ, nic[t], order[t], n, load, 1.0, through)
        _choose_rings(
            succ,
            nic,
            order,
            first,
            members,
            part,
            pinned,
            sharpness,
            chosen,
            rings,
            pinned_bytes,
            shares,
            load,
            sent,
            cost,
            distance,
            used,
            trial,
            turn > 0,
        )
        _balance(succ, first, members, pinned_bytes, pinned, shares, load)
        if load.max() < best:
            best = load.max()
            best_nic[:] = nic
            best_chosen[:] = chosen
            best_rings[:] = rings
            best_shares[:] = shares
            best_load[:] = load
    return best, best_nic, best_chosen, best_rings, best_shares, best_load
