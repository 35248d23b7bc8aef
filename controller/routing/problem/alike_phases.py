"""Phases of a job that load the network alike, so that one plan of paths serves all of them.

A reduce-scatter and the all-gather after it (sharded training) send over the same edges, in proportion. If each has
paths of its own, another job meets sometimes the one and sometimes the other, and only combinations that both are even
in are good. With the paths of one of them for both, each combination of phases is like that of the first ones, which
is among those of any plan: so no level is lower than it was, and rates do not change from phase to phase.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.assignment import Assignment
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.model.waits import FOR_COMPUTING


def first_alike(traffic: Traffic) -> Int64Array | None:
    """Return [F] the flow of the job's first like phase that stands for each flow; ``None`` if each is its own.

    Phases are alike if they have the same senders and receivers, collective by collective, with bytes in proportion.
    Jobs that compute are left as they are: there it matters which phases meet.
    """
    rows, phase = traffic.collectives, traffic.phase
    if not len(phase) or (phase == phase[0]).all():
        return None
    first = np.arange(traffic.n_flows, dtype=np.int64)
    many = np.bincount(traffic.unit)[traffic.unit]
    order, ptr = traffic.by_collective
    of_job: dict[str, list[int]] = {}
    for k, row in enumerate(rows):
        if ptr[k] < ptr[k + 1]:
            of_job.setdefault(row.job, []).append(k)
    for own in of_job.values():
        phases = {rows[k].phase for k in own}
        if len(phases) == 1 or not all(_is_plain(rows[k]) for k in own):
            continue
        flows = {number: np.concatenate([order[ptr[k] : ptr[k + 1]] for k in own if rows[k].phase == number])
                 for number in sorted(phases)}  # fmt: skip
        # A flow that switches cannot tell from another one has the path of that one.
        if any((many[each] > 1).any() for each in flows.values()):
            continue
        known: dict[tuple[bytes, bytes], list[Int64Array]] = {}
        for each in flows.values():
            each = each[np.lexsort((traffic.number[each], traffic.dst[each], traffic.src[each]))]
            like = known.setdefault((traffic.src[each].tobytes(), traffic.dst[each].tobytes()), [])
            same = next((other for other in like if _are_alike(traffic, other, each)), None)
            if same is None:
                like.append(each)
            else:
                first[each] = same
    return first if (first != np.arange(traffic.n_flows)).any() else None


def for_all(first: Int64Array, kept: Int64Array, part: Assignment) -> Assignment:
    """Return the assignment in which each flow has the paths of the flow that stands for it.

    Args:
        first: [F] of ``first_alike``.
        kept: the flows that stand for themselves, ascending.
        part: their paths.
    """
    begin = np.searchsorted(part.flow, np.arange(len(kept) + 1))
    of = np.searchsorted(kept, first)
    count = (begin[1:] - begin[:-1])[of]
    flow = np.repeat(np.arange(len(first)), count)
    row = np.repeat(begin[of] - np.cumsum(count) + count, count) + np.arange(len(flow))
    return Assignment(flow.astype(np.int32), part.path[row], part.share[row])


def kept_rows(first: Int64Array, assignment: Assignment) -> Int64Array | None:
    """Return [R] the row that stands for each row of an assignment; ``None`` if alike flows have other paths."""
    n_flows = len(first)
    begin = np.searchsorted(assignment.flow, np.arange(n_flows + 1))
    count = np.diff(begin)
    if (count != count[first]).any():
        return None
    flow = assignment.flow
    row: Int64Array = begin[first[flow]] + np.arange(assignment.n_rows) - begin[flow]
    path, share = assignment.path, assignment.share
    same = (path[row] == path).all() and np.allclose(share[row], share, rtol=TOLERANCE, atol=0)
    return row if same else None


def _is_plain(row: Collective) -> bool:
    """Return whether a collective sends all of its flows at once, as soon as the phase before has ended."""
    return row.timing is None and not row.in_turns and not row.rounds and row.waits == FOR_COMPUTING


def _are_alike(traffic: Traffic, one: Int64Array, other: Int64Array) -> bool:
    """Return whether flows [N] of two phases, with the same senders and receivers, differ in bytes by a factor."""
    pairs = np.unique(np.stack([traffic.collective[one], traffic.collective[other]]), axis=1).T.tolist()
    if len({a for a, _ in pairs}) < len(pairs) or len({b for _, b in pairs}) < len(pairs):
        return False
    rows = traffic.collectives
    if any(_kind(rows[a]) != _kind(rows[b]) for a, b in pairs):
        return False
    # Protocols are in front of ports; splitting depends on them.
    if (traffic.udp_src[one] // (MAX_PORT + 1) != traffic.udp_src[other] // (MAX_PORT + 1)).any():
        return False
    size, size_other = traffic.bytes[one].astype(np.float64), traffic.bytes[other].astype(np.float64)
    expected = size * (size_other.sum() / size.sum())
    # Bytes of flows are rounded up.
    return bool((np.abs(size_other - expected) <= 1 + TOLERANCE * size_other).all())


def _kind(row: Collective) -> Collective:
    return dataclasses.replace(row, name="", phase=0)
