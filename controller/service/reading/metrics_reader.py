"""All that a scrape of the metrics tells, taken at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.core.ports.runtime import Runtime
from controller.core.ports.southbound import Southbound
from controller.core.ports.store import Membership
from controller.service.measurements import Measurements
from controller.service.reconciling.reconciler import Reconciler
from controller.views import cluster
from controller.views.metrics import MetricsSnapshot


class MetricsReader:
    """Reads the parts of the service."""

    def __init__(
        self,
        runtime: Runtime,
        southbound: Southbound,
        reconciler: Reconciler,
        measurements: Measurements,
        member: Membership | None,
        streams: Callable[[], int],
    ) -> None:
        """Keep the parts; ``streams`` tells how many streams of events are open."""
        self._runtime, self._southbound, self._reconciler = runtime, southbound, reconciler
        self._measurements, self._member, self._streams = measurements, member, streams

    def snapshot(self, health: Mapping[str, Any]) -> MetricsSnapshot:
        """Return what the metrics tell now; ``health``: the document of the controller's health."""
        measurements, reconciler, southbound = self._measurements, self._reconciler, self._southbound
        return MetricsSnapshot(
            state=reconciler.state,
            status=health["status"],
            degraded_service=len(health["degraded_service"]),
            speeds=reconciler.installation.speeds(reconciler.state),
            switches=tuple(southbound.switches()),
            expected=health["switches"]["expected"],
            active=reconciler.installation.active,
            computed_at=reconciler.computed_at,
            refusal=southbound.refusal,
            counts=southbound.counts(),
            discovery=southbound.discovery(),
            store_works=not reconciler.store_writer.error,
            readings=measurements.readings,
            measured=measurements.measured_at(self._runtime),
            period=measurements.period,
            streams=self._streams(),
            replica=cluster.counts(self._member, self._runtime.clock(), reconciler.installation.first_active),
            most_links=measurements.most_links,
        )
