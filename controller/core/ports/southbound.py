"""The operations that the controller needs from the switch side; ``controller.app`` connects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controller.model.network_state import NetworkState
from controller.southbound.desired_rules import DesiredRules
from controller.southbound.discovery_counts import DiscoveryCounts
from controller.southbound.host_counts import HostCounts
from controller.southbound.rollout import Refusal
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
    hosts: HostCounts = field(default_factory=HostCounts)


@dataclass(frozen=True)
class Southbound:
    """The interface to the switches: observation, installation of rules, and reading.

    Attributes:
        observe: takes a snapshot of the network.
        install: is called with the rules that switches should hold; does not block.
        switches: each connected one.
        refusal: why the newest rules are not on the switches, if one of them does not take them.
        next_try: seconds until these are tried again; ``None``: no try is planned, or one is under way.
        notices: what else is wrong with connections, for people.
        counts: what has happened since the start.
        discovery: what link discovery has done, and how it goes.
        read: what the switches hold and have counted, as they say themselves; blocks the calling task.
    """

    observe: Callable[[], NetworkState]
    install: Callable[[DesiredRules], None]
    switches: Callable[[], Sequence[SwitchReport]]
    refusal: Callable[[], Refusal | None] = lambda: None
    notices: Callable[[], Sequence[str]] = tuple
    counts: Callable[[], SouthboundCounts] = SouthboundCounts
    read: Callable[[], FabricSnapshot] = lambda: FabricSnapshot(0.0)
    next_try: Callable[[], float | None] = lambda: None
    discovery: Callable[[], DiscoveryCounts] = DiscoveryCounts
