"""The documents of ``controller.rest.schemas``, made from a ``ControllerState``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import orjson

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob
from controller.core.plan_candidate import PlanCandidate
from controller.core.ports.enforcer import SwitchReport
from controller.core.ports.enforcer import connected as connected_keys
from controller.core.saved.saved_state import LearningSetting, ModeSetting
from controller.core.speeds.speeds_now import SpeedsNow
from controller.core.speeds.unconfirmed_jobs import jobs_through
from controller.model.errors import UnavailableError
from controller.model.fabric import BoolArray, Fabric
from controller.model.files.fabric_file import fabric_document, kind_document
from controller.model.job import NO_FLOWS
from controller.model.network_state import NetworkState
from controller.model.paces import Paces
from controller.model.plan import Plan
from controller.model.switch_key import SwitchKey
from controller.planning.drain import cables_of, kind_of
from controller.planning.drain import drained_cables as cables_drained
from controller.planning.plan_document import (
    job_parts,
    job_times_document,
    plan_document,
    routes_document,
    schedule_document,
    shift_document,
    slowdown_document,
)
from controller.planning.slowest import slowest
from controller.planning.tenant_rows import tenant_rows
from controller.southbound.enforcement.learned_ports import NONE_LEARNED, LearnedPorts, with_learned_ports
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.views.times import when

VERSION = version("fairspine")
"""Read once: looking it up opens a file, and there may be none left to open."""

Active = tuple[int, float] | None
"""Epoch of the plan that every connected switch has confirmed, and since when (seconds since 1970)."""


def fabric(state: ControllerState, intended: bool, switches: Sequence[SwitchReport]) -> dict[str, Any]:
    """Return the observed fabric and the cabling check."""
    there = state.fabric
    assert there is not None
    connected = connected_keys(switches)
    explicit = fabric_document(there)
    known = known_links(there, connected, state.network)[there.first_cable_link :: 2].tolist()
    cables = zip(there.cable_names, explicit["links"], known, drained_cables(state), strict=True)
    return {
        "source": "file" if intended else "discovery",
        "version": there.version,
        "switches": [
            {"name": s.name, "role": role, **kind_document(s), "connected": s.key in connected, **place}
            for layer, (role, members) in enumerate(zip(there.roles, there.layers, strict=True))
            for s, place in zip(members, _places(there, layer), strict=True)
        ],
        "hosts": [{"nic": None, **row} for row in explicit["hosts"]],
        "links": [
            {"id": name, **row, "known": is_known, "drained": drained} for name, row, is_known, drained in cables
        ],
        "cabling": {
            "matches": state.survey.matches if intended else None,
            "findings": [{"kind": f.kind, "subject": f.subject, "text": f.text} for f in state.survey.findings],
            "hosts_unplaced": list(state.survey.hosts_unplaced),
        },
    }


def _places(there: Fabric, layer: int) -> list[dict[str, Any]]:
    """Return pod, aggregation plane and plane of NICs, from 1, of each switch of a layer; ``None``: it has none."""
    none = np.full(len(there.layers[layer]), -1)
    pod = agg_plane = plane = none
    if len(there.layers) == 3 and layer < 2:
        pod, agg_plane = (there.pods.of_leaf, none) if layer == 0 else (there.pods.of_agg, there.pods.plane)
    if there.planes.count > 1:
        plane = there.planes.of_layer(layer)
    rows = zip(pod.tolist(), agg_plane.tolist(), plane.tolist(), strict=True)
    return [
        {
            "pod": there.pod_names[p] if p >= 0 else None,
            "agg_plane": agg + 1 if agg >= 0 else None,
            "plane": k + 1 if k >= 0 else None,
        }
        for p, agg, k in rows
    ]


def known_links(there: Fabric, connected: Collection[SwitchKey], network: NetworkState | None) -> BoolArray:
    """Return whether the state of each directed link is known [E].

    It is down, or the switches at its ends say so, or probes of hosts.

    Args:
        there: the fabric.
        connected: keys of the connected switches. What others were told of links that were up may be past.
        network: the observed state.
    """
    is_there = {switch.name: switch.key in connected for switch in there.switches}
    hosts = [is_there[host.leaf] for host in there.hosts]
    shown = () if network is None else network.shown_cables.keys()
    cables = [
        number in shown or (is_there[cable.lower] and is_there[cable.upper])
        for number, cable in enumerate(there.cables)
        for _ in range(2)
    ]
    known: BoolArray = np.array([*hosts, *hosts, *cables], dtype=np.bool_) | ~there.link_up
    return known


def drained_cables(state: ControllerState) -> list[bool]:
    """Return, for each cable, whether it is drained, by itself, with a switch, or with its pod or plane."""
    assert state.fabric is not None
    drained: list[bool] = cables_drained(state.fabric, state.desired.drained).tolist()
    return drained


def drain(state: ControllerState, name: str) -> dict[str, Any]:
    """Return a cable, switch, pod or plane; without cables if the fabric has none of that name (any more)."""
    there = state.fabric
    assert there is not None
    kind = kind_of(there, name)
    cables = cables_of(there, name) if kind else ()
    # A router forwards as it likes unless hosts write paths, so none of its cables is known to be unused.
    by_hosts = ENFORCEMENTS.named(state.desired.enforcement).by_hosts
    routers = set() if by_hosts else {switch.name for switch in there.routers}
    ends = zip(there.cable_names, there.cables, strict=True) if routers else ()
    used = {*state.drain.still_used, *(name for name, each in ends if not routers.isdisjoint((each.lower, each.upper)))}
    drained, still_used = name in state.desired.drained, [cable for cable in cables if cable in used]
    up = {cable for cable, each in zip(there.cable_names, there.cables, strict=True) if each.up}
    return {
        "id": name,
        "kind": kind or "cable",
        "drained": drained,
        "outcome": drain_outcome(still_used, [cable for cable in cables if cable in up]) if drained else "in use",
        "epoch": state.epoch,
        "cables": list(cables),
        "still_used": still_used,
    }


def drain_outcome(still_used: Sequence[str], up: Sequence[str]) -> str:
    """Return how a drain ends: of the cables that are up, none carries traffic any more, some still do, or all do."""
    if not still_used:
        return "drained"
    return "partly" if len(still_used) < len(up) else "not possible"


def drains(state: ControllerState, names: Sequence[str], changed: Sequence[str], moved: int) -> dict[str, Any]:
    """Return cables, switches, pods or planes that were drained together, and how many flows this moved."""
    links = [drain(state, name) for name in dict.fromkeys(names)]
    return {"epoch": state.epoch, "changed": list(changed), "moved": moved, "links": links}


def jobs(state: ControllerState, lacking: frozenset[str] | None, speeds: SpeedsNow, *, follows: bool = False) -> bytes:
    """Return all jobs by name, without their flows.

    Args:
        state: the newest state.
        lacking: switches that do not hold the newest rules; ``None``: it is not known for which jobs others hold them.
        speeds: of jobs now.
        follows: what switches hold is not known, because another replica of the cluster leads.
    """
    enforced = _enforced_jobs(state, lacking)
    members: dict[str, list[int]] = {job.name: [] for job in state.jobs}
    for k, row in enumerate(state.traffic.collectives):
        # Learned jobs are planned, too, and are no jobs of the state.
        if row.job in members:
            members[row.job].append(k)
    expected = None if state.plan is None else state.plan.times
    times = {} if expected is None else {row.job: job_times_document(row) for row in expected.jobs}
    rows = [
        {
            **_about(job, enforced, speeds, follows),
            **_tenancy(state, job, members[job.name]),
            **_classes(state, members[job.name]),
            "digest": job.digest,
            "collectives": 0 if job.traffic is None else len(job.traffic.collectives),
            "flows": 0 if job.traffic is None else job.traffic.n_flows,
            "bytes": 0 if job.traffic is None else int(job.traffic.bytes.sum()),
            "min_speed": None if state.plan is None else slowest(state.plan, members[job.name]),
            "times": times.get(job.name),
        }
        for job in sorted(state.jobs, key=lambda job: job.name)
    ]
    document = {"jobs": rows, "times": None if expected is None else slowdown_document(expected)}
    if state.fabric is not None and state.fabric.tenants and state.plan is not None:
        document["tenants"] = tenant_rows(state.fabric.tenants, state.traffic, state.plan)
    return orjson.dumps(document)


def job(
    state: ControllerState, name: str, lacking: frozenset[str] | None, speeds: SpeedsNow, *, follows: bool = False
) -> bytes:
    """Return a job of the state with its part of the plan; ``lacking``, ``speeds`` and ``follows`` as of ``jobs``.

    Raises:
        UnavailableError: the state has no plan.
    """
    there, candidate = _planned(state)
    (desired,) = (job for job in state.jobs if job.name == name)
    about = {**_about(desired, _enforced_jobs(state, lacking), speeds, follows), "epoch": state.epoch}
    rows = [k for k, row in enumerate(candidate.traffic.collectives) if row.job == name]
    about |= _tenancy(state, desired, rows)
    return orjson.dumps({**about, **job_parts(there, candidate.traffic, candidate.plan, name, _paces(state))})


def _about(job: AdmittedJob, enforced: frozenset[str], speeds: SpeedsNow, follows: bool) -> dict[str, Any]:
    return {
        "name": job.name,
        "revision": job.revision,
        "changed": when(job.changed),
        "by": job.by,
        "weight": job.weight,
        "active": None if follows else job.name in enforced and job.name not in speeds.off_path,
        "speed": speeds.jobs.get(job.name),
        "left_out": job.left_out or (None if job.ports.size else NO_FLOWS),
    }


def _tenancy(state: ControllerState, job: AdmittedJob, collectives: Sequence[int]) -> dict[str, Any]:
    """Return tenant and weight among all jobs of a job of a tenant; nothing of another."""
    tenant = None if job.traffic is None else job.traffic.tenant
    if tenant is None:
        return {}
    planned = [state.traffic.collectives[k].weight for k in collectives if state.traffic.collectives[k].tenant]
    return {"tenant": tenant, "planned_weight": planned[0] if planned else None}


def _classes(state: ControllerState, collectives: Sequence[int]) -> dict[str, Any]:
    """Return the classes of priority of the collectives of a job; nothing if all have the lowest one."""
    classes = sorted({state.traffic.collectives[k].priority for k in collectives})
    return {"classes": classes} if any(classes) else {}


def plan(
    state: ControllerState,
    computed_at: float,
    active: Active,
    waits_for: Sequence[str] = (),
    refused: Mapping[str, Any] | None = None,
    hashed: Plan | None = None,
) -> bytes:
    """Return the plan, its time, and the plan that the switches enforce.

    Args:
        state: with a candidate.
        computed_at: when the plan was computed, seconds since 1970.
        active: epoch and time of the plan that the switches hold; ``None``: none.
        waits_for: names of connected switches that do not have its rules.
        refused: why it is on no switch.
        hashed: ECMP's plan, to be given in its place.

    Raises:
        UnavailableError: the state has no plan.
    """
    there, candidate = _planned(state)
    return orjson.dumps(
        {
            "mode": state.desired.mode,
            "enforcement": state.desired.enforcement,
            "computed": {"epoch": state.epoch, "since": when(computed_at)},
            "active": None if active is None else {"epoch": active[0], "since": when(active[1])},
            "waits_for": list(waits_for),
            "refused": refused,
            "under": "plan" if hashed is None else "ecmp",
            "plan": plan_document(
                there, candidate.traffic, hashed or candidate.plan, None if hashed else _paces(state)
            ),
        }
    )


def schedule(state: ControllerState) -> dict[str, Any]:
    """Return when the jobs' iterations begin.

    Raises:
        UnavailableError: the state has no plan.
    """
    made = _planned(state)[1].plan.schedule
    return {"epoch": state.epoch, "schedule": None if made is None else schedule_document(made)}


def job_shift(state: ControllerState, name: str) -> dict[str, Any]:
    """Return when the iterations of one job begin.

    Raises:
        UnavailableError: the state has no plan.
    """
    made = _planned(state)[1].plan.schedule
    row = None if made is None else made.shift_of(name)
    return {"epoch": state.epoch, "shift": None if row is None else shift_document(row)}


def routes(
    state: ControllerState,
    host: str,
    settings: Settings,
    learned: LearnedPorts = NONE_LEARNED,
    round_trip_seconds: float | None = None,
) -> bytes:
    """Return everything that a host of the fabric sends.

    Args:
        state: with a candidate.
        host: the name of the host.
        settings: the options of the enforcement are taken from here.
        learned: source ports that agents have found.
        round_trip_seconds: of a host that cannot pace, and is told windows; ``None``: it is told none.

    Raises:
        UnavailableError: the state has no plan.
    """
    there, candidate = _planned(state)
    assert state.encoding is not None
    hashed, enforcement = state.desired.mode == "ecmp", state.desired.enforcement
    if state.desired.mode == "frozen" and state.applied is not None:
        hashed, enforcement = not state.applied.enforced, state.applied.enforcement
    chosen = ENFORCEMENTS.named(enforcement)
    stack, options = chosen.labels, chosen.options_of(settings)

    def labels(src_leaf: int, dst_leaf: int, path: int) -> tuple[int, ...]:
        return stack(there, src_leaf, dst_leaf, path, options)

    def destination(dst: int, path: int) -> str | None:
        return chosen.destination(there, dst, path, options)

    wire = state.encoding
    if chosen.learns_ports and not hashed:
        wire = with_learned_ports(there, candidate.traffic, wire, {host: learned.get(host, {})})
    document = routes_document(
        there,
        candidate.traffic,
        candidate.plan,
        wire,
        host,
        hashed=hashed,
        labels=labels,
        destination=destination,
        paces=state.paces,
        round_trip_seconds=round_trip_seconds,
    )
    return orjson.dumps({**document, "mode": state.desired.mode, "enforcement": enforcement, "epoch": state.epoch})


def mode(state: ControllerState, record: ModeSetting | None) -> dict[str, Any]:
    """Return how plans are enforced, since when, and by whom this was set."""
    return {
        "mode": state.desired.mode,
        "enforcement": state.desired.enforcement,
        "since": None if record is None else when(record.changed),
        "by": None if record is None else record.by,
        "epoch": state.epoch,
    }


def learning(state: ControllerState, record: LearningSetting | None) -> dict[str, Any]:
    """Return whether jobs are learned and planned, since when, and by whom this was set."""
    return {
        "learning": state.desired.learning,
        "since": None if record is None else when(record.changed),
        "by": None if record is None else record.by,
    }


def _paces(state: ControllerState) -> Paces | None:
    """Return the paces of the rows of the plan: in mode ``frozen`` they are those of other paths."""
    return state.paces if state.desired.mode == "planned" else None


def _planned(state: ControllerState) -> tuple[Fabric, PlanCandidate]:
    if state.fabric is None or state.candidate is None:
        raise UnavailableError("there is no plan yet")
    return state.fabric, state.candidate


def _enforced_jobs(state: ControllerState, lacking: frozenset[str] | None) -> frozenset[str]:
    """Return the jobs with flows of which every switch on their paths enforces the newest plan."""
    if lacking is None or state.desired.mode == "ecmp":
        return frozenset()
    names = frozenset(job.name for job in state.jobs if job.ports.size and job.traffic is not None)
    return names - jobs_through(state, lacking)
