"""Windows of hosts that keep no pace: what a connection has in flight decides its share of a link, and its rate alone.

A connection sends its window in a round trip. On a link that is full, rates are in the proportions of windows. While a
host or its own window holds a connection down, nothing marks its packets, and its window grows by a packet in each
round trip. On a full link between switches or to a receiver, windows shrink until the queue is as long as marks allow,
and approach each other as congestion control does it: a packet more for each window, and the same part less. So a flow
that was alone takes most of a link from one that comes, for a while, and one that is left alone cannot fill the link
for a while. (Compiled.)
"""

from __future__ import annotations

import numpy as np

from controller.routing.kernels.without_runtime import inlined, without_runtime
from emulation.fluid.heap import put
from emulation.fluid.sharing import TICK, entry_bits, join, settle, touch

PACKET, MOST, QUEUE, PULL, SPREAD, LONGER, MEMORY, IDLE, ROOM, CUTS, LUCK = range(1, 12)
"""Of the law of windows, see ``HostSharing.law``."""


@inlined
def open_window(movers, state, mover):
    """Give a mover that starts the window that its connection had last."""
    windows = state.windows
    if windows.row[mover] >= 0:
        gbit = windows.gbit[windows.row[mover]]
        _send_by(movers, state, mover, gbit)
    windows.active[movers.link[mover, 0]] += 1
    state.left[mover] = movers.amount[mover] / movers.load[mover]


@inlined
def _send_by(movers, state, mover, gbit):
    """Let a mover have a share of links by its window, and at most the rate that it has by it on an empty path."""
    windows = state.windows
    own = windows.first_own[0] + mover
    windows.gbit[windows.row[mover]] = gbit
    movers.load[mover] = windows.share[mover] * gbit
    state.capacity[own] = gbit / windows.round_trip[mover]


@without_runtime
def _change(movers, state, mover, gbit):
    """Give a mover that is under way another window."""
    settle(movers, state, mover)
    before = movers.load[mover]
    _send_by(movers, state, mover, gbit)
    state.left[mover] *= before / movers.load[mover]
    for place in range(movers.link.shape[1]):
        link = movers.link[mover, place]
        if link >= 0:
            touch(state.work, link)
    join(state.work, state, mover)
    # Its rate has another unit now.
    state.rate[mover] = 0.0
    state.work.old_rate[mover] = 0.0


@without_runtime
def windows_changed(movers, state, link):
    """Let the windows of the movers that a link holds down be what they have become since they were last looked at."""
    windows, law, now = state.windows, state.windows.law, state.now[0]
    if state.capacity[link] <= 0.0:
        return
    passed = now - windows.followed[link]
    windows.followed[link] = now
    bits = entry_bits(movers)
    n, shares, rate = 0, 0.0, 0.0
    entry = state.head[link]
    while entry >= 0:
        m = movers.row_mover[entry >> bits]
        entry = state.after[entry]
        if state.limit[m] == link and windows.row[m] >= 0:
            n += 1
            shares += windows.share[m]
            rate += state.rate[m] * movers.load[m]
    mean = rate / shares if shares > 0.0 else 0.0
    is_unmarked = link < windows.n_hosts[0] or link >= windows.first_own[0]
    goes_on = n > 1 and not is_unmarked
    entry = state.head[link]
    while entry >= 0 and mean > 0.0:
        m = movers.row_mover[entry >> bits]
        entry = state.after[entry]
        if state.limit[m] != link or windows.row[m] < 0:
            continue
        before = windows.gbit[windows.row[m]]
        if is_unmarked:
            gbit = _grown(windows, m, before, mean, n, passed)
        else:
            gbit = _marked(movers, state, m, before, mean, n, passed)
        if gbit != before:
            _change(movers, state, m, gbit)
            goes_on = True
    if goes_on:
        later = law[TICK] if is_unmarked else max(law[TICK], law[LONGER] * (now - windows.begun[link]))
        put(state.events, len(movers.group) + len(state.runs) + link, now + later)


@inlined
def _grown(windows, mover, before, mean, n, passed):
    """Return the window of a mover none of whose packets was marked: a packet more in each round trip."""
    law, connection, cycle = windows.law, windows.row[mover], windows.round_trip[mover]
    windows.alpha[connection] *= np.exp(-passed / (law[MEMORY] * cycle))
    # Hosts send packets of their connections in turn, and windows that they do not use do not matter.
    most = law[MOST] if n == 1 else min(law[MOST], law[IDLE] * mean * cycle)
    return min(most, before + law[PACKET] * passed / cycle)


@inlined
def _marked(movers, state, mover, before, mean, n, passed):
    """Return the window of a mover on a full link, on which ``n`` have ``mean`` Gbit/s."""
    windows, law = state.windows, state.windows.law
    connection, capacity = windows.row[mover], state.capacity[state.limit[mover]]
    cycle = windows.round_trip[mover] + law[QUEUE] / capacity
    even = mean * cycle
    own = state.rate[mover] * movers.load[mover] / windows.share[mover]
    # A host sends packets of its connections in turn, so that no more of a window is used.
    host = movers.link[mover, 0]
    turn = state.capacity[host] / max(1, windows.active[host])
    gbit = even
    if n > 1:
        # Each window gets a packet, and loses the part that keeps their sum.
        pull = law[PULL] * law[PACKET] / (even + law[PACKET]) * passed / cycle
        kept = np.exp(-pull)
        gbit *= max(own / mean, 0.02) ** kept
        if own < 0.9 * turn:
            # What comes and goes while windows are not looked at has no effect in the mean.
            part = (1.0 - kept * kept) * min(1.0, 2.0 / max(pull, 2.0))
            gbit *= np.exp(law[SPREAD] * np.sqrt(part) * _normal(windows.draws, connection))
    waited = min(before, turn * cycle) / own if own > 0.0 else 0.0
    if waited > 1.1 * cycle:
        # Too much in flight: windows are cut until it shows, and whose packets had no room is luck.
        gbit *= (1.0 - 0.5 * windows.alpha[connection]) ** law[CUTS]
        lost = 1.0 - (windows.round_trip[mover] + law[ROOM] / capacity) / waited
        if lost > 0.0:
            gbit *= np.exp(law[LUCK] * lost * _normal(windows.draws, connection))
    marked = 2.0 * law[PACKET] / (even + law[PACKET])
    windows.alpha[connection] += (min(1.0, marked) - windows.alpha[connection]) * (
        1.0 - np.exp(-passed / (law[MEMORY] * cycle))
    )
    return max(min(gbit, law[MOST]), min(law[PACKET], even))


@inlined
def _normal(draws, row):
    """Draw from the normal distribution (Box and Muller), by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    return np.sqrt(-2.0 * np.log(_uniform(draws, row))) * np.cos(2.0 * np.pi * _uniform(draws, row))


@inlined
def _uniform(draws, row):
    draws[row] += np.uint64(0x9E3779B97F4A7C15)
    x = draws[row]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (np.float64(x >> np.uint64(11)) + 0.5) * 2.0**-53
