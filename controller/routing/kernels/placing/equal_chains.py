"""Alternating chains over links that carry several equal units each: any unit of a link may be the next of a chain.

Where every live link has room for c equal units, a unit for which no choice has room at both ends takes one (alpha)
with room at its source, and another one (beta) has room at its destination. A search in breadth over switches then
finds the fewest units to exchange between alpha and beta so that no link is too full. It always ends where links of
alpha and beta are live: by counts of units on the links of the switches reached, as in König's proof for c = 1 (1916).
``kempe`` has no choice of units, so its chains are longer; slots (``link_slots``) would have to be chosen for all
units first.

``make_room`` exchanges units for switches above that have lost links: a unit that stays below comes to the choice
which leads there, or an idle place, so that others, which go on, leave it.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from controller.model.fabric import BoolArray, IntArray
from controller.model.traffic import Int64Array


class Equals(NamedTuple):
    """Equal units on the links of a tier: U units, N switches below and M above, K choices.

    Attributes:
        ends: [2, U] the switch of each unit on its way up and down.
        choice: [U] the choice of each unit; -1: none.
        room: [2, N, K] units that each link may carry; 0: it is not live.
        fill: [2, N, K] units that each link carries.
        head: [2, N, K] the first unit of each link; -1: none.
        after, before: [2, U] the next and the last unit of a unit's link.
        crosses: [U] whether the unit goes on to the tier above.
        above: [N, K] the switch above to which each choice leads; -1: none.
        room_above, passed: [2, M] units that each switch above may pass on, and does.
        log: units that moved since ``logged`` was 0, each with the choice before.
        totals: [3] the number of moves in ``log``, the sum of excesses above, and the number of searches.
        reached: [2, N] the last search that reached a switch.
        by: [2, N] the unit by which it did.
        queue: [2 * N] switches to search from: side * N + number.
    """

    ends: IntArray
    choice: IntArray
    room: IntArray
    fill: IntArray
    head: IntArray
    after: IntArray
    before: IntArray
    crosses: BoolArray
    above: IntArray
    room_above: Int64Array
    passed: Int64Array
    log: IntArray
    totals: Int64Array
    reached: IntArray
    by: IntArray
    queue: IntArray


@nb.njit(nogil=True, cache=True)
def insert(src, dst, tier, count, choice):
    """Place the units without a choice where chains make room; the others are on live links that are not too full.

    Args:
        src: [U] switch of each unit on its way up.
        dst: [U] switch of each unit on its way down.
        tier: the live links of the choices.
        count: units that a live link may carry.
        choice: [U] choice of each unit, -1: none; changes in place.

    Returns:
        whether all units have a choice now; else ``choice`` may have changed in part.
    """
    n_switches, n_choices = tier.up.shape
    none = np.full((n_switches, n_choices), -1, np.int32)
    crosses, room_above = np.zeros(len(choice), np.bool_), np.zeros((2, 1), np.int64)
    units = _units(src, dst, crosses, tier, count, none, room_above, choice)
    if (units.fill > units.room).any():
        return False
    _list(units, np.ones(n_choices, np.bool_))
    placed = True
    for u in np.flatnonzero(choice < 0):
        placed = placed and _add(units, u)
    return placed


@nb.njit(nogil=True, cache=True)
def make_room(lower, upper, crosses, tier, count, above, room_above, choice):
    """Exchange choices until no switch above is too full; change nothing where that is not found.

    Args:
        lower: [U] switch of each unit on its way up.
        upper: [U] switch of each unit on its way down.
        crosses: [U] whether the unit goes on to the tier above.
        tier: the live links of the choices.
        count: units that a live link may carry.
        above: [N, K] the switch above to which each choice leads; -1: none.
        room_above: [2, M] units that the links of each switch above may carry, up and down.
        choice: [U] the choice of each unit; changes in place.

    Returns:
        whether there was an excess and it is gone.
    """
    units = _units(lower, upper, crosses, tier, count, above, room_above, choice)
    if (units.fill > units.room).any():
        return False
    if units.totals[1] == 0 or (choice < 0).any():
        return False
    old, n_choices = choice.copy(), above.shape[1]
    inside = np.flatnonzero(~crosses)
    wanted, listed = np.zeros(n_choices, np.bool_), np.zeros(n_choices, np.bool_)
    for full in range(n_choices):
        for turn in range(1, n_choices):
            # Few other choices take part, so that few switches above get other units.
            other = (full + turn) % n_choices
            if not _is_full(units, full):
                break
            for k in (full, other):
                wanted[k] = not listed[k]
                listed[k] = True
            if wanted.any():
                _list(units, wanted)
                wanted[:] = False
            _use_idle(units, full, other)
            for u in inside:
                if choice[u] == other and _gains(units, u, full, other):
                    _bring(units, u, full, other)
    if units.totals[1] > 0:
        choice[:] = old
        return False
    return True


@nb.njit(nogil=True, cache=True)
def _units(src, dst, crosses, tier, count, above, room_above, choice):
    """Return how many units each link carries; which they are is not known before ``_list``."""
    n_units, shape = len(choice), (2, tier.up.shape[0], tier.up.shape[1])
    ends, room, fill = np.empty((2, n_units), np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    ends[0], ends[1] = src, dst
    for a in range(shape[1]):
        for k in range(shape[2]):
            room[0, a, k] = count if tier.up[a, k] >= 0 else 0
            room[1, a, k] = count if tier.down[a, k] >= 0 else 0
    passed = np.zeros(room_above.shape, np.int64)
    for u in range(n_units):
        k = choice[u]
        if k < 0:
            continue
        for side in range(2):
            node = ends[side, u]
            fill[side, node, k] += 1
            if crosses[u] and above[node, k] >= 0:
                passed[side, above[node, k]] += 1
    totals = np.zeros(3, np.int64)
    totals[1] = np.maximum(passed - room_above, 0).sum()
    head, log = np.full(shape, -1, np.int32), np.empty((4 * shape[1] + 8, 2), np.int32)
    after, before = np.empty((2, n_units), np.int32), np.empty((2, n_units), np.int32)
    reached, by = np.full(shape[:2], -1, np.int32), np.empty(shape[:2], np.int32)
    queue = np.empty(2 * shape[1], np.int32)
    return Equals(
        ends,
        choice,
        room,
        fill,
        head,
        after,
        before,
        crosses,
        above,
        room_above,
        passed,
        log,
        totals,
        reached,
        by,
        queue,
    )


@nb.njit(nogil=True, cache=True)
def _list(units, wanted):
    """List the units of the links of the ``wanted`` [K] choices."""
    choice, ends, head, after, before = units.choice, units.ends, units.head, units.after, units.before
    for u in range(len(choice)):
        k = choice[u]
        if k < 0 or not wanted[k]:
            continue
        for side in range(2):
            node = ends[side, u]
            first = head[side, node, k]
            after[side, u], before[side, u] = first, -1
            if first >= 0:
                before[side, first] = u
            head[side, node, k] = u


@nb.njit(nogil=True, cache=True)
def _add(units, u):
    """Give a unit a choice, by a chain from its destination; return whether there is one."""
    a, b = units.ends[0, u], units.ends[1, u]
    room, fill = units.room, units.fill
    n_choices = room.shape[2]
    for k in range(n_choices):
        if fill[0, a, k] < room[0, a, k] and fill[1, b, k] < room[1, b, k]:
            _put(units, u, k)
            return True
    for alpha in range(n_choices):
        if fill[0, a, alpha] >= room[0, a, alpha] or room[1, b, alpha] == 0:
            continue
        for beta in range(n_choices):
            if fill[1, b, beta] >= room[1, b, beta]:
                continue
            _put(units, u, alpha)
            units.totals[0] = 0
            if _relieve(units, 1, b, alpha, beta, -1):
                return True
            _put(units, u, -1)
    return False


@nb.njit(nogil=True, cache=True)
def _put(units, u, choice):
    """Move a unit to a choice (-1: to none)."""
    for step in (-1, 1):
        k = choice if step > 0 else units.choice[u]
        if k < 0:
            continue
        for side in range(2):
            node = units.ends[side, u]
            units.fill[side, node, k] += step
            if step > 0:
                first = units.head[side, node, k]
                units.after[side, u], units.before[side, u] = first, -1
                if first >= 0:
                    units.before[side, first] = u
                units.head[side, node, k] = u
            else:
                last, following = units.before[side, u], units.after[side, u]
                if last >= 0:
                    units.after[side, last] = following
                else:
                    units.head[side, node, k] = following
                if following >= 0:
                    units.before[side, following] = last
            s = units.above[node, k]
            if units.crosses[u] and s >= 0:
                # One unit more above the room, or one less down to it, is a change of the excess.
                over = units.passed[side, s] - units.room_above[side, s]
                units.totals[1] += step if over + int(step > 0) > 0 else 0
                units.passed[side, s] += step
    units.choice[u] = choice


@nb.njit(nogil=True, cache=True)
def _change(units, u, choice):
    """As ``_put``, noted in the log."""
    units.log[units.totals[0], 0], units.log[units.totals[0], 1] = u, units.choice[u]
    units.totals[0] += 1
    _put(units, u, choice)


@nb.njit(nogil=True, cache=True)
def _relieve(units, side, node, full, other, kept):
    """Exchange the fewest units between two choices so that the link of ``full`` at a switch has one unit less.

    The link of ``other`` there has room for one more. Units that stay below do not leave the choice ``kept``.

    Returns:
        whether there is such an exchange; it is in the log.
    """
    ends, room, fill, reached, by, queue = units.ends, units.room, units.fill, units.reached, units.by, units.queue
    n_switches = room.shape[1]
    units.totals[2] += 1
    turn = units.totals[2]
    reached[side, node] = turn
    queue[0] = side * n_switches + node
    at, last, end = 0, 1, -1
    while at < last and end < 0:
        here, x = queue[at] // n_switches, queue[at] % n_switches
        at += 1
        there = 1 - here
        # On the side of the start, links of ``full`` have a unit too many, on the other side those of ``other``.
        source, target = (full, other) if here == side else (other, full)
        if room[here, x, target] == 0:
            continue
        u = units.head[here, x, source]
        while u >= 0:
            y = ends[there, u]
            if reached[there, y] != turn and room[there, y, target] > 0 and (source != kept or units.crosses[u]):
                reached[there, y], by[there, y] = turn, u
                if fill[there, y, target] >= room[there, y, target]:
                    queue[last] = there * n_switches + y
                    last += 1
                elif _may_end(units, there, y, target, u):
                    end = there * n_switches + y
                    break
            u = units.after[here, u]
    if end < 0:
        return False
    here, x = end // n_switches, end % n_switches
    while here != side or x != node:
        u = by[here, x]
        _change(units, u, other if units.choice[u] == full else full)
        here = 1 - here
        x = ends[here, u]
    return True


@nb.njit(nogil=True, cache=True)
def _may_end(units, side, node, choice, u):
    """Return whether a chain may end with a unit that comes to a choice here: the switch above has room for it."""
    s = units.above[node, choice]
    return s < 0 or not units.crosses[u] or units.passed[side, s] < units.room_above[side, s]


@nb.njit(nogil=True, cache=True)
def _is_full(units, choice):
    """Return whether a choice leads to a switch above that is too full."""
    full = False
    for node in range(units.above.shape[0]):
        full = full or _over(units, 0, node, choice) or _over(units, 1, node, choice)
    return full


@nb.njit(nogil=True, cache=True)
def _over(units, side, node, choice):
    """Return whether the switch above to which a choice leads is too full."""
    s = units.above[node, choice]
    return s >= 0 and units.passed[side, s] > units.room_above[side, s]


@nb.njit(nogil=True, cache=True)
def _gains(units, u, full, other):
    """Return whether a unit that stays below makes room if it comes to a choice from another one."""
    good = False
    for side in range(2):
        node = units.ends[side, u]
        s = units.above[node, other]
        if units.room[side, node, full] == 0 or (s >= 0 and units.passed[side, s] >= units.room_above[side, s]):
            return False
        good = good or _over(units, side, node, full)
    return good


@nb.njit(nogil=True, cache=True)
def _bring(units, u, full, other):
    """Bring a unit that stays below to a choice, and others from there, if the excess falls."""
    excess = units.totals[1]
    units.totals[0] = 0
    _change(units, u, full)
    good = True
    for side in range(2):
        node = units.ends[side, u]
        if good and units.fill[side, node, full] > units.room[side, node, full]:
            good = _relieve(units, side, node, full, other, full)
    if not good or units.totals[1] >= excess:
        _undo(units)


@nb.njit(nogil=True, cache=True)
def _use_idle(units, full, other):
    """Move units to idle places of another choice where a choice leads to a switch above that is too full."""
    for side in range(2):
        for node in range(units.above.shape[0]):
            tried = 0
            while (
                tried < units.fill[side, node, full]
                and _over(units, side, node, full)
                and units.fill[side, node, other] < units.room[side, node, other]
            ):
                tried += 1
                excess = units.totals[1]
                u = units.head[side, node, full]
                for _ in range(1, tried):
                    u = units.after[side, u]
                far = units.ends[1 - side, u]
                if not units.crosses[u] or units.room[1 - side, far, other] == 0:
                    continue
                units.totals[0] = 0
                _change(units, u, other)
                good = True
                if units.fill[1 - side, far, other] > units.room[1 - side, far, other]:
                    good = _relieve(units, 1 - side, far, other, full, full)
                if not good or units.totals[1] >= excess:
                    _undo(units)
                else:
                    tried = 0


@nb.njit(nogil=True, cache=True)
def _undo(units):
    """Take back the moves in the log."""
    for i in range(units.totals[0] - 1, -1, -1):
        _put(units, units.log[i, 0], units.log[i, 1])
    units.totals[0] = 0
