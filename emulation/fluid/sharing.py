"""Max-min fair rates, recomputed only for movers that a change affects (compiled).

An allocation is max-min fair if and only if every mover has a bottleneck: a full link on which no mover is faster
(Bertsekas and Gallager, Data Networks, 6.5.2). So after a change, the rates of movers whose bottleneck may have
disappeared are recomputed, while the others keep their rates; movers that thereby lose their bottleneck are added,
until there are none. The result equals that of a recomputation of the whole network, since it is unique.
"""

from __future__ import annotations

import numpy as np

from controller.model.tolerances import LAST_BIT, RATE_ROUNDING
from controller.routing.kernels.without_runtime import inlined, without_runtime
from emulation.fluid.heap import drop, put

MOVERS, LINKS_IN, TOUCHED = 0, 1, 2
TICK = 0
"""Of the law of windows: seconds between two changes of those that grow or approach each other."""


@inlined
def entry_bits(movers):
    """Return the bits of an entry's number that are its place in its row."""
    return 2 if movers.link.shape[1] <= 4 else 3


@inlined
def touch(work, link):
    """Mark a link whose set of movers has changed."""
    if not work.is_touched[link]:
        work.is_touched[link] = True
        work.touched[work.counts[TOUCHED]] = link
        work.counts[TOUCHED] += 1


@inlined
def join(work, state, mover):
    """Add a mover to those whose rates are recomputed."""
    if not work.is_in[mover]:
        work.is_in[mover] = True
        work.old_rate[mover] = state.rate[mover]
        work.movers[work.counts[MOVERS]] = mover
        work.counts[MOVERS] += 1


@inlined
def attach(movers, state, mover):
    """Put a mover on its links."""
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        for place in range(movers.link.shape[1]):
            link = movers.link[row, place]
            if link < 0:
                continue
            entry = (row << entry_bits(movers)) + place
            state.before[entry] = -1
            state.after[entry] = state.head[link]
            if state.head[link] >= 0:
                state.before[state.head[link]] = entry
            state.head[link] = entry


@inlined
def detach(movers, state, mover):
    """Take a mover off its links, which are touched by that."""
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        for place in range(movers.link.shape[1]):
            link = movers.link[row, place]
            if link < 0:
                continue
            entry = (row << entry_bits(movers)) + place
            if state.before[entry] >= 0:
                state.after[state.before[entry]] = state.after[entry]
            else:
                state.head[link] = state.after[entry]
            if state.after[entry] >= 0:
                state.before[state.after[entry]] = state.before[entry]
            touch(state.work, link)


@inlined
def settle(movers, state, mover):
    """Update the remaining amount of a mover to the present time."""
    moved = state.rate[mover] * (state.now[0] - state.since[mover])
    state.since[mover] = state.now[0]
    if moved <= 0.0:
        return
    state.left[mover] -= moved
    for row in range(movers.row_ptr[mover], movers.row_ptr[mover + 1]):
        for place in range(movers.link.shape[1]):
            link = movers.link[row, place]
            if link >= 0:
                state.gbit[link] += moved * movers.load[row]


@inlined
def expect_change(movers, state, mover):
    """Put the next change of the windows of those that the mover's bottleneck holds down on the agenda."""
    windows = state.windows
    link = state.limit[mover]
    thing = len(movers.group) + len(state.runs) + link
    if windows.row[mover] < 0 or link < 0 or state.capacity[link] <= 0.0:
        return
    # At multiples of a period, so that many links have them together.
    period = windows.law[TICK]
    at = (np.floor(state.now[0] / period + 0.5) + 1.0) * period
    if state.events.place[thing] < 0:
        windows.followed[link] = state.now[0]
        windows.begun[link] = state.now[0]
        put(state.events, thing, at)
    elif state.events.time[thing] > at:
        windows.begun[link] = state.now[0]
        put(state.events, thing, at)


@without_runtime
def _fill(movers, state):
    """Compute the rates of the movers that joined by progressive filling, with fixed rates of the others."""
    work = state.work
    for i in range(work.counts[LINKS_IN]):
        work.link_in[work.links[i]] = False
    work.counts[LINKS_IN] = 0
    for i in range(work.counts[MOVERS]):
        m = work.movers[i]
        state.rate[m] = -1.0
        for row in range(movers.row_ptr[m], movers.row_ptr[m + 1]):
            for place in range(movers.link.shape[1]):
                link = movers.link[row, place]
                if link >= 0 and not work.link_in[link]:
                    work.link_in[link] = True
                    work.links[work.counts[LINKS_IN]] = link
                    work.counts[LINKS_IN] += 1
    for i in range(work.counts[LINKS_IN]):
        link = work.links[i]
        room, slope, rising = state.capacity[link], 0.0, 0
        entry = state.head[link]
        while entry >= 0:
            row = entry >> entry_bits(movers)
            rate = state.rate[movers.row_mover[row]]
            if rate < 0.0:
                slope += movers.load[row]
                rising += 1
            else:
                room -= rate * movers.load[row]
            entry = state.after[entry]
        work.room[link], work.slope[link], work.rising[link] = room, slope, rising
        put(work.fullness, link, max(0.0, room) / slope)
    while work.fullness.size[0] > 0:
        full = work.fullness.order[0]
        rate = work.fullness.time[full]
        entry = state.head[full]
        while entry >= 0:
            m = movers.row_mover[entry >> entry_bits(movers)]
            entry = state.after[entry]
            if state.rate[m] >= 0.0:
                continue
            state.rate[m] = rate
            state.limit[m] = full
            for row in range(movers.row_ptr[m], movers.row_ptr[m + 1]):
                for place in range(movers.link.shape[1]):
                    link = movers.link[row, place]
                    if link < 0:
                        continue
                    work.room[link] -= rate * movers.load[row]
                    work.slope[link] -= movers.load[row]
                    work.rising[link] -= 1
                    if work.rising[link] == 0:
                        drop(work.fullness, link)
                    elif link != full:
                        # Rounding must not let a later link be full at a lower rate.
                        put(work.fullness, link, max(rate, max(0.0, work.room[link]) / work.slope[link]))
        drop(work.fullness, full)


@inlined
def _look(movers, state, link):
    """Add the movers that have lost their bottleneck on this link."""
    work = state.work
    load, fastest, slowest_held = 0.0, 0.0, np.inf
    entry = state.head[link]
    while entry >= 0:
        row = entry >> entry_bits(movers)
        m = movers.row_mover[row]
        load += state.rate[m] * movers.load[row]
        fastest = max(fastest, state.rate[m])
        if work.is_in[m] and state.limit[m] == link:
            slowest_held = min(slowest_held, state.rate[m])
        entry = state.after[entry]
    full = load >= state.capacity[link] * (1.0 - RATE_ROUNDING)
    too_much = load > state.capacity[link] * (1.0 + RATE_ROUNDING)
    entry = state.head[link]
    while entry >= 0:
        m = movers.row_mover[entry >> entry_bits(movers)]
        entry = state.after[entry]
        if work.is_in[m]:
            continue
        held_here = state.limit[m] == link
        if (
            too_much
            or (held_here and (not full or state.rate[m] < fastest * (1.0 - RATE_ROUNDING)))
            or state.rate[m] > slowest_held * (1.0 + RATE_ROUNDING)
        ):
            join(work, state, m)


@without_runtime
def rebalance(movers, state):
    """Recompute the rates of movers that joined, of those limited by a touched link, and of all that these affect."""
    work = state.work
    for i in range(work.counts[TOUCHED]):
        link = work.touched[i]
        entry = state.head[link]
        while entry >= 0:
            m = movers.row_mover[entry >> entry_bits(movers)]
            if state.limit[m] == link:
                join(work, state, m)
            entry = state.after[entry]
    while True:
        known = work.counts[MOVERS]
        _fill(movers, state)
        for i in range(work.counts[LINKS_IN]):
            _look(movers, state, work.links[i])
        for i in range(work.counts[TOUCHED]):
            if not work.link_in[work.touched[i]]:
                _look(movers, state, work.touched[i])
        if work.counts[MOVERS] == known:
            break
    for i in range(work.counts[MOVERS]):
        m = work.movers[i]
        work.is_in[m] = False
        rate = state.rate[m]
        if abs(rate - work.old_rate[m]) > LAST_BIT * rate or state.events.place[m] < 0:
            state.rate[m] = work.old_rate[m]
            settle(movers, state, m)
            state.rate[m] = rate
            if rate > 0.0:
                put(state.events, m, state.now[0] + max(0.0, state.left[m]) / rate)
            else:
                drop(state.events, m)
            if len(state.windows.row) > 0:
                expect_change(movers, state, m)
    for i in range(work.counts[TOUCHED]):
        work.is_touched[work.touched[i]] = False
    work.counts[MOVERS] = 0
    work.counts[TOUCHED] = 0
