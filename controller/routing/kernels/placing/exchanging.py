"""The exchange of two choices along a chain of units, each of which has a slot at both of its switches."""

from __future__ import annotations

import numba as nb


@nb.njit(nogil=True, cache=True)
def exchange(chain, g, h, ends, slot, choice):
    """Exchange choices g and h of the units of a whole chain.

    Args:
        chain: the units, each of which has choice g or h.
        g: one choice.
        h: the other one.
        ends: [2, U] the switches of each unit, on its way up and down.
        slot: [2, N, K] the unit that has each choice at each switch, -1: none; changes in place.
        choice: [U] the choice of each unit; changes in place.
    """
    for u in chain:
        for side in range(2):
            slot[side, ends[side, u], choice[u]] = -1
    for u in chain:
        choice[u] = h if choice[u] == g else g
        for side in range(2):
            slot[side, ends[side, u], choice[u]] = u
