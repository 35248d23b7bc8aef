"""The trace document of ``/v1/trace``, without the members that only the controller can fill in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.model.assignment import UNROUTABLE
from controller.model.fabric import Fabric, FloatArray
from controller.model.packets.flow_ports import protocol_fields, udp_source
from controller.model.units import GBIT
from controller.southbound.enforcement.ingress import port_mask
from controller.southbound.enforcement.learned_ports import LearnedPort
from controller.southbound.rules.priorities import LOWEST_FLOW
from controller.southbound.rules.rule import Rule
from controller.telemetry.deviation_reasons import explain
from controller.telemetry.fabric_snapshot import FabricSnapshot
from controller.telemetry.infer import HashedPaths, infer
from controller.telemetry.sent_bytes import Between, between, sent
from controller.telemetry.trace import How, Links, Traced, TraceInputs, planned_links, trace
from controller.telemetry.trace_summary import link_rows, summary

Ranks = Mapping[str, Mapping[str, int]]
"""Rank by job and host."""


@dataclass(frozen=True)
class _RealPath:
    """The real path of one row, as the document describes it.

    ``arrives``: whether its packets arrive; ``None``: not known, or only on some of the paths that a hash can pick.
    ``dscp``: what rules write into them; ``None``: nothing, or not known.
    """

    real: Links | None
    how: How
    sure: float
    differs: bool
    why: str
    arrives: bool | None = None
    dscp: int | None = None


def live_trace(
    situation: TraceInputs,
    usable: Fabric,
    reading: FabricSnapshot,
    ranks: Ranks,
    *,
    job: str | None = None,
    polled: FloatArray | None = None,
) -> dict[str, Any]:
    """Return the trace of every flow (or every flow of one job) from a snapshot of the switches.

    Args:
        situation: the desired state.
        usable: the fabric without drained links.
        reading: the snapshot of the switches.
        ranks: rank by job and host.
        job: only flows of this job; ``None``: all.
        polled: [R] rate of each row in Gbit/s from the poller, or NaN; used where this snapshot gives none.
    """
    traced = trace(situation, reading)
    carried = between(situation.fabric, reading.before, reading.now)
    own, seconds = _own_bytes(situation, traced, reading)
    hashed = any(len(each.ways) > 1 for each in traced)
    choices = infer(situation, traced, sent(situation, carried.bytes, own)) if hashed else {}
    gbps = own * GBIT / seconds
    if polled is not None:
        gbps = np.where(np.isnan(gbps), polled, gbps)
    rows = _rows_of(situation, job)
    flows = [
        _flow(situation, ranks, row, _real_path(situation, reading, row, traced[row], choices.get(row)), gbps[row])
        for row in rows
    ]
    return {
        "window": _number(float(np.nanmax(carried.seconds))) if not np.isnan(carried.seconds).all() else None,
        "flows": flows,
        **summary(_with_utilisation(situation.fabric, usable, carried), flows),
    }


def planned_trace(situation: TraceInputs, usable: Fabric, ranks: Ranks, *, job: str | None = None) -> dict[str, Any]:
    """Return a trace without switches, which takes the planned paths as the real ones."""
    rows = _rows_of(situation, job)
    flows = []
    for row in rows:
        planned = planned_links(situation, row)
        why = "no live path joins its leaves" if planned is None else ""
        flows.append(
            _flow(
                situation,
                ranks,
                row,
                _RealPath(planned, "plan", float(not why), False, why, planned is not None),
                math.nan,
            )
        )
    return {"window": None, "flows": flows, **summary(link_rows(usable), flows)}


def _rows_of(situation: TraceInputs, job: str | None) -> list[int]:
    """Return the rows of the encoding that belong to a job; all rows for ``None``."""
    if job is None:
        return list(range(len(situation.wire.flow)))
    members = [k for k, row in enumerate(situation.traffic.collectives) if row.job == job]
    rows: list[int] = np.flatnonzero(np.isin(situation.traffic.collective[situation.wire.flow], members)).tolist()
    return rows


def _real_path(
    situation: TraceInputs, reading: FabricSnapshot, row: int, traced: Traced, choice: HashedPaths | None
) -> _RealPath:
    if situation.by_probes is not None and traced.planned is not None:
        return _by_probes(situation, row, traced.planned, situation.by_probes[row])
    possible = traced.ways if choice is None else tuple(traced.ways[i] for i in choice.possible)
    why = explain(situation, reading, row, traced, possible)
    meant = traced.planned
    differs = meant is not None and bool(possible) and meant not in [way.links for way in possible if way.arrives]
    if situation.mode == "planned" and meant is not None and len(traced.ways) > 1:
        # A hash may pick the planned path, but no rule pins the flow to it.
        differs = True
    ends = {way.arrives for way in possible}
    arrives = ends.pop() if len(ends) == 1 else None
    only = traced.only
    if only is not None:
        return _RealPath(only.links if only.arrives else None, "rules", 1.0, differs, why, arrives, only.dscp)
    if choice is None:
        return _RealPath(None, "none", 0.0, differs, why, arrives)
    if choice.way is None:
        return _RealPath(None, "none", choice.sure, differs, "; ".join(filter(None, (why, choice.why))), arrives)
    way = traced.ways[choice.way]
    return _RealPath(way.links if way.arrives else None, "counters", choice.sure, differs, why, way.arrives)


def _by_probes(situation: TraceInputs, row: int, planned: Links, known: LearnedPort | None) -> _RealPath:
    """Return the path that probes with the flow's own port, or samples of its packets, have shown."""
    if known is None:
        return _RealPath(planned, "plan", 1.0, False, "")
    if known.port is None:
        return _RealPath(None, "none", 0.0, False, "no source port is known that leads over its path")
    if known.path is None:
        return _RealPath(None, "none", 0.0, False, "neither probes nor samples have shown where its source port leads")
    flow = int(situation.wire.flow[row])
    ends = int(situation.traffic.src[flow]), int(situation.traffic.dst[flow])
    real = situation.fabric.flow_links(*ends, known.path)
    name = situation.fabric.path_names[known.path]
    how: How = "samples" if known.sampled else "probes"
    why = "" if real == planned else f"its source port leads over {name}, as {how} have shown"
    return _RealPath(real, how, 1.0, real != planned, why)


def _own_bytes(
    situation: TraceInputs, traced: Sequence[Traced], reading: FabricSnapshot
) -> tuple[FloatArray, FloatArray]:
    """Return the bytes [R] that a rule of this row has counted between two readings, and the seconds [R].

    QPs that one rule forwards share its bytes in proportion to those planned. NaN if there is no such rule, if its
    rows have the same ports, or if there is no earlier reading of it.
    """
    fabric, n = situation.fabric, len(traced)
    sent_bytes, seconds = np.full(n, np.nan), np.full(n, np.nan)
    source = fabric.host_leaf[situation.traffic.src[situation.wire.flow]].tolist()
    users: dict[tuple[int, Rule], list[int]] = {}
    for row, each in enumerate(traced):
        if each.rule is not None and each.rule.priority >= LOWEST_FLOW:
            users.setdefault((fabric.leaves[source[row]].key, each.rule), []).append(row)
    planned = situation.traffic.bytes[situation.wire.flow] * situation.wire.share
    for (switch, rule), rows in users.items():
        key, old = rule.key, reading.before.get(switch)
        new = reading.switches[switch].count
        if (len(rows) > 1 and port_mask(rule) is None) or old is None or key not in new.rules:
            continue
        # A rule that is new started at 0.
        many = new.rules[key].bytes - (old.rules[key].bytes if key in old.rules else 0)
        if many >= 0:
            sent_bytes[rows] = many * planned[rows] / planned[rows].sum()
            seconds[rows] = new.at - old.at
    return sent_bytes, seconds


def _flow(situation: TraceInputs, ranks: Ranks, row: int, path: _RealPath, gbps: float) -> dict[str, Any]:
    traffic, wire, fabric = situation.traffic, situation.wire, situation.fabric
    flow = int(wire.flow[row])
    owner = traffic.collectives[traffic.collective[flow]]
    src, dst = (fabric.host_names[each[flow]] for each in (traffic.src, traffic.dst))
    places, port = ranks.get(owner.job, {}), int(wire.udp_src[row])
    planned, share = planned_links(situation, row), min(float(wire.share[row]), 1.0)
    return {
        "id": traffic.flow_id(flow),
        "piece": row - int(np.searchsorted(wire.flow, flow)),
        "job": owner.job,
        "collective": owner.name,
        "src": src,
        "dst": dst,
        "src_rank": places.get(src),
        "dst_rank": places.get(dst),
        "plane": int(fabric.planes.of_host[traffic.src[flow]]) + 1 if fabric.planes.count > 1 else None,
        "udp_src": udp_source(port),
        **protocol_fields(port),
        "share": share,
        "planned": None if planned is None else [fabric.link_ids[link] for link in planned],
        "real": None if path.real is None else [fabric.link_ids[link] for link in path.real],
        "how": path.how,
        "sure": path.sure,
        "differs": path.differs,
        "arrives": path.arrives,
        "why": path.why,
        **_segments(situation, row),
        **({} if path.dscp is None else {"dscp": path.dscp}),
        "bytes": round(float(traffic.bytes[flow]) * share),
        "rate_gbps": _number(gbps),
    }


def _segments(situation: TraceInputs, row: int) -> dict[str, Any]:
    """Return the address that packets carry on the planned path of a row, if they carry one."""
    wire, traffic = situation.wire, situation.traffic
    flow, path = int(wire.flow[row]), int(wire.path[row])
    if situation.segments is None or path == UNROUTABLE:
        return {}
    carried = situation.segments(int(traffic.src[flow]), int(traffic.dst[flow]), path)
    return {} if carried is None else {"segments": carried}


def _with_utilisation(fabric: Fabric, usable: Fabric, carried: Between) -> list[dict[str, Any]]:
    used = carried.bytes * GBIT / carried.seconds / fabric.link_gbps
    return [{**row, "utilisation": _number(float(used[fabric.link_index[row["id"]]]))} for row in link_rows(usable)]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
