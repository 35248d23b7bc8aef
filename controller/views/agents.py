"""What is known of the agents of hosts, as a document (``controller.rest.schemas.HostList``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from controller.core.ports.host_agents import AgentState, PortReport


def agent_list(states: Sequence[AgentState]) -> bytes:
    """Return the document."""
    return orjson.dumps({"hosts": [_row(state) for state in states]})


def port_summary(state: AgentState, report: PortReport) -> dict[str, Any]:
    """Return what is known of the source ports of a host (``controller.rest.schemas.HostPortsDocument``)."""
    ages = [each.seconds for each in report.flows if each.seconds is not None]
    return {
        "state": "unknown" if state.silent else report.state,
        "planned": len(report.flows),
        "known": sum(each.port is not None for each in report.flows),
        "sampled": sum(each.evidence == "samples" for each in report.flows),
        "oldest_seconds": round(max(ages) + (state.heard_seconds or 0.0), 1) if ages else None,
        "moved": report.moved,
        "unreachable": sum(len(each.paths) for each in report.unreachable),
        "probes": report.probes,
        "unanswered": report.unanswered,
        "hash": report.hash,
        "qps": None if report.qps is None else len(report.qps),
        "packets": report.packets,
        "devices": None if report.devices is None else [*report.devices],
        "planned_qps": None if report.qps is None else sum(each.number is not None for each in report.qps),
    }


def _row(state: AgentState) -> dict[str, Any]:
    report = state.report
    trips = () if report is None else report.round_trips
    return {
        "host": state.host,
        "takes_part": state.takes_part,
        "heard_seconds": None if state.heard_seconds is None else round(state.heard_seconds, 1),
        "epoch": state.epoch,
        "confirmed": state.confirmed,
        "dead_paths": None if report is None else len(report.dead),
        "lost_probes": None if report is None else sum(trip.lost for trip in trips),
        "counters": None if report is None or report.counters is None else asdict(report.counters),
        "pacing": None if report is None or report.pacing is None else asdict(report.pacing),
        "ports": None if report is None or report.ports is None else port_summary(state, report.ports),
        "slowest_us": max((trip.median_us for trip in trips if trip.median_us is not None), default=None),
    }
