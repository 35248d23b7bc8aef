"""The choice of a path at the start of a transfer (compiled), by the baselines of ``adaptive``."""

from __future__ import annotations

import numpy as np

from controller.routing.kernels.drawing import draw
from controller.routing.kernels.paths import met, next_live, path_links
from controller.routing.kernels.without_runtime import inlined, without_runtime
from emulation.fluid.adaptive import FIXED, POWER_OF_TWO


@inlined
def _place(i, n_tiers):
    """Return the place in a row of link i of ``path_links``: rows have the host's link first, then links in order."""
    tier = i // 2
    return 1 + tier if i % 2 == 0 else 2 * n_tiers - tier


@without_runtime
def _pick(choice, capacity, a, b, present):
    """Return the path from leaf a to leaf b, -1 if none is alive; ``present`` [2T+2] are the row's current links."""
    ways, links = choice.ways, choice.links
    n_tiers = len(ways.width)
    top = met(ways, a, b)
    if top == n_tiers:
        return -1
    n, start, last = 2 * (top + 1), ways.first[top], ways.first[top + 1]
    first = second = -1
    if choice.kind[0] == POWER_OF_TWO:
        live = 0
        path = next_live(ways, a, b, start, last, links)
        while path >= 0:
            live += 1
            path = next_live(ways, a, b, path + 1, last, links)
        if live == 0:
            return -1
        first = second = draw(choice.state, live)
        if live > 1:
            second = draw(choice.state, live - 1)
            if second >= first:
                second += 1
    best, best_fullest, best_sum, seen = -1, np.inf, np.inf, -1
    path = next_live(ways, a, b, start, last, links)
    while path >= 0:
        seen += 1
        if choice.kind[0] != POWER_OF_TWO or seen in (first, second):
            # Transfers for each Gbit/s, in the view.
            fullest, total, stays = 0.0, 0.0, True
            for i in range(n):
                one = choice.known[links[i]] / capacity[links[i]]
                fullest = max(fullest, one)
                total += one
                stays = stays and present[_place(i, n_tiers)] == links[i]
            equal = fullest == best_fullest and total == best_sum
            if fullest < best_fullest or (fullest == best_fullest and total < best_sum) or (equal and stays):
                best, best_fullest, best_sum = path, fullest, total
        path = next_live(ways, a, b, path + 1, last, links)
    return best


@without_runtime
def choose(movers, state, mover):
    """Give a mover that is on no link yet its paths."""
    choice = state.choice
    if choice.kind[0] == FIXED:
        return
    now = state.now[0]
    if choice.view_seconds[0] > 0.0 and now >= choice.view_until[0]:
        for link in range(len(choice.carried)):
            choice.known[link] = choice.carried[link]
        choice.view_until[0] = (np.floor(now / choice.view_seconds[0]) + 1.0) * choice.view_seconds[0]
    n_tiers = len(choice.ways.width)
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        if choice.src[row] < 0:
            continue
        link = movers.link[row]
        path = _pick(choice, state.capacity, choice.src[row], choice.dst[row], link)
        link[1 : 2 * n_tiers + 1] = -1
        if path < 0:
            link[1] = len(state.capacity) - 1
            continue
        n = path_links(choice.ways, choice.src[row], choice.dst[row], path, choice.links)
        for i in range(n):
            link[_place(i, n_tiers)] = choice.links[i]
            _count(choice, choice.links[i], 1)


@without_runtime
def leave(movers, state, mover):
    """Count a mover off the links of its paths."""
    choice = state.choice
    if choice.kind[0] == FIXED:
        return
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        if choice.src[row] < 0 or movers.link[row, 1] == len(state.capacity) - 1:
            continue
        for place in range(1, 2 * len(choice.ways.width) + 1):
            if movers.link[row, place] >= 0:
                _count(choice, movers.link[row, place], -1)


@inlined
def _count(choice, link, transfers):
    """Add transfers to those that a link carries."""
    choice.carried[link] += transfers
    if choice.view_seconds[0] == 0.0:
        choice.known[link] += transfers
