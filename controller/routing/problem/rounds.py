"""Rounds: collectives whose flows are sent in turns, as if each round were a collective of a phase of its own.

Halving and doubling sends some of its flows in each of its rounds, and those of one round never meet those of another.
All together they may be even on every link while those of a round are not, so plans and paces take rounds for phases,
and so do reports: a collective takes the sum of its rounds (``as_sent``, then ``summed``).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.model.waits import FOR_COMPUTING

MOST_ROUNDS = 64
"""Most rounds of all jobs for which collectives are divided: a plan examines each on every link that it considers."""

MOST_STEPS = 64
"""Most steps of a round that are told apart: ranks that share a host may seem to send in circles."""


def by_rounds(traffic: Traffic, *, most: float = MOST_ROUNDS, forwarding: bool = True) -> Traffic:
    """Return the same flows with a collective for each round, in consecutive phases; itself if none has rounds.

    Collectives of one phase are divided only if all of them have rounds and no collective of the job states what it
    waits for. Rounds of equal numbers are then sent together; who has fewer than others sends nothing in the last ones.

    Args:
        traffic: the flows.
        most: none is divided if all jobs together have more rounds.
        forwarding: divide also collectives whose hosts pass data on piece by piece, so that rounds overlap.
    """
    rows = traffic.collectives
    if not any(row.rounds for row in rows):
        return traffic
    sent = np.bincount(traffic.collective, minlength=len(rows)) > 0
    many: dict[tuple[str, int], int] = {}
    for row, sends in zip(rows, sent.tolist(), strict=True):
        if sends:
            key, own = (row.job, row.phase), row.n_rounds if forwarding or not row.forwards else 1
            many[key] = 1 if 1 in (own, many.get(key, own)) else max(own, many.get(key, own))
    ordered = {row.job for row in rows if row.waits != FOR_COMPUTING}
    many = {key: 1 if key[0] in ordered else own for key, own in many.items()}
    divided = {job for (job, _), own in many.items() if own > 1}
    if not divided or sum(own for own in many.values() if own > 1) > most:
        return traffic
    phase_of = {job: _first_phases(job, rows, many) for job in divided}
    made: list[Collective] = []
    number = np.zeros(traffic.n_flows, dtype=np.int32)
    order, ptr = traffic.by_collective
    for k, row in enumerate(rows):
        flows = order[ptr[k] : ptr[k + 1]]
        number[flows] = len(made)
        if row.job not in divided:
            made.append(row)
            continue
        phases = phase_of[row.job]
        timing = row.timing
        if timing is not None and timing.compute:
            compute = tuple((phases[phase], seconds) for phase, seconds in timing.compute)
            timing = dataclasses.replace(timing, compute=compute)
        moved = dataclasses.replace(row, phase=phases[row.phase], timing=timing)
        if many.get((row.job, row.phase), 1) == 1:
            made.append(moved)
            continue
        number[flows] += row.round_of(traffic.number[flows])
        # Of trees it stays known which flows are in the same one.
        parts = tuple((connections, 0) for connections, _ in row.rounds) if row.forwards else ()
        made += [
            dataclasses.replace(moved, phase=moved.phase + r, in_turns=False, rounds=parts) for r in range(row.n_rounds)
        ]
    return Traffic(traffic.src, traffic.dst, traffic.bytes, number, traffic.number, traffic.udp_src, tuple(made))


def as_sent(traffic: Traffic) -> Traffic:
    """Return the flows by rounds as reports count them: of any number of jobs, but none whose rounds overlap.

    Where hosts pass data on piece by piece, all flows of a tree are soon sent at once.
    """
    return by_rounds(traffic, most=math.inf, forwarding=False)


def summed(traffic: Traffic, parts: Traffic, seconds: FloatArray) -> FloatArray:
    """Return the sums [K] of seconds [P] of all rounds; NaN where one has none, or where nothing is sent.

    Args:
        traffic: the flows.
        parts: the same by rounds.
        seconds: of the collectives of ``parts``.
    """
    if len(parts.collectives) == len(traffic.collectives):
        return seconds
    whole = _whole_of(traffic, parts)
    sent = whole >= 0
    total = np.bincount(whole[sent], weights=seconds[sent], minlength=len(traffic.collectives)).astype(np.float64)
    total[np.bincount(traffic.collective, minlength=len(total)) == 0] = np.nan
    return total


def phases_of_rounds(traffic: Traffic, parts: Traffic) -> dict[tuple[str, int], int]:
    """Return the phase of each (job, phase) of the flows by rounds, as far as something is sent in it."""
    rows = traffic.collectives
    whole = _whole_of(traffic, parts).tolist()
    return {(part.job, part.phase): rows[k].phase for part, k in zip(parts.collectives, whole, strict=True) if k >= 0}


def _whole_of(traffic: Traffic, parts: Traffic) -> IntArray:
    """Return the collective [P] of which each one of ``parts`` is a round; -1 where that has no flows."""
    whole = np.full(len(parts.collectives), -1, dtype=np.int32)
    whole[parts.collective] = traffic.collective
    return whole


def steps_of_rounds(traffic: Traffic) -> IntArray:
    """Return the step [F] of its round in which each flow of a tree sends first, 0 for all others.

    A host sends up when it has heard its children, and down when it has heard its parent.

    Args:
        traffic: by rounds.
    """
    step: IntArray = np.zeros(traffic.n_flows, dtype=np.int32)
    trees, part = parts_of_rounds(traffic)
    if not trees.any():
        return step
    hosts = 1 + int(max(traffic.src.max(), traffic.dst.max()))
    sender, receiver = (part[trees] * hosts + host[trees] for host in (traffic.src, traffic.dst))
    own = step[trees]
    for _ in range(MOST_STEPS):
        heard = np.zeros(int(part.max() + 1) * hosts, dtype=np.int32)
        np.maximum.at(heard, receiver, own + 1)
        if np.array_equal(heard[sender], own):
            break
        own = heard[sender]
    step[trees] = own
    return step


def parts_of_rounds(traffic: Traffic) -> tuple[BoolArray, Int64Array]:
    """Return which flows [F] are of trees in rounds, and numbers [F], equal for those of one tree in one direction.

    Args:
        traffic: by rounds.
    """
    part = traffic.collective.astype(np.int64)
    known = np.array([bool(row.forwards and row.rounds) for row in traffic.collectives], dtype=np.bool_)
    trees: BoolArray = known[traffic.collective]
    if known.any():
        part *= 1 + max(len(row.rounds) for row in traffic.collectives)
        order, ptr = traffic.by_collective
        for k in np.flatnonzero(known).tolist():
            flows = order[ptr[k] : ptr[k + 1]]
            part[flows] += traffic.collectives[k].part_of(traffic.number[flows])
    return trees, part


def _first_phases(job: str, rows: tuple[Collective, ...], many: dict[tuple[str, int], int]) -> dict[int, int]:
    """Return the new number of each phase of a job, or that of its first round."""
    own = [row for row in rows if row.job == job]
    phases = {row.phase for row in own}
    phases |= {phase for row in own if row.timing is not None for phase, _ in row.timing.compute}
    first, after = {}, 0
    for phase in sorted(phases):
        first[phase] = after
        after += many.get((job, phase), 1)
    return first
