"""The event loop of the simulator (compiled): movers end, groups run again or end, jobs' epochs end."""

from __future__ import annotations

import numpy as np

from controller.model.tolerances import SAME_VALUE
from controller.routing.kernels.without_runtime import inlined, without_runtime
from emulation.fluid.choosing import choose, leave
from emulation.fluid.heap import drop, put
from emulation.fluid.lanes import enqueue, free_lane, take_turns
from emulation.fluid.sharing import attach, detach, join, rebalance, settle, touch
from emulation.fluid.state import LOG
from emulation.fluid.windows import open_window, windows_changed


@without_runtime
def _send(movers, state, m):
    """Start a mover."""
    state.left[m] = movers.amount[m]
    state.begun[m] = state.since[m] = state.now[0]
    state.rate[m] = 0.0
    state.limit[m] = -1
    if len(state.windows.row) > 0:
        open_window(movers, state, m)
    choose(movers, state, m)
    attach(movers, state, m)
    join(state.work, state, m)


@inlined
def _start(program, movers, state, group):
    """Start a run of a group; whether it has ended as soon."""
    state.started[group] = state.now[0]
    first, last = movers.group_ptr[group], movers.group_ptr[group + 1]
    state.running[group] = last - first
    for m in range(first, last):
        if len(state.receipts.source) > 0:
            state.receipts.done[m] = 0
            state.receipts.busy[m] = True
        _send(movers, state, m)
    return first == last


@without_runtime
def _begin(program, movers, state, group):
    """All groups before it have ended; whether it has ended as soon."""
    state.runs[group] = 0
    if program.delay[group] > 0.0:
        if program.lane[group] >= 0:
            enqueue(program, state, group)
            return False
        put(state.events, len(movers.group) + group, state.now[0] + program.delay[group])
        return False
    return _start(program, movers, state, group)


@without_runtime
def _run_ended(program, movers, state, group):
    """End a run of a group: start its next run, or the groups that wait for it, and so on."""
    work = state.work
    work.queue[0] = group
    n = 1
    while n > 0:
        n -= 1
        g = work.queue[n]
        i = state.n_ended[0]
        state.n_ended[0] += 1
        state.ended_group[i], state.ended_run[i] = g, state.runs[g]
        state.group_began[i], state.group_ended[i] = state.started[g], state.now[0]
        state.runs[g] += 1
        if _goes_on_by_itself(movers, state, g):
            # Its next run is under way already.
            state.started[g] = state.now[0]
            if _slowest_ended(program, movers, state, g):
                work.queue[n] = g
                n += 1
            if state.runs[g] < program.repeat[g]:
                continue
        if movers.group_ptr[g] == movers.group_ptr[g + 1]:
            # Nothing to move: all its runs are over at once.
            state.runs[g] = program.repeat[g]
        if state.runs[g] < program.repeat[g]:
            _start(program, movers, state, g)
            continue
        state.waiting[g] = program.waits_for[g]
        state.groups_left[program.job[g]] -= 1
        for j in range(program.next_ptr[g], program.next_ptr[g + 1]):
            then = program.following[j]
            state.waiting[then] -= 1
            if state.waiting[then] == 0 and _begin(program, movers, state, then):
                work.queue[n] = then
                n += 1


@inlined
def _goes_on_by_itself(movers, state, g):
    """Return whether each host begins a run of a group when it has received the one before."""
    first = movers.group_ptr[g]
    return len(state.receipts.source) > 0 and first < movers.group_ptr[g + 1] and state.receipts.source[first] >= 0


@without_runtime
def _slowest_ended(program, movers, state, g):
    """Count the movers of a group that have not ended its present run; return whether there is such a run and none."""
    if state.runs[g] >= program.repeat[g]:
        return False
    state.running[g] = 0
    for m in range(movers.group_ptr[g], movers.group_ptr[g + 1]):
        if state.receipts.done[m] <= state.runs[g]:
            state.running[g] += 1
    return state.running[g] == 0


@without_runtime
def _may_begin(program, movers, state, mover):
    """Return whether a mover can begin its next run: its host has received the one before."""
    receipts = state.receipts
    run = receipts.done[mover]
    if receipts.busy[mover] or run >= program.repeat[movers.group[mover]]:
        return False
    member = receipts.source[mover]
    for i in range(receipts.in_ptr[member], receipts.in_ptr[member + 1]):
        if receipts.done[receipts.into[i]] < run:
            return False
    return True


@without_runtime
def _received(program, movers, state, m):
    """Let the hosts of a mover that has ended go on; end the run of its group if it was the last one."""
    receipts = state.receipts
    run = receipts.done[m]
    state.done_run[state.n_done[0] - 1] = run
    receipts.done[m] += 1
    receipts.busy[m] = False
    for side in range(2):
        member = receipts.sink[m] if side == 0 else receipts.source[m]
        for i in range(receipts.out_ptr[member], receipts.out_ptr[member + 1]):
            other = receipts.out[i]
            if _may_begin(program, movers, state, other):
                receipts.busy[other] = True
                _send(movers, state, other)
    g = np.int64(movers.group[m])
    if run == state.runs[g]:
        state.running[g] -= 1
        if state.running[g] == 0:
            _run_ended(program, movers, state, g)


@inlined
def _ended(program, movers, state, m):
    """End a mover that has sent everything."""
    settle(movers, state, m)
    state.left[m] = 0.0
    state.rate[m] = 0.0
    state.limit[m] = -1
    detach(movers, state, m)
    if len(state.windows.row) > 0:
        state.windows.active[movers.link[m, 0]] -= 1
    leave(movers, state, m)
    g = np.int64(movers.group[m])
    i = state.n_done[0]
    state.n_done[0] += 1
    state.done_mover[i], state.done_run[i] = m, state.runs[g]
    state.mover_began[i], state.mover_ended[i] = state.begun[m], state.now[0]
    if len(state.receipts.source) > 0 and state.receipts.source[m] >= 0:
        _received(program, movers, state, m)
        return
    state.running[g] -= 1
    if state.running[g] == 0:
        _run_ended(program, movers, state, g)


@without_runtime
def launch(program, movers, state, job):
    """Begin an epoch of a job now."""
    first, last = program.first_group[job], program.first_group[job + 1]
    state.groups_left[job] = last - first
    for g in range(first, last):
        if program.waits_for[g] == 0 and _begin(program, movers, state, g):
            _run_ended(program, movers, state, g)
    take_turns(program, state, len(movers.group))
    rebalance(movers, state)


@without_runtime
def run(program, movers, state, until):
    """Let time pass until then, or until the epoch of some job has ended, or a log is full.

    Returns:
        whether ``until`` was reached.
    """
    n_movers, n_groups = len(movers.group), len(state.runs)
    events = state.events
    while True:
        if events.size[0] == 0 or events.time[events.order[0]] > until:
            if until < np.inf:
                state.now[0] = until
            return True
        state.now[0] = max(state.now[0], events.time[events.order[0]])
        last = state.now[0] * (1.0 + SAME_VALUE)  # rounding must not make two events of one
        while events.size[0] > 0 and events.time[events.order[0]] <= last:
            thing = events.order[0]
            drop(events, thing)
            if thing < n_movers:
                _ended(program, movers, state, thing)
            elif thing >= n_movers + n_groups:
                windows_changed(movers, state, thing - n_movers - n_groups)
            else:
                free_lane(program, state, thing - n_movers)
                if _start(program, movers, state, thing - n_movers):
                    _run_ended(program, movers, state, thing - n_movers)
        take_turns(program, state, n_movers)
        rebalance(movers, state)
        for job in range(len(state.groups_left)):
            if state.groups_left[job] == 0:
                return False
        if state.n_ended[0] >= LOG or state.n_done[0] >= LOG:
            return False


@without_runtime
def set_capacity(movers, state, capacity):
    """Links have other capacities from now on."""
    for link in range(len(capacity)):
        if capacity[link] != state.capacity[link]:
            state.capacity[link] = capacity[link]
            touch(state.work, link)
    rebalance(movers, state)


@without_runtime
def settle_all(movers, state):
    """Reckon everything up to now."""
    for m in range(len(movers.group)):
        if state.limit[m] >= 0:
            settle(movers, state, m)


@without_runtime
def resume(movers, state, moving):
    """Put movers on their links that are under way already (``moving`` [M]), with ``left`` as it is, and share anew."""
    for m in range(len(moving)):
        if moving[m]:
            state.since[m] = state.now[0]
            if len(state.windows.row) > 0:
                state.windows.active[movers.link[m, 0]] += 1
            attach(movers, state, m)
            join(state.work, state, m)
    rebalance(movers, state)


@without_runtime
def rechoose(movers, state, ways):
    """Update the live links (``ways``); movers on a dead path choose again."""
    for cable in range(len(ways.up)):
        state.choice.ways.up[cable] = ways.up[cable]
        state.choice.ways.down[cable] = ways.down[cable]
    for m in range(len(movers.group)):
        if state.limit[m] < 0:
            continue
        dead = False
        for row in range(movers.row_ptr[m], movers.row_ptr[m + 1]):
            for place in range(1, movers.link.shape[1] - 1):
                link = movers.link[row, place]
                dead = dead or (link >= 0 and state.capacity[link] == 0.0)
        if dead:
            settle(movers, state, m)
            detach(movers, state, m)
            leave(movers, state, m)
            choose(movers, state, m)
            attach(movers, state, m)
            join(state.work, state, m)
    rebalance(movers, state)
