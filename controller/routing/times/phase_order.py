"""The order of stages within phases, where some job states overlap: docs/explanation/objective.md, "Overlap"."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np

from controller.model.fabric import BoolArray, Fabric, FloatArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.model.waits import FOR_COMPUTING, waits_among
from controller.routing.problem.demand import Demand


@dataclass(frozen=True, eq=False)
class PhaseOrder:
    """P phases of J jobs, and what the S stages in them wait for; a stage waits for earlier ones of its phase only.

    Attributes:
        first: [J+1] where each job's phases begin.
        compute: [P] seconds of computing.
        alone: [P] seconds that the phase takes at least, without other jobs.
        stage_first: [P+1] where each phase's stages begin.
        waits: [S] whether the stage waits for the computing of its phase.
        after_first: [S+1] where the entries of each stage begin in ``after``.
        after: [N] a stage that it waits for.
        begin: [S] seconds from the begin of the phase to that of the stage, without other jobs.
    """

    first: Int64Array
    compute: FloatArray
    alone: FloatArray
    stage_first: Int64Array
    waits: BoolArray
    after_first: Int64Array
    after: Int64Array
    begin: FloatArray

    def slack(self, send: FloatArray) -> FloatArray:
        """Return by how much later than alone, after ``send`` seconds, each stage [S] could end in the same phase."""
        latest = np.repeat(self.alone, np.diff(self.stage_first))
        for s in range(len(send) - 1, -1, -1):
            before = self.after[self.after_first[s] : self.after_first[s + 1]]
            latest[before] = np.minimum(latest[before], latest[s] - send[s])
        slack: FloatArray = np.maximum(latest - (self.begin + send), 0.0)
        slack[slack <= TOLERANCE * np.repeat(self.alone, np.diff(self.stage_first))] = 0.0
        return slack


@dataclass(frozen=True, eq=False)
class PhaseStages:
    """The N stages of one phase of a job, in an order in which none waits for a later one.

    Attributes:
        send: [N] seconds that each takes alone.
        waits: [N] whether it waits for the computing.
        after: of each stage, those that it waits for.
        together: seconds that all stages take alone if they are sent at once.
        together_late: the same for those that wait for the computing, or for a stage that does.
    """

    send: Sequence[float]
    waits: Sequence[bool]
    after: Sequence[Sequence[int]]
    together: float = 0.0
    together_late: float = 0.0

    def begins(self, computed: float, opened: float = 0.0) -> list[float]:
        """Return when each stage begins if each takes as long as alone, and the phase begins and has computed then."""
        begins: list[float] = []
        for waits, after in zip(self.waits, self.after, strict=True):
            ends = (begins[k] + self.send[k] for k in after)
            begins.append(max(computed if waits else opened, *ends, -np.inf))
        return begins

    def late(self) -> list[bool]:
        """Return which stages wait for the computing, or for a stage that does."""
        return [begin > -np.inf for begin in self.begins(0.0, -np.inf)]

    def after_computing(self) -> float:
        """Return the least seconds of the phase from the end of its computing on."""
        ends = (begin + send for begin, send in zip(self.begins(0.0, -np.inf), self.send, strict=True))
        return max(0.0, self.together_late, *ends)

    def least(self, compute: float) -> float:
        """Return the least seconds of the phase on any paths, with so many seconds of computing.

        All stages are sent within it, and those that wait for the computing within what is left after it.
        """
        ends = (begin + send for begin, send in zip(self.begins(compute), self.send, strict=True))
        return max(compute + self.after_computing(), self.together, *ends)


def has_order(rows: Sequence[Collective]) -> bool:
    """Return whether collectives of a phase are stages of their own.

    They are where some collective waits for anything else than the computing of its phase, and where two of a phase
    have unlike classes of priority.
    """
    if any(row.waits != FOR_COMPUTING for row in rows):
        return True
    if not any(row.priority for row in rows):
        return False
    classes: dict[tuple[str, int], int] = {}
    return any(classes.setdefault((row.job, row.phase), row.priority) != row.priority for row in rows)


def ranks_in_order(traffic: Traffic) -> Int64Array:
    """Return a number [K], from 1, of each collective of jobs with an order: none waits for one with a higher number.

    The collectives of other jobs have 0: those of a phase are one stage.
    """
    rank = np.zeros(len(traffic.collectives), dtype=np.int64)
    for j in range(len(traffic.jobs)):
        own = {traffic.collectives[k].name: k for k in np.flatnonzero(traffic.job_index == j).tolist()}
        if has_order([traffic.collectives[k] for k in own.values()]):
            order = TopologicalSorter({name: traffic.collectives[k].waits.after for name, k in own.items()})
            for number, name in enumerate(order.static_order(), start=1):
                rank[own[name]] = number
    return rank


def phases_of_job(fabric: Fabric, merged: Traffic, own: Sequence[int], seconds: FloatArray) -> list[PhaseStages]:
    """Return the phases of a job, in order.

    Args:
        fabric: the fabric.
        merged: a traffic with a collective for each stage.
        own: the stages of the job, which are all of its stages that send, in order.
        seconds: [K] that each collective of ``merged`` takes alone.
    """
    rows = {merged.collectives[k].name: (k, merged.collectives[k]) for k in own}
    every = [row for row in merged.collectives if row.job == merged.collectives[own[0]].job]
    stated = {row.name: row.waits for row in every if row.waits != FOR_COMPUTING}
    waits = waits_among(stated, {row.name: row.phase for row in every}, rows)
    phases = []
    for _, group in itertools.groupby(rows.values(), key=lambda each: each[1].phase):
        members = list(group)
        place = {row.name: i for i, (_, row) in enumerate(members)}
        resolved = [waits.get(row.name, FOR_COMPUTING) for _, row in members]
        phase = PhaseStages(
            [float(seconds[k]) for k, _ in members],
            [each.computing for each in resolved],
            [[place[name] for name in each.after] for each in resolved],
        )
        late = [k for (k, _), is_late in zip(members, phase.late(), strict=True) if is_late]
        together, together_late = (_together(fabric, merged, each, seconds) for each in ([k for k, _ in members], late))
        phases.append(dataclasses.replace(phase, together=together, together_late=together_late))
    return phases


def _together(fabric: Fabric, merged: Traffic, rows: Sequence[int], seconds: FloatArray) -> float:
    """Return the seconds that some collectives of a traffic take if they are sent at once, and nothing else is."""
    if len(rows) < 2:
        return float(seconds[list(rows)].sum())
    flow = np.flatnonzero(np.isin(merged.collective, rows))
    union = Traffic(
        merged.src[flow],
        merged.dst[flow],
        merged.bytes[flow],
        np.zeros(len(flow), dtype=np.int32),
        merged.number[flow],
        merged.udp_src[flow],
        (merged.collectives[rows[0]],),
    )
    return float(Demand.of(fabric, union).ideal_seconds[0])


def order_of(jobs: Sequence[Sequence[PhaseStages]], compute: Sequence[Sequence[float]]) -> PhaseOrder:
    """Return the order of all jobs from their phases, and the computing of each phase."""
    phases = [phase for own in jobs for phase in own]
    seconds = [each for own in compute for each in own]
    stages = [len(phase.send) for phase in phases]
    first_stage = np.concatenate([[0], np.cumsum(stages)]).astype(np.int64)
    after = [
        [int(begin) + k for k in each]
        for begin, phase in zip(first_stage[:-1], phases, strict=True)
        for each in phase.after
    ]
    begins = [begin for phase, own in zip(phases, seconds, strict=True) for begin in phase.begins(own)]
    return PhaseOrder(
        np.concatenate([[0], np.cumsum([len(own) for own in jobs])]).astype(np.int64),
        np.array(seconds, dtype=np.float64),
        np.array([phase.least(own) for phase, own in zip(phases, seconds, strict=True)], dtype=np.float64),
        first_stage,
        np.array([waits for phase in phases for waits in phase.waits], dtype=np.bool_),
        np.concatenate([[0], np.cumsum([len(each) for each in after])]).astype(np.int64),
        np.array([k for each in after for k in each], dtype=np.int64),
        np.array(begins, dtype=np.float64),
    )
