"""Rounds: collectives whose flows are sent in turns, as if each round were a collective of a phase of its own.

Halving and doubling sends some of its flows in each of its rounds, and those of one round never meet those of another.
All together they may be even on every link while those of a round are not, so plans and paces take rounds for phases.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.traffic import Collective, Traffic
from controller.model.waits import FOR_COMPUTING

MOST_ROUNDS = 64
"""Most rounds of all jobs for which collectives are divided: a plan examines each on every link that it considers."""


def by_rounds(traffic: Traffic) -> Traffic:
    """Return the same flows with a collective for each round, in consecutive phases; itself if none has rounds.

    Collectives of one phase are divided only if all of them have equally many rounds, which are then sent together, and
    no collective of the job states what it waits for; and none if all jobs together have more than ``MOST_ROUNDS``.
    """
    rows = traffic.collectives
    if not any(row.rounds for row in rows):
        return traffic
    sent = np.bincount(traffic.collective, minlength=len(rows)) > 0
    many: dict[tuple[str, int], int] = {}
    for row, sends in zip(rows, sent.tolist(), strict=True):
        if sends:
            key, own = (row.job, row.phase), row.n_rounds
            many[key] = own if many.get(key, own) == own else 1
    ordered = {row.job for row in rows if row.waits != FOR_COMPUTING}
    many = {key: 1 if key[0] in ordered else own for key, own in many.items()}
    divided = {job for (job, _), own in many.items() if own > 1}
    if not divided or sum(own for own in many.values() if own > 1) > MOST_ROUNDS:
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
        made += [
            dataclasses.replace(moved, phase=moved.phase + r, in_turns=False, rounds=()) for r in range(row.n_rounds)
        ]
    return Traffic(traffic.src, traffic.dst, traffic.bytes, number, traffic.number, traffic.udp_src, tuple(made))


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
