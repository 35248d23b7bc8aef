"""Counters and state of link discovery, for metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DiscoveryCounts:
    """Discovery at one moment.

    Attributes:
        sent: packets sent since the start.
        received: packets received since the start that were believed.
        refused: packets that were not believed, since the start, by kind.
        round_age: seconds since the last complete round over all ports.
        period: seconds that a round takes.
        lag: how late the sender was at most in the last seconds, in seconds.
        silent: ports that are up and whose packets are lost.
        unconfirmed: ports that should lead to a switch, and whose packets have not come back yet.
    """

    sent: int = 0
    received: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    round_age: float = 0.0
    period: float = 0.0
    lag: float = 0.0
    silent: int = 0
    unconfirmed: int = 0
