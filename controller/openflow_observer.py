"""What OpenFlow switches show of the network."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from controller.core.ports.observer import ObserverCounts
from controller.core.ports.runtime import Signal
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.limits.switch_names import SwitchNames
from controller.southbound.openflow.connections.duplicate_dpid import DpidRegistry
from controller.southbound.openflow.observing.discovery import Discovery
from controller.southbound.openflow.observing.host_finder import HostFinder
from controller.southbound.openflow.observing.prober import Prober
from controller.southbound.openflow.observing.watcher import Watcher
from controller.southbound.rollout.watch_rules import FlowCount


@dataclass(frozen=True)
class OpenFlowObserver:
    """A ``controller.core.ports.observer.Observer``: discovery packets, ARP, and the ports of connected switches."""

    network_changed: Signal
    cable_failed: Signal
    notices_changed: Signal
    _discovery: Discovery
    _prober: Prober
    _hosts: HostFinder
    _watcher: Watcher
    _dpids: DpidRegistry
    _names: SwitchNames

    def cables_changed(self, failed: bool) -> None:
        """Signal that others have shown something of cables; ``failed``: that one more is down."""
        if failed:
            self.cable_failed.set()
        self.network_changed.set()

    def observe(self) -> NetworkState:
        """Return a snapshot of the network."""
        return self._discovery.snapshot()

    def look_for_hosts(self, fabric: Fabric | None) -> None:
        """Look for the hosts of this fabric that are not heard."""
        self._hosts.fabric = fabric

    def watch_flows(self, leaves: Sequence[SwitchKey], hosts: Set[int]) -> Sequence[FlowCount]:
        """Watch for RoCEv2 flows that are in no plan; return what was counted since the last call."""
        return self._watcher.step([leaf for leaf in leaves if isinstance(leaf, int)], hosts)

    def stop_watching(self) -> None:
        """Remove the rules of ``watch_flows`` from the switches."""
        self._watcher.stop()

    def notices(self) -> list[str]:
        """Return the faults of connections and of discovery, for people."""
        return [*self._dpids.notices(), *self._prober.notices()]

    def counts(self) -> ObserverCounts:
        """Return what has happened since the start."""
        shared = self._dpids.context
        return ObserverCounts(
            refused=self._dpids.refused,
            ended=dict(shared.ends),
            dropped_packets={self._names(dpid): count for dpid, count in shared.dropped.items()},
            watch_packets={"taken": shared.watched.taken, "dropped": shared.watched.dropped},
            hosts=self._hosts.counts(),
        )

    def discovery(self) -> DiscoveryCounts:
        """Return what link discovery has done, and how it goes."""
        return self._prober.counts()
