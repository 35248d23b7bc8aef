"""A plan as plain data: the output of ``fairspine plan --format json`` and of the HTTP interface.

The shapes are those of ``controller.rest.schemas``; missing numbers (NaN) are null. The documents are
for orjson: their flows are encoded already (``orjson.Fragment``), a few at a time. As Python objects, those of a large
plan would be a million, and each full garbage collection would block every thread for a tenth of a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.paces import NOT_PACED, FlowPace, Paces
from controller.model.packets.flow_ports import protocol_fields, udp_source
from controller.model.paths.plane_places import plane_numbers
from controller.model.paths.ways import NO_LINK
from controller.model.plan import Plan, Starved
from controller.model.priority import DSCP
from controller.model.timing import JobShift, JobTimes, PlanTimes, Schedule
from controller.model.traffic import Collective, Traffic
from controller.model.units import GBIT
from controller.planning.sending_seconds import collective_seconds, flow_seconds
from controller.planning.slowest import slowest
from controller.planning.tenant_rows import tenant_rows
from controller.southbound.enforcement.flow_encoding import FlowEncoding

Flows = NDArray[np.int64] | IntArray

Labels = Callable[[int, int, int], tuple[int, ...]]
"""The labels of packets from a leaf to a leaf (their indices) on a path, the outermost first."""

Destination = Callable[[int, int], str | None]
"""The address by which senders choose a path (its number) to a host (its index); ``None``: the usual one."""

_CHUNK = 1000  # flows encoded at a time


def no_labels(_src_leaf: int, _dst_leaf: int, _path: int) -> tuple[int, ...]:
    """Return no labels."""
    return ()


def usual_destination(_host: int, _path: int) -> None:
    """Return no address."""


def plan_document(fabric: Fabric, traffic: Traffic, plan: Plan, paces: Paces | None = None) -> dict[str, Any]:
    """Return the whole plan; ``flows`` are encoded. ``paces`` of its rows; ``None``: hosts are asked for none."""
    objective = plan.objective
    return {
        "policy": plan.policy,
        "seconds": plan.seconds,
        "min_speed": objective.min_speed,
        "min_level": objective.min_level,
        "ideal_within": objective.ideal_within if math.isfinite(objective.ideal_within) else None,
        "bound_split": plan.bound.split,
        "bound_split_exact": plan.bound.split_exact,
        "bound_single": plan.bound.single,
        "gap": plan.gap,
        "levels": [
            {"level": step.level, "bound": step.bound, "collectives": step.collectives} for step in objective.levels
        ],
        "times": None if plan.times is None else times_document(plan.times),
        "schedule": None if plan.schedule is None else schedule_document(plan.schedule),
        **({"classes": [{"job": row.job, "class": row.priority} for row in plan.classes]} if plan.classes else {}),
        **({"starved": [starved_document(row) for row in plan.starved]} if plan.starved else {}),
        "mtu": None if paces is None else paces.packets.mtu,
        "unroutable": [traffic.flow_id(flow) for flow in plan.unroutable.tolist()],
        **({"tenants": tenant_rows(fabric.tenants, traffic, plan)} if fabric.tenants else {}),
        "collectives": collective_rows(traffic, plan, range(len(traffic.collectives))),
        "flows": _encoded_flows(fabric, traffic, plan, np.arange(traffic.n_flows), paces),
        "links": [
            {"id": name, "plane": plane, "gbps": gbps, "load_gbps": load}
            for name, plane, gbps, load in zip(
                fabric.link_ids,
                plane_numbers(fabric),
                fabric.link_gbps.tolist(),
                objective.link_load.tolist(),
                strict=True,
            )
        ],
    }


def starved_document(row: Starved) -> dict[str, Any]:
    """Return a class that starves on a link."""
    return {"link": row.link, "class": row.priority, "work": row.work}


def times_document(times: PlanTimes) -> dict[str, Any]:
    """Return the expected iteration times."""
    return {
        **slowdown_document(times),
        "jobs": [{"job": row.job, **job_times_document(row)} for row in times.jobs],
    }


def slowdown_document(times: PlanTimes) -> dict[str, Any]:
    """Return the mean expected slowdown and its bound."""
    return {"slowdown": times.slowdown, "bound": times.bound, "gap": times.gap}


def job_times_document(row: JobTimes) -> dict[str, Any]:
    """Return the expected iteration of one job."""
    return {
        "compute_seconds": row.compute_seconds,
        "alone_seconds": row.alone_seconds,
        "iteration_seconds": row.iteration_seconds,
        "slowdown": row.slowdown,
        "duty": row.duty,
    }


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """Return when the jobs' iterations begin."""
    return {
        "slowdown": schedule.slowdown,
        "bound": schedule.bound,
        "gap": schedule.gap,
        "jobs": [shift_document(row) for row in schedule.jobs],
    }


def shift_document(row: JobShift) -> dict[str, Any]:
    """Return when the iterations of one job begin."""
    return {
        "job": row.job,
        "period_seconds": row.period_seconds,
        "shift_seconds": row.shift_seconds,
        "hold": row.hold,
        "iteration_seconds": row.iteration_seconds,
        "compatibility": row.compatibility,
    }


def job_parts(fabric: Fabric, traffic: Traffic, plan: Plan, job: str, paces: Paces | None = None) -> dict[str, Any]:
    """Return one job's part: ``bytes``, ``min_speed``, ``times``, ``unroutable``, ``collectives`` and ``flows``."""
    members = [k for k, row in enumerate(traffic.collectives) if row.job == job]
    flows = np.flatnonzero(np.isin(traffic.collective, members))
    times = () if plan.times is None else plan.times.jobs
    stranded = np.intersect1d(flows, plan.unroutable)
    return {
        "bytes": int(traffic.bytes[flows].sum()),
        "min_speed": slowest(plan, members),
        "times": next((job_times_document(row) for row in times if row.job == job), None),
        "unroutable": [traffic.flow_id(flow) for flow in stranded.tolist()],
        "collectives": collective_rows(traffic, plan, members),
        "flows": _encoded_flows(fabric, traffic, plan, flows, paces),
    }


def collective_rows(traffic: Traffic, plan: Plan, collectives: Iterable[int]) -> list[dict[str, Any]]:
    """Return a row with the speed of each of some collectives."""
    objective = plan.objective
    seconds = collective_seconds(objective)
    healthy = objective.healthy_seconds
    slowdown = seconds / np.where(healthy > 0, healthy, np.nan)
    times = {} if plan.times is None else {row.job: row for row in plan.times.jobs}
    return [
        {
            "job": traffic.collectives[k].job,
            "name": traffic.collectives[k].name,
            "speed": _number(objective.speed[k]),
            "ideal_seconds": _number(objective.ideal_seconds[k]),
            "seconds": _number(seconds[k]),
            "slowdown": _number(slowdown[k]),
            **_sending(times.get(traffic.collectives[k].job), traffic.collectives[k]),
            **({"class": traffic.collectives[k].priority} if traffic.collectives[k].priority else {}),
        }
        for k in collectives
    ]


def _sending(job: JobTimes | None, row: Collective) -> dict[str, float | None]:
    """Return how often the collectives of a phase are sent, and for which part of the time.

    If the job states what its collectives wait for, for which part of the time this one is sent, and what waits for it.
    """
    own = None if job is None else next((each for each in job.collectives if each.name == row.name), None)
    if job is not None and own is not None:
        share = min(1.0, own.seconds / job.iteration_seconds)
        return {
            "period_seconds": job.iteration_seconds,
            "duty": share,
            "binds": own.binds,
            "slack_seconds": own.slack_seconds,
        }
    seconds = {} if job is None or job.collectives else dict(job.phase_seconds)
    if job is None or row.phase not in seconds:
        return {"period_seconds": None, "duty": None}
    return {"period_seconds": job.iteration_seconds, "duty": seconds[row.phase] / job.iteration_seconds}


def flow_rows(
    fabric: Fabric, traffic: Traffic, plan: Plan, flows: Flows, paces: Paces | None = None
) -> list[dict[str, Any]]:
    """Return rows of some flows, ascending, with their paths; no paths where a flow is unroutable."""
    hosts = [host.name for host in fabric.hosts]
    table = traffic.collectives
    columns = zip(
        traffic.collective[flows].tolist(),
        traffic.number[flows].tolist(),
        traffic.src[flows].tolist(),
        traffic.dst[flows].tolist(),
        traffic.bytes[flows].tolist(),
        traffic.udp_src[flows].tolist(),
        _pieces(fabric, traffic, plan.assignment, flows),
        strict=True,
    )
    return [
        {
            "id": f"{table[k].job}/{table[k].name}/{table[k].flow_name(number)}",
            "job": table[k].job,
            "collective": table[k].name,
            "src": hosts[src],
            "dst": hosts[dst],
            "bytes": size,
            "udp_src": udp_source(port),
            **protocol_fields(port),
            "paths": [
                {"share": piece.share, "links": piece.links, **_pace(paces, piece.row)._asdict()} for piece in pieces
            ],
        }
        for k, number, src, dst, size, port, pieces in columns
    ]


def _pace(paces: Paces | None, row: int) -> FlowPace:
    return NOT_PACED if paces is None else paces.of_row(row)


def _encoded_flows(fabric: Fabric, traffic: Traffic, plan: Plan, flows: Flows, paces: Paces | None) -> orjson.Fragment:
    chunks = (flows[start : start + _CHUNK] for start in range(0, len(flows), _CHUNK))
    parts = (orjson.dumps(flow_rows(fabric, traffic, plan, chunk, paces))[1:-1] for chunk in chunks)
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")


def _window(paces: Paces | None, row: int, round_trip_seconds: float | None) -> dict[str, int | None]:
    if round_trip_seconds is None:
        return {}
    return {"window_bytes": None if paces is None else paces.window_bytes(row, round_trip_seconds)}


def routes_document(
    fabric: Fabric,
    traffic: Traffic,
    plan: Plan,
    wire: FlowEncoding,
    host: str,
    *,
    hashed: bool = False,
    labels: Labels = no_labels,
    destination: Destination = usual_destination,
    paces: Paces | None = None,
    round_trip_seconds: float | None = None,
) -> dict[str, Any]:
    """Return what the agent on a host needs: every flow that the host sends, by pieces, without epoch and mode.

    Args:
        fabric: the fabric.
        traffic: the flows.
        plan: the plan, from which the rates are taken.
        wire: the pieces, their paths and ports.
        host: the name of the sending host.
        hashed: switches hash all traffic, so no flow has a path of its own.
        labels: the labels that switches put on packets.
        destination: the address by which senders choose a path to a host.
        paces: of the pieces; ``None``: hosts are asked for none.
        round_trip_seconds: of a host that cannot pace, and is told windows; ``None``: it is told none.
    """
    sender = fabric.host_index[host]
    flows = np.flatnonzero(traffic.src == sender)
    gbps = np.nan_to_num(traffic.bytes[flows] * GBIT / flow_seconds(traffic, plan.objective)[flows])
    leaf, target = int(fabric.host_leaf[sender]), fabric.host_leaf[traffic.dst]

    def piece(flow: int, rate: float, one: _Piece) -> dict[str, Any]:
        port, way = int(wire.udp_src[one.row]), one.path >= 0 and not hashed
        return {
            "path": fabric.path_names[one.path] if way else None,
            "share": one.share,
            "rate_gbps": rate * one.share,
            **_pace(paces, one.row)._asdict(),
            **_window(paces, one.row, round_trip_seconds),
            "links": [] if hashed else one.links,
            "labels": labels(leaf, int(target[flow]), one.path) if way else [],
            "dst_ip": destination(int(traffic.dst[flow]), one.path) if way else None,
            "udp_src": udp_source(port),
        }

    def of_connection(flow: int) -> dict[str, Any]:
        connection, qp = traffic.connection_id(flow)
        qps = traffic.collectives[traffic.collective[flow]].qps
        return {"flow": connection, "qp": qp, "qps": qps.count, "qp_mode": qps.mode}

    rows = zip(flows.tolist(), gbps.tolist(), _pieces(fabric, traffic, wire, flows), strict=True)
    return {
        "host": host,
        "ip": fabric.hosts[sender].ip,
        "mtu": None if paces is None else paces.packets.mtu,
        "flows": [
            {
                "id": traffic.flow_id(flow),
                **of_connection(flow),
                "dst": fabric.hosts[traffic.dst[flow]].name,
                "dst_ip": fabric.hosts[traffic.dst[flow]].ip,
                "bytes": int(traffic.bytes[flow]),
                **protocol_fields(int(traffic.udp_src[flow])),
                **_marks(traffic.collectives[traffic.collective[flow]]),
                "pieces": [piece(flow, rate, one) for one in pieces],
            }
            for flow, rate, pieces in rows
        ],
    }


def _marks(row: Collective) -> dict[str, int]:
    """Return what packets of a collective carry to get their class of priority; nothing in the lowest one."""
    return {"class": row.priority, "dscp": DSCP[row.priority]} if row.priority else {}


class _Piece(NamedTuple):
    """A piece of a flow: its row, path class, share, and the names of its links."""

    row: int
    path: int
    share: float
    links: list[str]


def _pieces(fabric: Fabric, traffic: Traffic, every: Assignment | FlowEncoding, flows: Flows) -> list[list[_Piece]]:
    """Return the pieces of each of some flows, which are ascending; none of an unroutable flow."""
    if not len(flows):
        return []
    start, end = np.searchsorted(every.flow, [flows[0], flows[-1] + 1])
    near = slice(int(start), int(end))
    rows = near.start + np.flatnonzero(np.isin(every.flow[near], flows) & (every.path[near] != UNROUTABLE))
    flow, path = every.flow[rows], every.path[rows]
    src, dst = traffic.src[flow], traffic.dst[flow]
    between = fabric.ways.links(fabric.host_leaf[src], fabric.host_leaf[dst], path)
    ids = fabric.link_ids
    pieces = []
    for row, k, share, first, middle, last in zip(
        rows.tolist(),
        path.tolist(),
        # Shares may exceed 1 by the solver's rounding; the documents promise at most 1.
        np.minimum(every.share[rows], 1.0).tolist(),
        src.tolist(),
        between.tolist(),
        (dst + fabric.n_hosts).tolist(),
        strict=True,
    ):
        links = [ids[link] for link in (first, *middle, last) if link != NO_LINK]
        pieces.append(_Piece(row, k, share, links))
    starts = np.searchsorted(flow, flows, side="left").tolist()
    ends = np.searchsorted(flow, flows, side="right").tolist()
    return [pieces[start:end] for start, end in zip(starts, ends, strict=True)]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
