"""The operations that the controller needs from the switch side.

``controller.openflow_southbound.OpenFlowSouthbound`` implements them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from controller.core.ports.runtime import Signal
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState
from controller.southbound.discovery.discovery_counts import DiscoveryCounts
from controller.southbound.hosts.host_counts import HostCounts
from controller.southbound.rollout.desired_rules import DesiredRules
from controller.southbound.rollout.drift import Deviation
from controller.southbound.rollout.rollout import Refusal
from controller.southbound.rollout.watch_rules import RoceCount
from controller.southbound.rules.rule_set import RuleSet
from controller.telemetry.fabric_snapshot import FabricSnapshot


class SwitchReport(Protocol):
    """The installer's knowledge of one connected switch."""

    @property
    def dpid(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def error(self) -> str: ...
    @property
    def missing(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class SouthboundCounts:
    """Counters of the southbound side since the start.

    Attributes:
        edits: changes that switches have confirmed.
        refusals: plans that a switch has refused.
        refused: connections rejected.
        errors: OpenFlow errors by type.
        repaired: repaired rules by switch.
        contested: switches that another controller seems to manage, too.
        ended: connections that the controller has ended, by reason.
        dropped_packets: packets dropped because there were too many, by switch.
        watch_packets: packets of watch windows that were taken, and dropped because there were too many.
        hosts: counters of the host table.
    """

    edits: int = 0
    refusals: int = 0
    refused: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    contested: Sequence[str] = ()
    ended: Mapping[str, int] = field(default_factory=dict)
    dropped_packets: Mapping[str, int] = field(default_factory=dict)
    watch_packets: Mapping[str, int] = field(default_factory=dict)
    hosts: HostCounts = field(default_factory=HostCounts)


class Southbound(Protocol):
    """The switches: observation, installation of rules, and what there is to report of them.

    Nothing here calls the controller: it waits for the signals.
    """

    @property
    def network_changed(self) -> Signal:
        """Set when a snapshot may differ from the last one."""

    @property
    def cable_failed(self) -> Signal:
        """Set, with ``network_changed``, when the port of a cable between switches has gone down."""

    @property
    def switches_changed(self) -> Signal:
        """Set when a switch has reached its rules, lost or refused them, or when a notice has come or gone."""

    def observe(self) -> NetworkState:
        """Return a snapshot of the network."""

    def install(self, rules: DesiredRules) -> None:
        """Bring the switches to these rules; does not block."""

    def expect(self, rules: RuleSet) -> None:
        """Note the rules that switches are likely to hold when they are read. Does not block."""

    def withhold_changes(self, reason: str) -> None:
        """Change no switch from now on, for this reason; empty: change them again. Does not block."""

    def lead(self, term: int) -> None:
        """Become master of all switches for this term of a cluster. Does not block."""

    @property
    def connections(self) -> int:
        """The number of switches that are connected, also to a replica of a cluster that does not lead."""

    @property
    def silence(self) -> float:
        """Seconds in which this program could read, and nothing came from any switch."""

    @property
    def unheard(self) -> float:
        """Seconds since something came from a switch, also those in which this program could not read."""

    @property
    def seen_term(self) -> int:
        """The highest term of a cluster that a switch has told; 0: none has."""

    @property
    def lost(self) -> str:
        """Why switches accept this replica of a cluster as their master no longer; empty: they do."""

    def look_for_hosts(self, fabric: Fabric | None) -> None:
        """Look for the hosts of this fabric that are not heard; ``None``: the fabric is not known."""

    def watch_flows(self, leaves: Sequence[int], hosts: Set[int]) -> Sequence[RoceCount]:
        """Watch for RoCEv2 flows that are in no plan; return what was counted since the last call. Does not block.

        Args:
            leaves: datapath ids of the leaves.
            hosts: IPv4 addresses of the hosts whose flows are counted.
        """

    def stop_watching(self) -> None:
        """Remove the rules of ``watch_flows`` from the switches. Does not block."""

    def switches(self) -> Sequence[SwitchReport]:
        """Return a report of each connected switch."""

    @property
    def refusal(self) -> Refusal | None:
        """Why the newest rules are not on the switches; ``None`` while none of them has refused them."""

    @property
    def next_try(self) -> float | None:
        """Seconds until refused rules are tried again; ``None``: no try is planned, or one is under way."""

    def deviations(self) -> Mapping[int, Deviation]:
        """Return how the rules of connected switches, as read back, deviate, by datapath id; others are left out."""

    def notices(self) -> Sequence[str]:
        """Return the other faults of connections, for people."""

    def counts(self) -> SouthboundCounts:
        """Return what has happened since the start."""

    def discovery(self) -> DiscoveryCounts:
        """Return what link discovery has done, and how it goes."""


class SnapshotReader(Protocol):
    """The reader of what switches hold and have counted; ``controller.telemetry.snapshot_reader`` implements it."""

    def read(self) -> FabricSnapshot:
        """Return a snapshot of all connected switches; blocks the calling task."""
