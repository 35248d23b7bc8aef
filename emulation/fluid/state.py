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
from numpy.typing import NDArray

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
        events: movers that end, then groups that begin (number M + group), then windows that change (M + G + link).
        ended_group, ended_run, group_began, group_ended: log of runs; [1] ``n_ended`` entries.
        done_mover, done_run, mover_began, mover_ended: log of movers; [1] ``n_done`` entries.
        choice: what transfers choose their paths by where no plan fixes them.
        windows: of connections, where hosts keep no pace; else empty.
        receipts: of hosts that go on by themselves; else empty.
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
    windows: Windows
    receipts: Receipts
    work: Work


class Windows(NamedTuple):
    """What connections have in flight (emulation/fluid/windows.py). Empty: movers share links by their loads.

    Attributes:
        row: [M] the connection of each mover; -1: it shares no link, and has no window.
        gbit: [C] in flight of each connection.
        share: [M] weight of a mover by its class of priority.
        round_trip: [M] seconds with empty queues.
        followed: [E] when the windows of movers that each link holds down were changed last.
        begun: [E] since when the same movers share it.
        active: [H] movers that each host sends now.
        alpha: [C] part of marked packets that each connection reckons with.
        draws: [C] state of the random numbers of each connection.
        first_own: [1] number of the first link of a mover.
        n_hosts: [1] the first links are those on which hosts send.
        law: [12] of windows (``HostSharing.law``).
    """

    row: Int64Array
    gbit: FloatArray
    share: FloatArray
    round_trip: FloatArray
    followed: FloatArray
    begun: FloatArray
    active: Int64Array
    alpha: FloatArray
    draws: NDArray[np.uint64]
    first_own: Int64Array
    n_hosts: Int64Array
    law: FloatArray


class Receipts(NamedTuple):
    """Groups that run several times, in which each host begins a run when it has received the last one (receipts.py).

    Empty: a run begins when the one before has ended at all hosts.

    Attributes:
        source, sink: [M] the member, a host in a group, that sends and that receives; -1: the group runs as a whole.
        out_ptr [N+1], out [M]: what each member sends.
        in_ptr [N+1], into [M]: what it waits for: what it receives, or what it sends if it receives nothing.
        done: [M] runs that each mover has ended.
        busy: [M] whether it is under way.
    """

    source: Int64Array
    sink: Int64Array
    out_ptr: Int64Array
    out: Int64Array
    in_ptr: Int64Array
    into: Int64Array
    done: Int64Array
    busy: Any


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


def no_windows() -> Windows:
    """Return the data with which movers share links by their loads."""
    count, value = np.zeros(0, dtype=np.int64), np.zeros(0)
    draws = np.zeros(0, dtype=np.uint64)
    return Windows(count, value, value, value, value, value, count, value, draws, count, count, value)


def no_receipts() -> Receipts:
    """Return the data with which groups run as a whole."""
    none = np.zeros(0, dtype=np.int64)
    return Receipts(none, none, none, none, none, none, none, np.zeros(0, dtype=np.bool_))


LOG = 1 << 16
"""Entries of each log before the engine comes back to have them fetched."""


def initial_state(
    program: Program,
    movers: Movers,
    capacity: FloatArray,
    now: float = 0.0,
    choice: Choice | None = None,
    windows: Windows | None = None,
    receipts: Receipts | None = None,
) -> State:
    """Everything at rest."""
    n_movers, n_links, n_groups = len(movers.group), len(capacity), len(program.job)
    n_jobs = len(program.first_group) - 1
    n_lanes = int(program.lane.max(initial=-1)) + 1
    longest = int(np.diff(movers.group_ptr).max(initial=0))
    windows, receipts = windows or no_windows(), receipts or no_receipts()
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
        events=empty_heap(n_movers + n_groups + (n_links if len(windows.row) else 0)),
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
        windows=windows,
        receipts=receipts,
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
