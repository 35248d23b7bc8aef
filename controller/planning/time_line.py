"""The time line of an iteration that a job makes alone: when it computes, and when it sends which collectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.fabric import Fabric
from controller.model.timing import IterationSpan
from controller.model.traffic import Traffic
from controller.routing.problem.rounds import as_sent, phases_of_rounds
from controller.routing.times.phase_order import PhaseOrder
from controller.routing.times.stages import Stages
from controller.workload.describe import family


def time_line(fabric: Fabric, traffic: Traffic) -> tuple[IterationSpan, ...]:
    """Return the spans of the job of a traffic, in order of their begins; collectives of a family that agree are one.

    Each collective takes as long as alone. Where some that overlap share links, a phase may be longer than its spans.
    """
    parts = as_sent(traffic)
    stages = Stages.on(fabric, parts)
    spans = (
        _serial(stages, traffic, phases_of_rounds(traffic, parts))
        if stages.order is None
        else _ordered(stages, stages.order)
    )
    # A dictionary keeps the first of equal ones.
    return tuple(dict.fromkeys(sorted(spans, key=lambda span: span.begin_seconds)))


def _serial(stages: Stages, traffic: Traffic, phase_of: Mapping[tuple[str, int], int]) -> Iterator[IterationSpan]:
    """Yield the spans of phases one after the other; ``phase_of``: those of rounds, by job and stage."""
    now = 0.0
    rows = stages.demand.traffic.collectives
    present = set(traffic.collective.tolist())
    spent: dict[int, tuple[float, float]] = {}
    for k, own, sent in zip(stages.row.tolist(), stages.compute.tolist(), stages.send.tolist(), strict=True):
        phase = phase_of[rows[k].job, rows[k].phase]
        before, so_far = spent.get(phase, (0.0, 0.0))
        spent[phase] = before + own, so_far + sent
    for phase, (compute, send) in spent.items():
        if compute > 0:
            yield IterationSpan(phase, None, now, now + compute, 0.0)
        now += compute
        for i, row in enumerate(traffic.collectives):
            if row.phase == phase and i in present:
                yield IterationSpan(phase, family(row.name), now, now + send, 0.0)
        now += send


def _ordered(stages: Stages, order: PhaseOrder) -> Iterator[IterationSpan]:
    """Yield the spans of phases in which stages may overlap."""
    slack, spare = (each.tolist() for each in order.slacks(stages.send))
    now = 0.0
    for p, (compute, alone) in enumerate(zip(order.compute.tolist(), order.alone.tolist(), strict=True)):
        own = range(int(order.stage_first[p]), int(order.stage_first[p + 1]))
        rows = [stages.demand.traffic.collectives[int(stages.row[s])] for s in own]
        if compute > 0:
            late = (float(order.begin[s]) + slack[s] for s in own if order.waits[s])
            yield IterationSpan(
                rows[0].phase, None, now, now + compute, max(0.0, min([alone + spare[p], *late]) - compute)
            )
        for s, row in zip(own, rows, strict=True):
            begin = now + float(order.begin[s])
            yield IterationSpan(row.phase, family(row.name), begin, begin + float(stages.send[s]), slack[s])
        now += alone
