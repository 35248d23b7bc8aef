"""A step and a reading of the switches to the document of ``/v1/trace``: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from controller.model.errors import UnavailableError
from controller.service.step import Step
from controller.service.times import when
from controller.service.wanted import Admitted
from controller.telemetry.held import Reading
from controller.telemetry.readings import Readings
from controller.telemetry.trace import Situation
from controller.telemetry.trace_document import live_trace
from controller.telemetry.under_ecmp import under_ecmp

CHUNK = 1000
"""Flows that are encoded at a time."""


def document(
    step: Step,
    reading: Reading,
    confirmed: Mapping[int, int],
    job: str | None,
    compare: bool,
    readings: Readings,
    began: float,
    clock: Callable[[], float],
) -> bytes:
    """Where every flow really goes.

    Args:
        confirmed: epoch that each connected switch has confirmed, by datapath id.
        job: whose flows are told; ``None``: all.
        compare: whether to tell what ECMP would do with them.
        readings: what the poller knows: the rates of flows for which the switches were read only once.
        began: when it was asked for, by the clock.

    Raises:
        UnavailableError: the step has no plan.
    """
    fabric, draft = step.fabric, step.draft
    if fabric is None or draft is None or step.wire is None:
        raise UnavailableError("there is no plan yet")
    enforcement = step.wanted.enforcement
    if step.wanted.mode == "frozen" and step.memory is not None:
        enforcement = step.memory.enforcement
    situation = Situation(
        fabric=fabric,
        traffic=draft.traffic,
        wire=step.wire,
        mode=step.wanted.mode,
        enforcement=enforcement,
        epoch=step.epoch,
        enforced=step.enforced,
        confirmed=dict(confirmed),
    )
    polled = readings.row_rates(fabric, draft.traffic, step.wire)
    found = live_trace(situation, draft.usable, reading, ranks(step.jobs), job=job, polled=polled)
    compared: dict[str, Any] | None = None
    if compare:
        compared = {
            **under_ecmp(draft.usable, draft.traffic, capacity=draft.planned_on, job=job),
            "plan_min_speed": draft.plan.objective.min_speed,
        }
    switches = (*fabric.leaves, *fabric.spines)
    return orjson.dumps(
        {
            "at": when(reading.at),
            "epoch": step.epoch,
            "mode": step.wanted.mode,
            "enforcement": enforcement,
            "silent": [switch.name for switch in switches if switch.dpid not in reading.switches],
            **found,
            "flows": _encoded(found["flows"]),
            "compare": compared,
            "seconds": max(0.0, clock() - began),
        }
    )


def _encoded(flows: list[dict[str, Any]]) -> orjson.Fragment:
    """Many flows piece by piece: encoding all at once would keep the event loop waiting."""
    parts = (orjson.dumps(flows[start : start + CHUNK])[1:-1] for start in range(0, len(flows), CHUNK))
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")


def ranks(jobs: Iterable[Admitted]) -> dict[str, dict[str, int]]:
    """By job and host, the (first) rank that runs there."""
    return {job.name: _ranks(orjson.loads(job.document).get("hosts")) for job in jobs}


def _ranks(hosts: Any) -> dict[str, int]:
    # The document was checked when it was taken; a job of single flows, or of a matrix, has no such list.
    found: dict[str, int] = {}
    for rank, host in enumerate(hosts if isinstance(hosts, list) else ()):
        found.setdefault(str(host), rank)
    return found
