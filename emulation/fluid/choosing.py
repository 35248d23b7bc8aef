"""The choice of a path at the start of a transfer (compiled), by the baselines of ``adaptive``."""

from __future__ import annotations

import numba as nb
import numpy as np

from emulation.fluid.adaptive import FIXED, POWER_OF_TWO

UP, DOWN, HOST = 1, 2, 3
"""Places of a row's uplink, downlink and last link."""


@nb.njit(nogil=True, cache=True, inline="always")
def _drawn(choice, n):
    """Draw one of n by a 64-bit xorshift generator (Marsaglia, J. Stat. Software 8(14), 2003)."""
    state = choice.state[0]
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    choice.state[0] = state
    return np.int64((state >> np.uint64(11)) % np.uint64(n))


@nb.njit(nogil=True, cache=True, inline="always")
def _fullness(choice, capacity, up, down):
    """Transfers for each Gbit/s on the fuller of two links, and on both, in the view."""
    one, two = choice.known[up] / capacity[up], choice.known[down] / capacity[down]
    return max(one, two), one + two


@nb.njit(nogil=True, cache=True)
def _pick(choice, capacity, a, b, present):
    """Return the path class from leaf a to leaf b, -1 if none is alive; ``present`` [2] are the current links."""
    n_paths = choice.tier.up.shape[1]
    if choice.kind[0] == POWER_OF_TWO:
        live = 0
        for k in range(n_paths):
            if choice.tier.up[a, k] >= 0 and choice.tier.down[b, k] >= 0:
                live += 1
        if live == 0:
            return -1
        first = _drawn(choice, live)
        second = first
        if live > 1:
            second = _drawn(choice, live - 1)
            if second >= first:
                second += 1
    best, best_fuller, best_both, seen = -1, np.inf, np.inf, -1
    for k in range(n_paths):
        up, down = choice.tier.up[a, k], choice.tier.down[b, k]
        if up < 0 or down < 0:
            continue
        seen += 1
        if choice.kind[0] == POWER_OF_TWO and seen != first and seen != second:
            continue
        fuller, both = _fullness(choice, capacity, up, down)
        better = fuller < best_fuller or (fuller == best_fuller and both < best_both)
        stays = fuller == best_fuller and both == best_both and up == present[0] and down == present[1]
        if better or stays:
            best, best_fuller, best_both = k, fuller, both
    return best


@nb.njit(nogil=True, cache=True)
def choose(movers, state, mover):
    """Give a mover that is on no link yet its paths."""
    choice = state.choice
    if choice.kind[0] == FIXED:
        return
    now = state.now[0]
    if choice.view_seconds[0] > 0.0 and now >= choice.view_until[0]:
        choice.known[:] = choice.carried
        choice.view_until[0] = (np.floor(now / choice.view_seconds[0]) + 1.0) * choice.view_seconds[0]
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        if choice.src[row] < 0:
            continue
        link = movers.link[row]
        k = _pick(choice, state.capacity, choice.src[row], choice.dst[row], link[UP:HOST])
        if k < 0:
            link[UP], link[DOWN] = len(state.capacity) - 1, -1
            continue
        link[UP], link[DOWN] = choice.tier.up[choice.src[row], k], choice.tier.down[choice.dst[row], k]
        for place in (UP, DOWN):
            choice.carried[link[place]] += 1
            if choice.view_seconds[0] == 0.0:
                choice.known[link[place]] += 1


@nb.njit(nogil=True, cache=True)
def leave(movers, state, mover):
    """Count a mover off the links of its paths."""
    choice = state.choice
    if choice.kind[0] == FIXED:
        return
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        if choice.src[row] < 0 or movers.link[row, DOWN] < 0:
            continue
        for place in (UP, DOWN):
            choice.carried[movers.link[row, place]] -= 1
            if choice.view_seconds[0] == 0.0:
                choice.known[movers.link[row, place]] -= 1
