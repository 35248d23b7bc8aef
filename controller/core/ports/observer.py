"""What the controller needs of the side that observes the network.

``controller.openflow_observer.OpenFlowObserver`` implements it by discovery packets, ARP
and the ports of OpenFlow switches. Another observer may learn the same from routing protocols or from hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from controller.core.ports.runtime import Signal
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.hosts.host_counts import HostCounts
from controller.southbound.rollout.watch_rules import FlowCount
from controller.telemetry.fabric_snapshot import FabricSnapshot


@dataclass(frozen=True)
class ObserverCounts:
    """Counters of an observer since the start.

    Attributes:
        refused: connections rejected.
        ended: connections that the controller has ended, by reason.
        dropped_packets: packets dropped because there were too many, by switch.
        watch_packets: packets of watch windows that were taken, and dropped because there were too many.
        hosts: counters of the host table.
    """

    refused: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    dropped_packets: Mapping[str, int] = field(default_factory=dict)
    watch_packets: Mapping[str, int] = field(default_factory=dict)
    hosts: HostCounts = field(default_factory=HostCounts)


class Observer(Protocol):
    """Says what the network is.

    Nothing here calls the controller: it waits for the signals.
    """

    @property
    def network_changed(self) -> Signal:
        """Set when a snapshot may differ from the last one."""

    @property
    def cable_failed(self) -> Signal:
        """Set, with ``network_changed``, when the port of a cable between switches has gone down."""

    @property
    def notices_changed(self) -> Signal:
        """Set when a notice has come or gone."""

    def observe(self) -> NetworkState:
        """Return a snapshot of the network; ``unobserved`` has the switches of the file that this cannot see."""

    def look_for_hosts(self, fabric: Fabric | None) -> None:
        """Look for the hosts of this fabric that are not heard; ``None``: the fabric is not known."""

    def watch_flows(self, leaves: Sequence[SwitchKey], hosts: Set[int]) -> Sequence[FlowCount]:
        """Watch for RoCEv2 flows that are in no plan; return what was counted since the last call. Does not block.

        Args:
            leaves: keys of the leaves; those that cannot count flows are passed over.
            hosts: IPv4 addresses of the hosts whose flows are counted.
        """

    def stop_watching(self) -> None:
        """End what ``watch_flows`` has begun. Does not block."""

    def notices(self) -> Sequence[str]:
        """Return the faults of connections and of discovery, for people."""

    def counts(self) -> ObserverCounts:
        """Return what has happened since the start."""

    def discovery(self) -> DiscoveryCounts:
        """Return what link discovery has done, and how it goes."""


class SnapshotReader(Protocol):
    """The reader of what switches hold and have counted; ``controller.telemetry.snapshot_reader`` implements it."""

    def read(self) -> FabricSnapshot:
        """Return a snapshot of all connected switches; blocks the calling task."""
