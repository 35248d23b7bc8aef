"""What is known of the agents of hosts, as a document (``controller.rest.schemas.HostList``)."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from controller.core.ports.host_agents import AgentState


def agent_list(states: Sequence[AgentState]) -> bytes:
    """Return the document."""
    return orjson.dumps({"hosts": [_row(state) for state in states]})


def _row(state: AgentState) -> dict[str, str | bool | float | int | None]:
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
        "slowest_us": max((trip.median_us for trip in trips if trip.median_us is not None), default=None),
    }
