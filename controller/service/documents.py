"""What readers are told: a ``Step`` as the documents of ``controller.rest.schemas``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import orjson

from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.model.fabric_file import fabric_document
from controller.model.plan import Plan
from controller.planning.plan_document import job_parts, plan_document, routes_document, slowest
from controller.service.step import Step


class SwitchReport(Protocol):
    """What the installer knows of a connected switch."""

    @property
    def dpid(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def error(self) -> str: ...


def when(seconds: float) -> str:
    """A time of day (seconds since 1970) as RFC 3339, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def fabric(step: Step, intended: bool, switches: Sequence[SwitchReport]) -> dict[str, Any]:
    """The fabric as it is now, and the cabling check."""
    known = step.fabric
    assert known is not None
    connected = {report.dpid for report in switches}
    explicit = fabric_document(known)
    return {
        "source": "file" if intended else "discovery",
        "version": known.version,
        "switches": [
            {"name": s.name, "role": role, "dpid": s.dpid, "connected": s.dpid in connected}
            for role, members in (("leaf", known.leaves), ("spine", known.spines))
            for s in members
        ],
        "hosts": explicit["hosts"],
        "links": [{"id": name, **row} for name, row in zip(known.cable_names, explicit["links"], strict=True)],
        "cabling": {
            "matches": step.survey.matches if intended else None,
            "findings": [{"kind": f.kind, "subject": f.subject, "text": f.text} for f in step.survey.findings],
            "hosts_unplaced": list(step.survey.hosts_unplaced),
        },
    }


def links(step: Step) -> dict[str, Any]:
    """Every directed link with its planned load."""
    known = step.fabric
    assert known is not None
    load = step.plan.objective.link_load if step.plan is not None else np.zeros(known.n_links)
    rows = zip(known.link_ids, known.link_gbps.tolist(), load.tolist(), known.link_up.tolist(), strict=True)
    return {"links": [{"id": i, "gbps": gbps, "load_gbps": used, "up": up} for i, gbps, used, up in rows]}


def jobs(step: Step, active: tuple[int, float] | None) -> bytes:
    """All jobs by name, without their flows."""
    members: dict[str, list[int]] = {job.name: [] for job in step.jobs}
    for k, row in enumerate(step.traffic.collectives):
        members[row.job].append(k)
    return orjson.dumps(
        {
            "jobs": [
                {
                    "name": job.name,
                    "weight": job.traffic.weight,
                    "collectives": len(job.traffic.collectives),
                    "flows": job.traffic.n_flows,
                    "bytes": int(job.traffic.bytes.sum()),
                    "min_speed": None if step.plan is None else slowest(step.plan, members[job.name]),
                    "active": _enforced(step, active),
                }
                for job in sorted(step.jobs, key=lambda job: job.name)
            ]
        }
    )


def job(step: Step, name: str, active: tuple[int, float] | None) -> bytes:
    """A job that the step holds, with its part of the plan.

    Raises:
        UnavailableError: the step has no plan.
    """
    known, plan = _planned(step)
    (weight,) = (job.traffic.weight for job in step.jobs if job.name == name)
    return orjson.dumps(
        {
            "name": name,
            "weight": weight,
            "epoch": step.epoch,
            "active": _enforced(step, active),
            **job_parts(known, step.traffic, plan, name),
        }
    )


def plan(step: Step, computed_at: float, active: tuple[int, float] | None) -> bytes:
    """The plan, when it was computed, and which one the switches enforce.

    Raises:
        UnavailableError: the step has no plan.
    """
    known, newest = _planned(step)
    return orjson.dumps({**states(step.epoch, computed_at, active), "plan": plan_document(known, step.traffic, newest)})


def routes(step: Step, host: str) -> bytes:
    """Everything that a host of the fabric sends.

    Raises:
        UnavailableError: the step has no plan.
    """
    known, plan = _planned(step)
    return orjson.dumps({**routes_document(known, step.traffic, plan, host), "epoch": step.epoch})


def _planned(step: Step) -> tuple[Fabric, Plan]:
    if step.fabric is None or step.plan is None:
        raise UnavailableError("there is no plan yet")
    return step.fabric, step.plan


def _enforced(step: Step, active: tuple[int, float] | None) -> bool:
    return active is not None and active[0] >= step.epoch


def unknown_because(intended: Fabric | None) -> str:
    """Why there is no fabric yet."""
    return "no host has been heard on any switch" if intended is None else "the controller has only just started"


def health(
    step: Step,
    switches: Sequence[SwitchReport],
    intended: Fabric | None,
    active: tuple[int, float] | None,
    failed: str,
) -> dict[str, Any]:
    """Whether the controller does its work, and why not."""
    reasons = []
    if failed:
        reasons.append(f"no new plan could be made: {failed}")
    reasons += [f"{report.name}: {report.error}" for report in switches if report.error]
    reasons += [finding.text for finding in step.survey.findings]
    starting = step.fabric is None or not switches or active is None
    if step.fabric is None:
        reasons.append(f"the fabric is not known yet: {unknown_because(intended)}")
    elif not switches:
        reasons.append("no switch is connected")
    elif active is None or active[0] < step.epoch:
        reasons.append(f"plan {step.epoch} is not active on every switch yet")
    expected = None if intended is None else intended.n_leaves + intended.n_spines
    return {
        "status": "starting" if starting else "degraded" if reasons else "ok",
        "reasons": reasons,
        "version": version("fairspine"),
        "switches": {"connected": len(switches), "expected": expected},
        "jobs": len(step.jobs),
        "flows": step.traffic.n_flows,
    }


def states(epoch: int, computed_at: float, active: tuple[int, float] | None) -> Mapping[str, Any]:
    """Which plan is computed, which is active, and since when."""
    return {
        "computed": {"epoch": epoch, "since": when(computed_at)},
        "active": None if active is None else {"epoch": active[0], "since": when(active[1])},
    }
