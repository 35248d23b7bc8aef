"""The order of stages within phases, where some job states overlap: docs/explanation/objective.md, "Overlap"."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np

from controller.model.fabric import BoolArray, Fabric, FloatArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.model.waits import FOR_COMPUTING, waits_among
from controller.routing.problem.demand import Demand

MOST_WINDOWS = 16
"""Most runs of phases of a job that an awaited stage spans, whose bytes are bounded together."""


@dataclass(frozen=True, eq=False)
class PhaseOrder:
    """P phases of J jobs, and what the S stages in them wait for; a stage waits for earlier ones only.

    Attributes:
        first: [J+1] where each job's phases begin.
        compute: [P] seconds of computing.
        alone: [P] seconds that the phase takes at least, without other jobs.
        stage_first: [P+1] where each phase's stages begin.
        waits: [S] whether the stage waits for the computing of its phase.
        after_first: [S+1] where the entries of each stage begin in ``after``.
        after: [N] a stage that it waits for.
        begin: [S] seconds from the begin of the phase to that of the stage, without other jobs.
        due: [S] the phase that ends only when the stage has ended: its own, or a later one of the job.
        reach: [P] the earliest phase of which a stage may be sent in the phase.
        own: [P] seconds that the phase takes alone if it need not wait for stages of earlier ones.
    """

    first: Int64Array
    compute: FloatArray
    alone: FloatArray
    stage_first: Int64Array
    waits: BoolArray
    after_first: Int64Array
    after: Int64Array
    begin: FloatArray
    due: Int64Array
    reach: Int64Array
    own: FloatArray

    def slack(self, send: FloatArray) -> FloatArray:
        """Return by how much later than alone, after ``send`` seconds, each stage [S] could end in equal iterations."""
        return self.slacks(send)[0]

    def slacks(self, send: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same, and by how much later each phase [P] could end: 0 where no later one waits for a stage."""
        phase = np.repeat(np.arange(len(self.alone)), np.diff(self.stage_first))
        spare = np.zeros(len(self.alone))
        latest = np.full(len(send), np.inf)
        for j in range(len(self.first) - 1):
            last = int(self.first[j + 1]) - 1
            for p in range(last, int(self.first[j]) - 1, -1):
                if p < last:
                    spare[p] = self._spare_at_begin(p + 1, spare[p + 1], latest - send)
                for s in range(int(self.stage_first[p + 1]) - 1, int(self.stage_first[p]) - 1, -1):
                    due = int(self.due[s])
                    # From the begin of the stage's phase.
                    latest[s] = min(latest[s], float(self.alone[p : due + 1].sum()) + spare[due])
                    for before in self.after[self.after_first[s] : self.after_first[s + 1]].tolist():
                        behind = float(self.alone[phase[before] : p].sum())
                        latest[before] = min(latest[before], latest[s] - send[s] + behind)
        slack: FloatArray = np.maximum(latest - (self.begin + send), 0.0)
        slack[slack <= TOLERANCE * self.alone[phase]] = 0.0
        return slack, spare

    def _spare_at_begin(self, phase: int, spare: float, latest: FloatArray) -> float:
        """Return by how much later a phase could begin that could end so much later.

        Args:
            phase: the phase.
            spare: seconds by which it could end later.
            latest: [S] seconds from the begin of their phase at which its stages have to begin.
        """
        own = slice(int(self.stage_first[phase]), int(self.stage_first[phase + 1]))
        spans = self.due[own] > phase
        left = spare + float(self.alone[phase] - self.own[phase])
        return float(min([left, *np.maximum(latest[own] - self.begin[own], 0.0)[spans]]))


class Window(NamedTuple):
    """A run of phases that ends with the present one, and that has to send stages of all of them.

    Attributes:
        back: the number of phases before the present one.
        together: seconds that the stages take alone if they are sent at once.
        together_late: the same without those of its first phase that need not wait for the computing.
    """

    back: int
    together: float
    together_late: float


@dataclass(frozen=True, eq=False)
class PhaseStages:
    """The N stages of one phase of a job, in an order in which none waits for a later one.

    Attributes:
        send: [N] seconds that each takes alone.
        waits: [N] whether it waits for the computing.
        after: of each stage, those that it waits for.
        together: seconds that all stages that the phase waits for take alone if they are sent at once.
        together_late: the same for those that wait for the computing, or for a stage that does.
        spans: [N] the number of phases after this one until which each stage may take; none given: 0 each.
        earlier: of each stage, stages of earlier phases that it waits for, counted over the job; none given: none.
        windows: runs of phases that end with this one.
    """

    send: Sequence[float]
    waits: Sequence[bool]
    after: Sequence[Sequence[int]]
    together: float = 0.0
    together_late: float = 0.0
    spans: Sequence[int] = ()
    earlier: Sequence[Sequence[int]] = ()
    windows: Sequence[Window] = ()

    def begins(self, computed: float, opened: float = 0.0, before: Sequence[float] = ()) -> list[float]:
        """Return when each stage begins if each takes as long as alone.

        Args:
            computed: when the phase has computed.
            opened: when it begins.
            before: [N] when the last of the earlier phases' stages has ended that each waits for; none given: before.
        """
        begins: list[float] = []
        for k, (waits, after) in enumerate(zip(self.waits, self.after, strict=True)):
            ends = (begins[other] + self.send[other] for other in after)
            begins.append(max(computed if waits else opened, *ends, before[k] if before else -np.inf))
        return begins

    def spans_of(self, stage: int) -> int:
        """Return the number of phases after this one until which a stage may take."""
        return self.spans[stage] if self.spans else 0

    def late(self) -> list[bool]:
        """Return which stages wait for the computing, or for a stage that does."""
        return [begin > -np.inf for begin in self.begins(0.0, -np.inf)]

    def after_computing(self) -> float:
        """Return the least seconds of the phase from the end of its computing on."""
        return max(0.0, self.together_late, *self._ends(self.begins(0.0, -np.inf)))

    def least(self, compute: float, before: Sequence[float] = ()) -> float:
        """Return the least seconds of the phase on any paths, with so many seconds of computing.

        All stages that it waits for are sent within it, but those of earlier phases, which do not count here; and
        those that wait for the computing within what is left after it.
        """
        ends = self._ends(self.begins(compute, before=before))
        return max(compute + self.after_computing(), self.together, *ends)

    def _ends(self, begins: Sequence[float]) -> list[float]:
        """Return when the stages that the phase waits for end if all stages begin then."""
        return [begins[k] + self.send[k] for k in range(len(self.send)) if not self.spans_of(k)]


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
    number = {name: i for i, name in enumerate(rows)}
    groups = [list(group) for _, group in itertools.groupby(rows.values(), key=lambda each: each[1].phase)]
    numbers = [members[0][1].phase for members in groups]
    phases, late_of = list[PhaseStages](), list[list[int]]()
    for p, members in enumerate(groups):
        place = {row.name: i for i, (_, row) in enumerate(members)}
        resolved = [waits.get(row.name, FOR_COMPUTING) for _, row in members]
        untils = [numbers[p] if each.until is None else each.until for each in resolved]
        phase = PhaseStages(
            [float(seconds[k]) for k, _ in members],
            [each.computing for each in resolved],
            [[place[name] for name in each.after if name in place] for each in resolved],
            spans=[max(bisect.bisect_right(numbers, until) - 1, p) - p for until in untils],
            earlier=[[number[name] for name in each.after if name not in place] for each in resolved],
        )
        awaited = [k for i, (k, _) in enumerate(members) if not phase.spans[i]]
        late_of.append([k for (k, _), is_late in zip(members, phase.late(), strict=True) if is_late])
        late = [k for k in late_of[-1] if k in awaited]
        together, together_late = (_together(fabric, merged, each, seconds) for each in (awaited, late))
        phases.append(dataclasses.replace(phase, together=together, together_late=together_late))
    rows_of = [[k for k, _ in members] for members in groups]
    runs = sorted({(p, p + span) for p, phase in enumerate(phases) for span in phase.spans if span})
    for begin, end in runs[:1] + runs[1:][1 - MOST_WINDOWS :]:
        due = {
            k
            for p in range(begin, end + 1)
            for k, span in zip(rows_of[p], phases[p].spans, strict=True)
            if p + span <= end
        }
        late_due = sorted(due - (set(rows_of[begin]) - set(late_of[begin])))
        together, together_late = (_together(fabric, merged, each, seconds) for each in (sorted(due), late_due))
        windows = [*phases[end].windows, Window(end - begin, together, together_late)]
        phases[end] = dataclasses.replace(phases[end], windows=windows)
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


class _Alone(NamedTuple):
    """An iteration of a job without other jobs, by phase: at least so many seconds, and the begins of its stages.

    Attributes:
        seconds: of each phase.
        own: of each phase, if it need not wait for stages of earlier ones.
        begins: of each phase, seconds from its begin to those of its stages.
    """

    seconds: list[float]
    own: list[float]
    begins: list[list[float]]


def _alone(phases: Sequence[PhaseStages], compute: Sequence[float]) -> _Alone:
    alone = _Alone([], [], [])
    now, opened, ends, dues = 0.0, list[float](), list[float](), list[int]()
    for p, (phase, own) in enumerate(zip(phases, compute, strict=True)):
        before = [max((ends[k] - now for k in each), default=-np.inf) for each in phase.earlier]
        begins, least = phase.begins(own, before=before), phase.least(own, before)
        opened.append(now)
        seconds = max([least, *(end - now for end, due in zip(ends, dues, strict=True) if due == p)])
        for back, together, together_late in phase.windows:
            first = p - back
            seconds = max(seconds, opened[first] + max(together, compute[first] + together_late) - now)
        ends += [now + begin + send for begin, send in zip(begins, phase.send, strict=True)]
        dues += [p + phase.spans_of(k) for k in range(len(phase.send))]
        alone.seconds.append(seconds)
        alone.own.append(least)
        alone.begins.append(begins)
        now += seconds
    return alone


def computing_of_period(phases: Sequence[PhaseStages], period: float) -> float:
    """Return the seconds for which the first phase of a job computes, if an iteration alone takes ``period``.

    It may take what collectives leave; 0 where these take longer.
    """
    if not any(any(phase.spans) for phase in phases):
        rest = sum(phase.least(0.0) for phase in phases[1:])
        return max(0.0, period - rest - phases[0].after_computing())
    none = [0.0] * (len(phases) - 1)
    # With so much computing nothing that overlaps with it is the last.
    much = period + sum(_alone(phases, [0.0, *none]).seconds)
    return max(0.0, period - (sum(_alone(phases, [much, *none]).seconds) - much))


def order_of(jobs: Sequence[Sequence[PhaseStages]], compute: Sequence[Sequence[float]]) -> PhaseOrder:
    """Return the order of all jobs from their phases, and the computing of each phase."""
    phases = [phase for own in jobs for phase in own]
    seconds = [each for own in compute for each in own]
    alone = [_alone(own, computing) for own, computing in zip(jobs, compute, strict=True)]
    first = np.concatenate([[0], np.cumsum([len(own) for own in jobs])]).astype(np.int64)
    first_stage = np.concatenate([[0], np.cumsum([len(phase.send) for phase in phases])]).astype(np.int64)
    after, due, reach = list[list[int]](), list[int](), np.arange(len(phases), dtype=np.int64)
    of_phases = np.repeat(first_stage[first[:-1]], np.diff(first)).tolist()
    for p, (phase, of_job, begin) in enumerate(zip(phases, of_phases, first_stage[:-1].tolist(), strict=True)):
        for k, own in enumerate(phase.after):
            earlier = phase.earlier[k] if phase.earlier else ()
            after.append([*(of_job + each for each in earlier), *(begin + each for each in own)])
            due.append(p + phase.spans_of(k))
            reach[p : due[-1] + 1] = np.minimum(reach[p : due[-1] + 1], p)
    return PhaseOrder(
        first,
        np.array(seconds, dtype=np.float64),
        np.array([each for own in alone for each in own.seconds], dtype=np.float64),
        first_stage,
        np.array([waits for phase in phases for waits in phase.waits], dtype=np.bool_),
        np.concatenate([[0], np.cumsum([len(each) for each in after])]).astype(np.int64),
        np.array([k for each in after for k in each], dtype=np.int64),
        np.array([begin for own in alone for begins in own.begins for begin in begins], dtype=np.float64),
        np.array(due, dtype=np.int64),
        reach,
        np.array([each for own in alone for each in own.own], dtype=np.float64),
    )
