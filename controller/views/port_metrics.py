"""The metrics of source ports that agents of hosts have probed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from controller.core.ports.host_agents import AgentState, PortState
from controller.views.agents import port_summary

_GAUGES = {
    "planned": "Flows of a host that need a source port.",
    "known": "Flows of a host whose source port is known.",
    "unreachable": "Planned paths of a host that no source port leads over.",
    "oldest_seconds": "Time since the last answer for the source port of a host that was checked longest ago.",
}
_COUNTERS = {
    "moved": "Source ports of a host that led elsewhere while they were in use.",
    "probes": "Probes of a host for source ports.",
    "unanswered": "Probes of a host for source ports that had no answer.",
}
"""By member of the summary."""


def port_metrics(states: Sequence[AgentState]) -> Iterator[Metric]:
    """Yield the families; a host whose agent finds no ports, or has not reported, has no sample."""
    reports = [(state, state.report.ports) for state in states if state.report is not None]
    rows = {state.host: port_summary(state, report) for state, report in reports if report is not None}
    counts = Counter(row["state"] for row in rows.values())
    by_state = GaugeMetricFamily(
        "fairspine_host_ports_hosts", "Hosts by what is known of the source ports of their flows.", labels=["state"]
    )
    for name in get_args(PortState) if rows else ():
        by_state.add_metric([name], counts[name])
    yield by_state
    kinds = ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS))
    for kind, texts in kinds:
        for member, text in texts.items():
            family = kind(f"fairspine_host_ports_{member}", text, labels=["host"])
            for host, row in rows.items():
                if row[member] is not None:
                    family.add_metric([host], row[member])
            yield family
