"""Prometheus counters and histograms of the running controller.

Gauges are computed at scrape time (``controller.views.metrics``). Metrics are updated and collected on the event
loop only: the library's locks are eventlet's there, and a worker thread that met a held lock would block forever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.samples import Sample

from controller.telemetry.sample_columns import SampleColumns

# process_start_time_seconds gives the start time of all counters; a series for each of them would add nothing.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

FAST = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Buckets, in seconds: from a policy on a few flows to one on a million."""

REQUESTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Buckets of response times, in seconds."""

OPEN_METRICS = "application/openmetrics-text"

AT_ONCE = 200
"""Number of samples to encode at once, which takes about a millisecond."""

_COMMENTS = re.compile(rb"^# .*\n", re.MULTILINE)
_END = b"# EOF\n"

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS")


class Instruments:
    """Counters and histograms of one controller, in a registry of its own."""

    def __init__(self) -> None:
        """Create the registry and all metrics, with every counter at 0."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._plans = self._counter("plans", "Plans computed.", "policy")
        self._moved = self._counter("flows_moved", "Flows moved to another path by new plans.")
        self._solving = self._histogram(
            "plan_solve_seconds", "Computing time of the policy for a plan.", FAST, "policy"
        )
        self._installing = self._histogram(
            "plan_active_seconds",
            "Time from the request or the change of the network until the last switch has confirmed the plan.",
            FAST,
        )
        self._store_errors = self._counter("store_errors", "Number of times that the store stopped working.")
        self._polling = self._histogram(
            "poll_seconds", "Time from the request of a switch's counters to the answer.", FAST
        )
        self._skipped = self._counter("polls_skipped", "Polls skipped because the last one had not been answered.")
        self._failed = self._counter("polls_failed", "Polls without a valid answer.")
        self._requests = self._counter(
            "http_requests", "Requests answered, by operation and class of status.", "operation", "method", "status"
        )
        self._answering = self._histogram(
            "http_request_seconds",
            "Time from the head of a request to the beginning of the response.",
            REQUESTS,
            "operation",
        )

        self._sightings = self._counter("sightings", "Sightings of QPs, by what reported them.", "feeder")
        self._datagrams = self._counter(
            "sflow_datagrams", "sFlow datagrams that were taken, refused, malformed, or lost on the way.", "outcome"
        )
        self._samples = self._counter(
            "sflow_samples", "Sampled packets that were taken, dropped, or dropped by switches.", "outcome"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"fairspine_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"fairspine_{name}", text, labels, buckets=buckets, registry=self.registry)

    def planned(self, policy: str, seconds: float, moved: int) -> None:
        """Record a published plan: its policy, the solve time in seconds, and the number of moved flows."""
        self._plans.labels(policy).inc()
        self._solving.labels(policy).observe(seconds)
        self._moved.inc(moved)

    def active(self, seconds: float) -> None:
        """Record that every connected switch has confirmed a plan, ``seconds`` after its cause."""
        self._installing.observe(seconds)

    def store_failed(self) -> None:
        """Record a failure of the store."""
        self._store_errors.inc()

    def polled(self, seconds: float) -> None:
        """Record a successful poll of a switch and its duration in seconds."""
        self._polling.observe(seconds)

    def poll_skipped(self) -> None:
        """Record a skipped poll, whose switch had not answered the previous one."""
        self._skipped.inc()

    def poll_failed(self) -> None:
        """Record a poll without a usable answer."""
        self._failed.inc()

    def request_answered(self, operation: str, method: str, status: int, seconds: float) -> None:
        """Record an answered HTTP request.

        Args:
            operation: its id in the OpenAPI document; empty: the request matched none.
            method: HTTP method of the request.
            status: HTTP status of the answer.
            seconds: time from the request's head to the beginning of its answer.
        """
        name = operation or "none"
        self._requests.labels(name, method if method in METHODS else "other", f"{status // 100}xx").inc()
        self._answering.labels(name).observe(seconds)

    def seen(self, feeder: str, number: int) -> None:
        """Record sightings of QPs that a feeder has reported."""
        self._sightings.labels(feeder).inc(number)

    def sflow_reported(self, datagrams: Mapping[str, int], samples: Mapping[str, int]) -> None:
        """Record what the sFlow collector has received, by outcome."""
        for counter, numbers in ((self._datagrams, datagrams), (self._samples, samples)):
            for outcome, number in numbers.items():
                counter.labels(outcome).inc(number)

    def collect(self) -> list[Metric]:
        """Return all metric families with their current values."""
        return list(self.registry.collect())


class _Part:
    """Part of a metric family, in the form that the library's encoders take."""

    def __init__(self, family: Metric, samples: Sequence[Sample]) -> None:
        self._family = copy(family)
        self._family.samples = list(samples)

    def collect(self) -> Iterable[Metric]:
        return [self._family]


def exposition(
    families: Iterable[Metric | SampleColumns], accept: str, rest: Callable[[], None] = lambda: None
) -> tuple[bytes, str]:
    """Return the encoded metrics and their content type (OpenMetrics, or Prometheus's text format).

    Args:
        families: the metrics to encode.
        accept: the Accept header of the scraper.
        rest: called at intervals, since a large fabric has many samples.
    """
    # The library's own negotiation fails on malformed versions, and claims any version that is requested.
    accepted = {offer.partition(";")[0].strip().lower() for offer in accept.split(",")}
    open_metrics = OPEN_METRICS in accepted
    text = bytearray()
    for family in families:
        if isinstance(family, SampleColumns):
            text += _encoded(_Part(family.head(), []), open_metrics)
            for lines in family.parts():
                text += lines
                rest()
            continue
        for first in range(0, max(len(family.samples), 1), AT_ONCE):
            part = _encoded(_Part(family, family.samples[first : first + AT_ONCE]), open_metrics)
            # HELP and TYPE lines of a family precede its first sample only.
            text += _COMMENTS.sub(b"", part) if first else part
            rest()
    if open_metrics:
        return bytes(text + _END), openmetrics.CONTENT_TYPE_LATEST
    return bytes(text), CONTENT_TYPE_PLAIN_0_0_4


def _encoded(part: _Part, open_metrics: bool) -> bytes:
    if not open_metrics:
        return generate_latest(part)
    text: bytes = openmetrics.generate_latest(part)  # type: ignore[no-untyped-call]
    return text.removesuffix(_END)
