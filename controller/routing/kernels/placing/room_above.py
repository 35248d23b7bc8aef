"""Exchange of choices in one tier where a switch above is left or reached by more units than it has links.

Where every link has room for one unit, a switch above with r live links may pass on r units. Each leaf uses each of
its choices once, so a switch above that has lost a link is too full unless one of its leaves gives it nothing to pass
on: an idle choice, or a unit that stays below the switches above. Such a leaf may give its unit on choice g to
choice h. The units that alternate between g and h are exchanged with it (a Kempe chain, as in ``kempe``), so no link
of this tier gets a second unit. All chains that begin at such a leaf are tried; of those that lower the excess of all
switches above the most, the shortest is taken.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.routing.kernels.placing.exchanging import exchange


@nb.njit(nogil=True, cache=True)
def make_room(lower, upper, crosses, tier, above, room, choice):
    """Exchange choices until no switch above is too full; change nothing where that is not found.

    Args:
        lower: [U] switch of each unit on its way up.
        upper: [U] switch of each unit on its way down.
        crosses: [U] whether the unit goes on to the tier above.
        tier: the live links of the choices.
        above: [N, K] the switch above to which each choice leads; -1: none.
        room: [2, M] units that the links of each switch above may carry, up and down.
        choice: [U] the choice of each unit, no two on one link; changes in place.

    Returns:
        whether there was an excess and it is gone.
    """
    n_switches, n_choices = above.shape
    ends, live = np.empty((2, len(choice)), np.int64), np.empty((2, n_switches, n_choices), np.bool_)
    ends[0], ends[1], live[0], live[1] = lower, upper, tier.up >= 0, tier.down >= 0
    slot = np.full((2, n_switches, n_choices), -1, np.int64)
    count = np.zeros(room.shape, np.int64)
    for u in range(len(choice)):
        for side in range(2):
            node, k = ends[side, u], choice[u]
            if k < 0 or slot[side, node, k] >= 0 or not live[side, node, k]:
                return False
            slot[side, node, k] = u
            if crosses[u]:
                count[side, above[node, k]] += 1
    excess = np.maximum(count - room, 0).sum()
    if excess == 0:
        return False
    before = choice.copy()
    chain, shortest = np.empty(len(choice), np.int64), np.empty(len(choice), np.int64)
    while excess > 0:
        length, g, h = _best(ends, live, slot, crosses, above, room, choice, count, chain, shortest)
        if length == 0:
            choice[:] = before
            return False
        moved = shortest[:length]
        excess -= _pass_on(moved, g, h, 1, ends, crosses, above, room, choice, count)
        exchange(moved, g, h, ends, slot, choice)
    return True


@nb.njit(nogil=True, cache=True)
def _best(ends, live, slot, crosses, above, room, choice, count, chain, shortest):
    """Return length and choices of the exchange that lowers the excess most (``shortest`` has its units); 0: none."""
    gain, length, best_g, best_h = 0, 0, -1, -1
    n_switches, n_choices = above.shape
    for side in range(2):
        for node in range(n_switches):
            for g in range(n_choices):
                full, v = above[node, g], slot[side, node, g]
                if v < 0 or not crosses[v] or count[side, full] <= room[side, full]:
                    continue
                for h in range(n_choices):
                    u = slot[side, node, h]
                    if h == g or not live[side, node, h] or (u >= 0 and crosses[u]):
                        continue
                    n = _chain(v, side, node, g, h, ends, live, slot, chain)
                    if n == 0:
                        continue
                    less = _pass_on(chain[:n], g, h, 1, ends, crosses, above, room, choice, count)
                    _pass_on(chain[:n], g, h, -1, ends, crosses, above, room, choice, count)
                    if less > gain or (less == gain > 0 and n < length):
                        gain, length, best_g, best_h = less, n, g, h
                        shortest[:n] = chain[:n]
    return length, best_g, best_h


@nb.njit(nogil=True, cache=True)
def _chain(v, side, node, g, h, ends, live, slot, chain):
    """Collect the units that change choice with v, which goes from g to h at ``node``; return how many, or 0.

    The chain goes on from v's other end, and where it does not come back, also from the unit on h at ``node``. There is
    none where it comes to a dead link.
    """
    n = 0
    for begin in (v, slot[side, node, h]):
        u, at = begin, side
        source, target = (g, h) if begin == v else (h, g)
        while u >= 0:
            if not (live[0, ends[0, u], target] and live[1, ends[1, u], target]):
                return 0
            chain[n] = u
            n += 1
            at = 1 - at
            u = slot[at, ends[at, u], target]
            source, target = target, source
            if u == v:
                return n
    return n


@nb.njit(nogil=True, cache=True)
def _pass_on(chain, g, h, step, ends, crosses, above, room, choice, count):
    """Change the counts of switches above by an exchange of g and h (step -1: take it back); return the fall of excess.

    ``choice`` [U] are the choices before the exchange.
    """
    less = 0
    for u in chain:
        if not crosses[u]:
            continue
        old, new = (g, h) if choice[u] == g else (h, g)
        for side in range(2):
            node = ends[side, u]
            for k, change in ((old, -step), (new, step)):
                switch = above[node, k]
                was = max(count[side, switch] - room[side, switch], 0)
                count[side, switch] += change
                less += was - max(count[side, switch] - room[side, switch], 0)
    return less
