"""Units for the choices whose switches above have lost links: one matching for each such choice.

This solves the problem of ``room_above`` where exchanges of two choices do not suffice. The units on one choice are a
matching of switches below. Starting from the units that are on the choice, units that stay below are added one by one:
each takes the places of two others in the matching, and an augmenting path, over units of any choice, covers the ends
that these leave uncovered (Berge, PNAS 43, 1957). Units that stay below are never taken off again. A switch with as
many units as live choices must stay covered, so that the others have one choice less for at most as many units, and are
coloured by König's theorem (1916).
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from controller.model.fabric import BoolArray, IntArray
from controller.model.traffic import Int64Array
from controller.routing.kernels.placing.room_reserved import reserve


class Matching(NamedTuple):
    """The units on one choice while they are chosen: U units, N switches below, M switches above.

    Attributes:
        choice: the choice.
        ends: [2, U] the switch of each unit on its way up and down.
        crosses: [U] whether the unit goes on to the tier above.
        fixed: [U] whether the unit stays once it is on the choice.
        usable: [U] whether the unit may be on the choice.
        above: [N, K] the switch above to which each choice leads; -1: none.
        room: [2, M] units that the links of each switch above may carry, up and down.
        needed: [2, N] whether the switch must have a unit here: it has as many as live choices.
        of, ptr: the units of each switch, and where they begin (``_by_switch``).
        member: [2, N] the unit of each switch (-1: none).
        passed: [2, M] units that the links of each switch above carry.
        log: changes since ``logged`` was 0: twice the unit, and 1 if it was added.
        logged: [1] the number of changes in ``log``.
        parent, queue: [N] what the search for a path keeps.
    """

    choice: int
    ends: Int64Array
    crosses: BoolArray
    fixed: BoolArray
    usable: BoolArray
    above: IntArray
    room: Int64Array
    needed: BoolArray
    of: Int64Array
    ptr: Int64Array
    member: Int64Array
    passed: Int64Array
    log: Int64Array
    logged: Int64Array
    parent: Int64Array
    queue: Int64Array


@nb.njit(nogil=True, cache=True)
def match(lower, upper, crosses, tier, above, room, pod, reserving, order, choice):
    """Choose the units on each choice that has too few links above, until no switch above is too full there.

    Args:
        lower: [U] switch of each unit on its way up.
        upper: [U] switch of each unit on its way down.
        crosses: [U] whether the unit goes on to the tier above.
        tier: the live links of the choices.
        above: [N, K] the switch above to which each choice leads; -1: none.
        room: [2, M] units that the links of each switch above may carry, up and down.
        pod: [N] the switches below with the same switches above have the same number.
        reserving: reserve units that stay below, and idle choices, for the choices of their pod that need them
            (``room_reserved``). It takes longer, and more units change.
        order: [K] the order in which choices get their units; where little is left for the last ones, another order
            may succeed.
        choice: [U] the choice of each unit, no two on one link; changes in place: -1 for those that lose their choice,
            which others have to be found for.

    Returns:
        settled: [K] the choices whose units are found and must stay. None is, if there is no excess, or if it stays;
            ``choice`` is then as before.
    """
    n_switches, n_choices = above.shape
    n_units = len(choice)
    none = np.zeros(n_choices, np.bool_)
    ends, live = np.empty((2, n_units), np.int64), np.empty((2, n_switches, n_choices), np.bool_)
    ends[0], ends[1], live[0], live[1] = lower, upper, tier.up >= 0, tier.down >= 0
    slot = np.full((2, n_switches, n_choices), -1, np.int64)
    passed, below = np.zeros(room.shape, np.int64), np.zeros(room.shape, np.int64)
    degree, free = np.zeros((2, n_switches), np.int64), np.zeros((2, n_switches), np.int64)
    for side in range(2):
        for node in range(n_switches):
            for k in range(n_choices):
                if live[side, node, k]:
                    free[side, node] += 1
                    if above[node, k] >= 0:
                        below[side, above[node, k]] += 1
    for u in range(n_units):
        for side in range(2):
            node, k = ends[side, u], choice[u]
            if k < 0 or slot[side, node, k] >= 0 or not live[side, node, k]:
                return none
            slot[side, node, k] = u
            degree[side, node] += 1
            if crosses[u]:
                passed[side, above[node, k]] += 1
    if np.maximum(passed - room, 0).sum() == 0:
        return none
    of, ptr = _by_switch(ends, degree)
    before = choice.copy()
    settled, taken = none.copy(), np.zeros(n_units, np.bool_)
    reserved, idle = np.full(n_units, -1, np.int64), np.zeros((2, n_switches, n_choices), np.bool_)
    if reserving and not reserve(ends, crosses, live, above, below - room, pod, free - degree, reserved, idle):
        return none
    fixed = ~crosses
    for k in order:
        tight = False
        for node in range(n_switches):
            s = above[node, k]
            tight = tight or (s >= 0 and (below[0, s] > room[0, s] or below[1, s] > room[1, s]))
        if not tight:
            continue
        usable = ~taken & ((reserved < 0) | (reserved == k))
        if reserving:
            fixed = reserved == k
            _place_reserved(k, ends, fixed, idle, choice)
        idle[:, :, k] = False
        if not _match_one(
            k, ends, crosses, fixed, live, above, room, choice, degree, free, idle, of, ptr, usable, taken
        ):
            choice[:] = before
            return none
        settled[k] = True
    return settled


@nb.njit(nogil=True, cache=True)
def match_beside_dead(lower, upper, tier, choice):
    """Choose the units on each choice that some switch has and another has lost, where nothing above limits them.

    Args:
        lower: [U] switch of each unit on its way up.
        upper: [U] switch of each unit on its way down.
        tier: the live links of the choices; each has room for one unit.
        choice: [U] the choice of each unit, -1: none, no two on one link; changes in place: -1 for those that have or
            get none, which others have to be found for.

    Returns:
        settled: [K] the choices whose units are found and must stay. None is, if some switch with as many units as
            live choices stays without one; ``choice`` is then as before.
    """
    n_switches, n_choices = tier.up.shape
    n_units = len(choice)
    none = np.zeros(n_choices, np.bool_)
    ends, live = np.empty((2, n_units), np.int64), np.empty((2, n_switches, n_choices), np.bool_)
    ends[0], ends[1], live[0], live[1] = lower, upper, tier.up >= 0, tier.down >= 0
    taken_slot = np.zeros((2, n_switches, n_choices), np.bool_)
    degree, free = np.zeros((2, n_switches), np.int64), np.zeros((2, n_switches), np.int64)
    for side in range(2):
        for node in range(n_switches):
            for k in range(n_choices):
                free[side, node] += int(live[side, node, k])
    for u in range(n_units):
        for side in range(2):
            node, k = ends[side, u], choice[u]
            degree[side, node] += 1
            if k >= 0 and (taken_slot[side, node, k] or not live[side, node, k]):
                return none
            if k >= 0:
                taken_slot[side, node, k] = True
    crosses, above, room = np.zeros(n_units, np.bool_), np.zeros(tier.up.shape, np.int32), np.zeros((2, 1), np.int64)
    of, ptr = _by_switch(ends, degree)
    before = choice.copy()
    settled, taken, idle = none.copy(), np.zeros(n_units, np.bool_), np.zeros(live.shape, np.bool_)
    for k in range(n_choices):
        n_live = live[:, :, k].sum()
        if n_live == 0 or n_live == 2 * n_switches:
            continue
        if not _match_one(
            k, ends, crosses, crosses, live, above, room, choice, degree, free, idle, of, ptr, ~taken, taken
        ):
            choice[:] = before
            return none
        settled[k] = True
    return settled


@nb.njit(nogil=True, cache=True)
def _by_switch(ends, degree):
    """Return the units of each switch and side: of [2, U], and where those of a switch begin [2, N+1]."""
    n_switches = degree.shape[1]
    of, ptr = np.empty(ends.shape, np.int64), np.zeros((2, n_switches + 1), np.int64)
    for side in range(2):
        ptr[side, 1:] = np.cumsum(degree[side])
        at = ptr[side, :-1].copy()
        for u in range(ends.shape[1]):
            node = ends[side, u]
            of[side, at[node]] = u
            at[node] += 1
    return of, ptr


@nb.njit(nogil=True, cache=True)
def _place_reserved(k, ends, reserved, idle, choice):
    """Put the ``reserved`` [U] units on choice k, and take off others where they come and where k is kept idle."""
    goes = idle[:, :, k].copy()
    for comes in np.flatnonzero(reserved):
        for side in range(2):
            goes[side, ends[side, comes]] = True
    for u in range(len(choice)):
        if reserved[u]:
            choice[u] = k
        elif choice[u] == k and (goes[0, ends[0, u]] or goes[1, ends[1, u]]):
            choice[u] = -1


@nb.njit(nogil=True, cache=True)
def _match_one(k, ends, crosses, fixed, live, above, room, choice, degree, free, idle, of, ptr, usable, taken):
    """Settle the units on choice k; return whether no switch above is too full there.

    ``fixed`` [U] are units that are not taken off once they are on k, ``idle`` [2, N, K] choices after k that stay
    idle, ``usable`` [U] the units that may be on k if their links are live; ``choice``, ``degree``, ``free`` and
    ``taken`` [U] change.
    """
    n_switches, n_units = above.shape[0], len(choice)
    member = np.full((2, n_switches), -1, np.int64)
    passed = np.zeros(room.shape, np.int64)
    for u in range(n_units):
        usable[u] = usable[u] and live[0, ends[0, u], k] and live[1, ends[1, u], k]
        if choice[u] == k and usable[u]:
            for side in range(2):
                member[side, ends[side, u]] = u
                if crosses[u]:
                    passed[side, above[ends[side, u], k]] += 1
    needed = degree >= free - idle.sum(axis=2)
    for side in range(2):
        for node in range(n_switches):
            needed[side, node] = needed[side, node] and live[side, node, k]
    log, logged = np.empty(16 * n_switches + 8, np.int64), np.zeros(1, np.int64)
    parent, queue = np.empty(n_switches, np.int64), np.empty(n_switches, np.int64)
    matching = Matching(
        k, ends, crosses, fixed, usable, above, room, needed, of, ptr, member, passed, log, logged, parent, queue
    )
    # Units that lost their choice before may have left such a switch without one.
    for side in range(2):
        for node in range(n_switches):
            logged[0] = 0
            if not _cover(matching, side, node):
                return False
    # A switch below with an idle choice gives up its unit here, or takes one that stays below.
    for first in range(2 * n_switches + n_units):
        if first < 2 * n_switches:
            side, a = first // n_switches, first % n_switches
            one, other, u = member[side, a], -1, -1
            if one < 0 or not crosses[one] or needed[side, a] or passed[side, above[a, k]] <= room[side, above[a, k]]:
                continue
        else:
            u = first - 2 * n_switches
            if crosses[u] or not usable[u]:
                continue
            s, one, other = above[ends[0, u], k], member[0, ends[0, u]], member[1, ends[1, u]]
            if passed[0, s] <= room[0, s] and passed[1, s] <= room[1, s]:
                continue
            if one == u or (one >= 0 and fixed[one]) or (other >= 0 and fixed[other]):
                continue
        before = np.maximum(passed - room, 0).sum()
        logged[0] = 0
        for v in (one, other):
            if v >= 0:
                _change(matching, v, -1)
        if u >= 0:
            _change(matching, u, 1)
        good = True
        for v in (one, other):
            for side in range(2):
                good = good and (v < 0 or _cover(matching, side, ends[side, v]))
        if not good or np.maximum(passed - room, 0).sum() >= before:
            for i in range(logged[0] - 1, -1, -1):
                _put(matching, log[i] >> 1, -1 if log[i] & 1 else 1)
    if np.maximum(passed - room, 0).sum() > 0:
        return False
    for u in range(n_units):
        inside = member[0, ends[0, u]] == u
        if inside:
            choice[u] = k
            taken[u] = True
            degree[0, ends[0, u]] -= 1
            degree[1, ends[1, u]] -= 1
        elif choice[u] == k:
            choice[u] = -1
    for side in range(2):
        for node in range(n_switches):
            free[side, node] -= int(live[side, node, k])
    return True


@nb.njit(nogil=True, cache=True)
def _put(matching, u, step):
    """Add a unit to the matching (step 1), or take it off (-1)."""
    for side in range(2):
        node = matching.ends[side, u]
        if step > 0:
            matching.member[side, node] = u
        elif matching.member[side, node] == u:
            matching.member[side, node] = -1
        if matching.crosses[u]:
            matching.passed[side, matching.above[node, matching.choice]] += step


@nb.njit(nogil=True, cache=True)
def _change(matching, u, step):
    """As ``_put``, noted in the log."""
    _put(matching, u, step)
    matching.log[matching.logged[0]] = 2 * u + int(step > 0)
    matching.logged[0] += 1


@nb.njit(nogil=True, cache=True)
def _cover(matching, side, node):
    """Give a switch a unit if it needs one and has none, by an augmenting path of the fewest units.

    Returns:
        whether it has one, or needs none.
    """
    k, ends, crosses, fixed, usable, above, room, needed, of, ptr, member, passed, _, _, parent, queue = matching
    if not needed[side, node] or member[side, node] >= 0:
        return True
    far = 1 - side
    parent[:] = -1
    queue[0] = node
    head, tail, last = 0, 1, -1
    while head < tail and last < 0:
        at = queue[head]
        head += 1
        for i in range(ptr[side, at], ptr[side, at + 1]):
            e = of[side, i]
            end = ends[far, e]
            if not usable[e] or parent[end] >= 0 or member[side, at] == e:
                continue
            m = member[far, end]
            if m < 0:
                # Here the number of units on the far switch's way grows.
                s = above[end, k]
                if crosses[e] and passed[far, s] >= room[far, s]:
                    continue
                parent[end] = e
                last = end
                break
            if fixed[m]:
                continue
            parent[end] = e
            back = ends[side, m]
            if not needed[side, back]:
                last = end
                break
            queue[tail] = back
            tail += 1
    if last < 0:
        return False
    while True:
        e = parent[last]
        m, start = member[far, last], ends[side, e]
        held = member[side, start]
        if m >= 0:
            _change(matching, m, -1)
        _change(matching, e, 1)
        if start == node:
            return True
        last = ends[far, held]
