"""Data structures of the compiled engine: programs, movers, and the state at a moment.

A *program* is a graph of groups. A group is a set of transfers that start together and are waited for together: one
step of a ring, an all-to-all, an edge of a tree. Its *transfers* start when all groups before it have ended; when the
last transfer has ended, the group runs again (the steps of a ring are alike) or ends.

A *mover* is the unit that gets a rate: a piece of a transfer, or a transfer with all its pieces (paced), or a whole
group (rates as in the objective). It has rows, one for each path, with the load that they put on links for each unit
of its rate; all movers share links max-min fairly in that unit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array
from emulation.fluid.adaptive import Choice, no_choice
from emulation.fluid.heap import Heap, empty_heap

NO_LINK = -1


class Program(NamedTuple):
    """G groups of J jobs (arrays, because compiled code reads them).

    Attributes:
        job: [G].
        repeat: [G] how often a group runs.
        delay: [G] seconds between the end of the groups before it and its first run.
        next_ptr [G+1], following [N]: groups that wait for this one.
        waits_for: [G] for how many.
        first_group: [J+1] groups of a job are adjacent.
        lane: [G] groups with one lane have their delays one after the other, in the order in which they could begin;
            -1: a group waits for no lane.
    """

    job: IntArray
    repeat: Int64Array
    delay: FloatArray
    next_ptr: Int64Array
    following: Int64Array
    waits_for: Int64Array
    first_group: Int64Array
    lane: IntArray


class Movers(NamedTuple):
    """M movers in order of their groups, and their R rows in order of the movers.

    Attributes:
        group: [M].
        owner: [M] the transfer that it is a piece of, or the group where groups move as one.
        group_ptr: [G+1].
        amount: [M] rate times seconds that one run takes.
        row_ptr: [M+1].
        link: [R, 2T+2] of T tiers of cables: host, up, down, host; ``NO_LINK`` where a row has fewer.
        load: [R] Gbit/s on each of its links at rate 1.
        row_mover: [R].
    """

    group: IntArray
    owner: IntArray
    group_ptr: Int64Array
    amount: FloatArray
    row_ptr: Int64Array
    link: IntArray
    load: FloatArray
    row_mover: IntArray


class State(NamedTuple):
    """The state of the engine at a moment.

    Attributes:
        now: [1] seconds.
        capacity: [E] Gbit/s.
        gbit: [E] carried so far by each link.
        rate, left, since: [M] of each mover, what it still has to move, and when that was reckoned.
        begun: [M] when it started.
        limit: [M] the link that holds it down, ``NO_LINK`` while it rests.
        head: [E] first entry on each link; entry ``S * row + place``, S being 4 for rows of four links, else 8.
        after, before: [S R] neighbours of an entry on its link.
        running: [G] movers of the group that are under way.
        runs: [G] runs that have ended.
        waiting: [G] groups that it still waits for.
        started: [G] when the present run began.
        groups_left: [J] of the job's present epoch; -1 while the job rests.
        lane_head, lane_tail: [L] first and last group that waits for a lane, -1: none.
        lane_next, lane_ready: [G] the next one behind it, and since when it waits.
        lane_busy: [L] whether a group has its delay there.
        events: movers that end, then groups that begin (number M + group).
        ended_group, ended_run, group_began, group_ended: log of runs; [1] ``n_ended`` entries.
        done_mover, done_run, mover_began, mover_ended: log of movers; [1] ``n_done`` entries.
        choice: what transfers choose their paths by where no plan fixes them.
    """

    now: FloatArray
    capacity: FloatArray
    gbit: FloatArray
    rate: FloatArray
    left: FloatArray
    since: FloatArray
    begun: FloatArray
    limit: IntArray
    head: Int64Array
    after: Int64Array
    before: Int64Array
    running: Int64Array
    runs: Int64Array
    waiting: Int64Array
    started: FloatArray
    groups_left: Int64Array
    lane_head: Int64Array
    lane_tail: Int64Array
    lane_next: Int64Array
    lane_ready: FloatArray
    lane_busy: Int64Array
    events: Heap
    ended_group: IntArray
    ended_run: Int64Array
    group_began: FloatArray
    group_ended: FloatArray
    n_ended: Int64Array
    done_mover: IntArray
    done_run: Int64Array
    mover_began: FloatArray
    mover_ended: FloatArray
    n_done: Int64Array
    choice: Choice
    work: Work


class Work(NamedTuple):
    """Scratch of the engine, between calls without meaning."""

    movers: Int64Array
    is_in: Any
    old_rate: FloatArray
    links: Int64Array
    link_in: Any
    touched: Int64Array
    is_touched: Any
    room: FloatArray
    slope: FloatArray
    rising: Int64Array
    fullness: Heap
    queue: Int64Array
    counts: Int64Array
    lanes: Int64Array
    lane_in: Any
    n_lanes: Int64Array


LOG = 1 << 16
"""Entries of each log before the engine comes back to have them fetched."""


def initial_state(
    program: Program, movers: Movers, capacity: FloatArray, now: float = 0.0, choice: Choice | None = None
) -> State:
    """Everything at rest."""
    n_movers, n_links, n_groups = len(movers.group), len(capacity), len(program.job)
    n_jobs = len(program.first_group) - 1
    n_lanes = int(program.lane.max(initial=-1)) + 1
    longest = int(np.diff(movers.group_ptr).max(initial=0))
    n_entries = (4 if movers.link.shape[1] <= 4 else 8) * len(movers.load)
    log = LOG + longest + n_groups

    def none(n: int) -> Int64Array:
        return np.full(n, -1, dtype=np.int64)

    return State(
        now=np.array([now]),
        capacity=capacity.astype(np.float64),
        gbit=np.zeros(n_links),
        rate=np.zeros(n_movers),
        left=np.zeros(n_movers),
        since=np.full(n_movers, now),
        begun=np.full(n_movers, now),
        limit=np.full(n_movers, NO_LINK, dtype=np.int32),
        head=none(n_links),
        after=none(n_entries),
        before=none(n_entries),
        running=np.zeros(n_groups, dtype=np.int64),
        runs=np.zeros(n_groups, dtype=np.int64),
        waiting=program.waits_for.copy(),
        started=np.full(n_groups, now),
        groups_left=none(n_jobs),
        lane_head=none(n_lanes),
        lane_tail=none(n_lanes),
        lane_next=none(n_groups),
        lane_ready=np.zeros(n_groups),
        lane_busy=np.zeros(n_lanes, dtype=np.int64),
        events=empty_heap(n_movers + n_groups),
        ended_group=np.zeros(log, dtype=np.int32),
        ended_run=np.zeros(log, dtype=np.int64),
        group_began=np.zeros(log),
        group_ended=np.zeros(log),
        n_ended=np.zeros(1, dtype=np.int64),
        done_mover=np.zeros(log + n_movers, dtype=np.int32),
        done_run=np.zeros(log + n_movers, dtype=np.int64),
        mover_began=np.zeros(log + n_movers),
        mover_ended=np.zeros(log + n_movers),
        n_done=np.zeros(1, dtype=np.int64),
        choice=choice or no_choice(),
        work=Work(
            movers=none(n_movers),
            is_in=np.zeros(n_movers, dtype=np.bool_),
            old_rate=np.zeros(n_movers),
            links=none(n_links),
            link_in=np.zeros(n_links, dtype=np.bool_),
            touched=none(n_links),
            is_touched=np.zeros(n_links, dtype=np.bool_),
            room=np.zeros(n_links),
            slope=np.zeros(n_links),
            rising=np.zeros(n_links, dtype=np.int64),
            fullness=empty_heap(n_links),
            queue=none(n_groups),
            counts=np.zeros(3, dtype=np.int64),
            lanes=none(n_lanes),
            lane_in=np.zeros(n_lanes, dtype=np.bool_),
            n_lanes=np.zeros(1, dtype=np.int64),
        ),
    )
