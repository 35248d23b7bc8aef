"""Lanes: groups that compute on one processor do so one after the other (compiled).

The group that was ready first goes first; of several that became ready together, the one with the lowest number.
"""

from __future__ import annotations

from controller.routing.kernels.without_runtime import inlined, without_runtime
from emulation.fluid.heap import put


@without_runtime
def enqueue(program, state, group):
    """Add a group that is ready to begin to its lane."""
    lane = program.lane[group]
    state.lane_ready[group] = state.now[0]
    tail = state.lane_tail[lane]
    if tail < 0 or _is_before(state, tail, group):
        state.lane_next[group] = -1
        state.lane_tail[lane] = group
        if tail < 0:
            state.lane_head[lane] = group
        else:
            state.lane_next[tail] = group
    else:
        other, last = state.lane_head[lane], -1
        while _is_before(state, other, group):
            last, other = other, state.lane_next[other]
        state.lane_next[group] = other
        if last < 0:
            state.lane_head[lane] = group
        else:
            state.lane_next[last] = group
    _look_at(state, lane)


@without_runtime
def free_lane(program, state, group):
    """Release the lane of a group whose delay has ended."""
    lane = program.lane[group]
    if lane >= 0:
        state.lane_busy[lane] = 0
        _look_at(state, lane)


@without_runtime
def take_turns(program, state, n_movers):
    """Let the next group begin on each lane that is free, when all that happens at this moment has happened."""
    work = state.work
    for i in range(work.n_lanes[0]):
        lane = work.lanes[i]
        work.lane_in[lane] = False
        group = state.lane_head[lane]
        if state.lane_busy[lane] == 0 and group >= 0:
            state.lane_head[lane] = state.lane_next[group]
            if state.lane_head[lane] < 0:
                state.lane_tail[lane] = -1
            state.lane_busy[lane] = 1
            put(state.events, n_movers + group, state.now[0] + program.delay[group])
    work.n_lanes[0] = 0


@inlined
def _is_before(state, group, other):
    if state.lane_ready[group] != state.lane_ready[other]:
        return state.lane_ready[group] < state.lane_ready[other]
    return group < other


@inlined
def _look_at(state, lane):
    work = state.work
    if not work.lane_in[lane]:
        work.lane_in[lane] = True
        work.lanes[work.n_lanes[0]] = lane
        work.n_lanes[0] += 1
