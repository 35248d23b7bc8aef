"""What readers are told: a ``Step`` as the documents of ``controller.rest.schemas``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import isnan
from typing import Any

import numpy as np
import orjson

from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.model.fabric_file import fabric_document
from controller.model.plan import Plan
from controller.planning.drain import cables_of, known
from controller.planning.plan_document import job_parts, plan_document, routes_document, slowest
from controller.service.draft import Draft
from controller.service.reports import SwitchReport
from controller.service.step import Step
from controller.service.times import when
from controller.service.wanted import Admitted
from controller.southbound.labels import LabelBlock
from controller.store.values import KeptMode
from controller.telemetry.readings import UNKNOWN, LinkRates, Readings

Active = tuple[int, float] | None
"""Epoch of the plan that every connected switch has confirmed, and since when (seconds since 1970)."""


def fabric(step: Step, intended: bool, switches: Sequence[SwitchReport]) -> dict[str, Any]:
    """The fabric as it is now, and the cabling check."""
    there = step.fabric
    assert there is not None
    connected = {report.dpid for report in switches}
    explicit = fabric_document(there)
    cables = zip(there.cable_names, explicit["links"], drained_cables(step), strict=True)
    return {
        "source": "file" if intended else "discovery",
        "version": there.version,
        "switches": [
            {"name": s.name, "role": role, "dpid": s.dpid, "connected": s.dpid in connected}
            for role, members in (("leaf", there.leaves), ("spine", there.spines))
            for s in members
        ],
        "hosts": explicit["hosts"],
        "links": [{"id": name, **row, "drained": drained} for name, row, drained in cables],
        "cabling": {
            "matches": step.survey.matches if intended else None,
            "findings": [{"kind": f.kind, "subject": f.subject, "text": f.text} for f in step.survey.findings],
            "hosts_unplaced": list(step.survey.hosts_unplaced),
        },
    }


def links(
    step: Step, readings: Readings, measured: float | None, period: float, hashed: Plan | None = None
) -> dict[str, Any]:
    """Every directed link with its planned load, and what was measured of it.

    Args:
        measured: when the newest counters came, seconds since 1970.
        period: seconds between two polls of a switch.
        hashed: ECMP's plan, whose loads are to be told in place of the plan's.
    """
    there, told = step.fabric, hashed or step.plan
    assert there is not None
    rates = readings.link_rates(there)
    load = told.objective.link_load if told is not None else np.zeros(there.n_links)
    drained = [False] * there.first_cable_link + [cable for cable in drained_cables(step) for _ in range(2)]
    rows = zip(
        there.link_ids, there.link_gbps.tolist(), load.tolist(), there.link_up.tolist(), drained,
        _measured(there, rates), strict=True,
    )  # fmt: skip
    return {
        "under": "plan" if hashed is None else "ecmp",
        "measured": None if measured is None else when(measured),
        "period": period,
        "links": [
            {"id": i, "gbps": gbps, "load_gbps": used, "up": up, "drained": out, **found}
            for i, gbps, used, up, out, found in rows
        ],
    }


def _measured(fabric: Fabric, rates: LinkRates) -> Iterator[dict[str, float | int | None]]:
    """Of each link, what its port counts."""
    columns = (rates.gbps, rates.gbps / fabric.link_gbps, rates.dropped, rates.errors)
    for gbps, used, dropped, errors in zip(*(column.tolist() for column in columns), strict=True):
        yield {
            "rate_gbps": None if isnan(gbps) else gbps,
            "utilisation": None if isnan(used) else used,
            "dropped": None if dropped == UNKNOWN else dropped,
            "errors": None if errors == UNKNOWN else errors,
        }


def drained_cables(step: Step) -> list[bool]:
    """Of each cable, whether it is drained, by itself or with one of its switches."""
    there, ids = step.fabric, step.wanted.drained
    assert there is not None
    return [
        not ids.isdisjoint((name, cable.leaf, cable.spine))
        for name, cable in zip(there.cable_names, there.cables, strict=True)
    ]


def drain(step: Step, name: str) -> dict[str, Any]:
    """A cable, spine or leaf; without cables where the fabric has none of that name (any more)."""
    there = step.fabric
    assert there is not None
    cables = cables_of(there, name) if known(there, [name]) else ()
    used = set(step.drain.still_used)
    return {
        "id": name,
        "kind": "spine" if name in there.spine_index else "leaf" if name in there.leaf_index else "cable",
        "drained": name in step.wanted.drained,
        "epoch": step.epoch,
        "cables": list(cables),
        "still_used": [cable for cable in cables if cable in used],
    }


def jobs(step: Step, active: Active) -> bytes:
    """All jobs by name, without their flows."""
    members: dict[str, list[int]] = {job.name: [] for job in step.jobs}
    for k, row in enumerate(step.traffic.collectives):
        members[row.job].append(k)
    rows = [
        {
            **_about(job, step, active),
            "collectives": 0 if job.traffic is None else len(job.traffic.collectives),
            "flows": 0 if job.traffic is None else job.traffic.n_flows,
            "bytes": 0 if job.traffic is None else int(job.traffic.bytes.sum()),
            "min_speed": None if step.plan is None else slowest(step.plan, members[job.name]),
        }
        for job in sorted(step.jobs, key=lambda job: job.name)
    ]
    return orjson.dumps({"jobs": rows})


def job(step: Step, name: str, active: Active) -> bytes:
    """A job that the step holds, with its part of the plan.

    Raises:
        UnavailableError: the step has no plan.
    """
    there, draft = _planned(step)
    (wanted,) = (job for job in step.jobs if job.name == name)
    about = {**_about(wanted, step, active), "epoch": step.epoch}
    return orjson.dumps({**about, **job_parts(there, draft.traffic, draft.plan, name)})


def _about(job: Admitted, step: Step, active: Active) -> dict[str, Any]:
    return {
        "name": job.name,
        "revision": job.revision,
        "changed": when(job.changed),
        "by": job.by,
        "weight": _weight(job.document) if job.traffic is None else job.traffic.weight,
        "active": job.traffic is not None and _enforced(step, active),
        "left_out": job.left_out or None,
    }


def _weight(document: bytes) -> float:
    """The weight in a document that was checked when it was taken."""
    return float(orjson.loads(document).get("weight", 1.0))


def plan(
    step: Step,
    computed_at: float,
    active: Active,
    waits_for: Sequence[str] = (),
    refused: Mapping[str, Any] | None = None,
    hashed: Plan | None = None,
) -> bytes:
    """The plan, when it was computed, and which one the switches enforce.

    Args:
        waits_for: names of connected switches that do not have its rules.
        refused: why it is on no switch.
        hashed: ECMP's plan, to be told in its place.

    Raises:
        UnavailableError: the step has no plan.
    """
    there, draft = _planned(step)
    return orjson.dumps(
        {
            "mode": step.wanted.mode,
            "enforcement": step.wanted.enforcement,
            "computed": {"epoch": step.epoch, "since": when(computed_at)},
            "active": None if active is None else {"epoch": active[0], "since": when(active[1])},
            "waits_for": list(waits_for),
            "refused": refused,
            "under": "plan" if hashed is None else "ecmp",
            "plan": plan_document(there, draft.traffic, hashed or draft.plan),
        }
    )


def routes(step: Step, host: str, label_base: int) -> bytes:
    """Everything that a host of the fabric sends.

    Raises:
        UnavailableError: the step has no plan.
    """
    there, draft = _planned(step)
    assert step.wire is not None
    hashed, enforcement = step.wanted.mode == "ecmp", step.wanted.enforcement
    if step.wanted.mode == "frozen" and step.memory is not None:
        hashed, enforcement = not step.memory.enforced, step.memory.enforcement
    labels = LabelBlock(label_base) if enforcement == "segment_routing" else None
    told = routes_document(there, draft.traffic, draft.plan, step.wire, host, hashed=hashed, labels=labels)
    return orjson.dumps({**told, "mode": step.wanted.mode, "enforcement": enforcement, "epoch": step.epoch})


def mode(step: Step, record: KeptMode | None) -> dict[str, Any]:
    """How plans are enforced, since when, and who said so."""
    return {
        "mode": step.wanted.mode,
        "enforcement": step.wanted.enforcement,
        "since": None if record is None else when(record.changed),
        "by": None if record is None else record.by,
        "epoch": step.epoch,
    }


def _planned(step: Step) -> tuple[Fabric, Draft]:
    if step.fabric is None or step.draft is None:
        raise UnavailableError("there is no plan yet")
    return step.fabric, step.draft


def _enforced(step: Step, active: Active) -> bool:
    """Whether the switches enforce the newest plan."""
    return step.wanted.mode != "ecmp" and active is not None and active[0] >= step.epoch


def unknown_because(intended: Fabric | None) -> str:
    """Why there is no fabric yet."""
    return "no host has been heard on any switch" if intended is None else "the controller has only just started"


@dataclass(frozen=True)
class Troubles:
    """Why steps cannot be taken, why the store does not work, and what is wrong with switches; empty: no trouble."""

    plan: str = ""
    store: str = ""
    switches: Sequence[str] = ()


def health(
    step: Step, switches: Sequence[SwitchReport], intended: Fabric | None, active: Active, troubles: Troubles
) -> dict[str, Any]:
    """Whether the controller does its work, and why not."""
    reasons = []
    if troubles.plan:
        reasons.append(f"no new plan could be made: {troubles.plan}")
    if troubles.store:
        reasons.append(f"changes are refused, because the store does not work: {troubles.store}")
    reasons += [f"{report.name}: {report.error}" for report in switches if report.error]
    reasons += troubles.switches
    reasons += [finding.text for finding in step.survey.findings]
    starting = step.fabric is None or not switches or active is None
    if step.fabric is None:
        reasons.append(f"the fabric is not known yet: {unknown_because(intended)}")
    else:
        gone = step.wanted.drained - known(step.fabric, step.wanted.drained)
        reasons += [f"{name} is drained, and the fabric has no such thing" for name in sorted(gone)]
        if not switches:
            reasons.append("no switch is connected")
        elif active is None or active[0] < step.enforced:
            reasons.append(f"plan {step.enforced} is not active on every switch yet")
    reasons += [f"job {job.name} is kept and not planned: {job.left_out}" for job in step.wanted.left_out]
    expected = None if intended is None else intended.n_leaves + intended.n_spines
    return {
        "status": "starting" if starting else "degraded" if reasons else "ok",
        "reasons": reasons,
        "version": version("fairspine"),
        "mode": step.wanted.mode,
        "enforcement": step.wanted.enforcement,
        "switches": {"connected": len(switches), "expected": expected},
        "jobs": len(step.jobs),
        "flows": step.traffic.n_flows,
    }
