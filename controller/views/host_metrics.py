"""The metrics of hosts' NICs, as their agents report them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from controller.core.ports.host_agents import AgentState, NicCounters

ALL_CLASSES = "all"
"""In place of a class: pause frames that stop all of them, and drops that are counted together."""

_Row = tuple[tuple[str, ...], int | None]


def host_metrics(states: Sequence[AgentState]) -> Iterator[Metric]:
    """Yield the families; what a NIC does not count has no sample."""
    known = [
        (state.host, state.report.counters)
        for state in states
        if state.report is not None and state.report.counters is not None
    ]
    by_class = ("host", "direction", "class")
    yield _family(
        "pause_frames",
        "Pause frames of a host's NIC: of a class (PFC), or those that stop all classes.",
        by_class,
        (row for host, counters in known for row in _pauses(host, counters)),
    )
    yield _family(
        "dropped_packets",
        "Packets that a host's NIC has dropped: received ones of a class, or those of all classes.",
        by_class,
        (row for host, counters in known for row in _drops(host, counters)),
    )
    yield _family(
        "ecn_marked_packets",
        "Packets with an ECN mark that a host's NIC has received.",
        ("host",),
        (((host,), counters.ecn_marked) for host, counters in known),
    )
    yield _family(
        "congestion_notifications",
        "Congestion notification packets (CNPs) of a host's NIC.",
        ("host", "direction"),
        (
            row
            for host, counters in known
            for row in (
                ((host, "received"), counters.cnp_received),
                ((host, "sent"), counters.cnp_sent),
            )
        ),
    )


def _pauses(host: str, counters: NicCounters) -> Iterator[_Row]:
    yield from _classes(host, "received", counters.pause_received)
    yield (host, "received", ALL_CLASSES), counters.link_pause_received
    yield from _classes(host, "sent", counters.pause_sent)
    yield (host, "sent", ALL_CLASSES), counters.link_pause_sent


def _drops(host: str, counters: NicCounters) -> Iterator[_Row]:
    yield from _classes(host, "received", counters.dropped)
    yield (host, "received", ALL_CLASSES), counters.received_dropped
    yield (host, "sent", ALL_CLASSES), counters.sent_dropped


def _classes(host: str, direction: str, values: Sequence[int | None] | None) -> Iterator[_Row]:
    for number, value in enumerate(values or ()):
        yield (host, direction, str(number)), value


def _family(name: str, text: str, labels: Sequence[str], rows: Iterator[_Row]) -> Metric:
    family = CounterMetricFamily(f"fairspine_host_{name}", text, labels=labels)
    for values, count in rows:
        if count is not None:
            family.add_metric(values, count)
    return family
