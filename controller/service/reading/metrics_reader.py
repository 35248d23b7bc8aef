"""All that a scrape of the metrics tells, taken at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.core.ports.enforcer import left_alone
from controller.core.ports.host_agents import AgentState
from controller.core.ports.network import Network
from controller.core.ports.runtime import Runtime
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
        network: Network,
        reconciler: Reconciler,
        measurements: Measurements,
        member: Membership | None,
        streams: Callable[[], int],
    ) -> None:
        """Keep the parts; ``streams`` tells how many streams of events are open."""
        self._runtime, self._network, self._reconciler = runtime, network, reconciler
        self._measurements, self._member, self._streams = measurements, member, streams

    def snapshot(self, health: Mapping[str, Any]) -> MetricsSnapshot:
        """Return what the metrics tell now; ``health``: the document of the controller's health."""
        measurements, reconciler = self._measurements, self._reconciler
        observer, enforcer = self._network.observer, self._network.enforcer
        return MetricsSnapshot(
            state=reconciler.state,
            status=health["status"],
            degraded_service=len(health["degraded_service"]),
            speeds=reconciler.installation.speeds(reconciler.state),
            switches=tuple(enforcer.switches()),
            expected=health["switches"]["expected"],
            active=reconciler.installation.active,
            computed_at=reconciler.computed_at,
            refusal=enforcer.refusal,
            counts=enforcer.counts(),
            observed=observer.counts(),
            discovery=observer.discovery(),
            store_works=not reconciler.store_writer.error,
            readings=measurements.readings,
            measured=measurements.measured_at(self._runtime),
            period=measurements.period,
            streams=self._streams(),
            replica=cluster.counts(self._member, self._runtime.clock(), reconciler.installation.first_active),
            most_links=measurements.most_links,
            left_alone=left_alone(reconciler.state.fabric, enforcer),
            agents=enforcer.agents,
            hosts=self._hosts(),
        )

    def _hosts(self) -> Sequence[AgentState]:
        """Return what agents have reported; nothing of a fabric that is too large for metrics of single hosts."""
        agents, fabric = self._network.agents, self._reconciler.state.fabric
        if agents is None or fabric is None or fabric.n_links > self._measurements.most_links:
            return ()
        return agents.states()
