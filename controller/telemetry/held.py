"""What switches hold and have counted, as they say themselves: what a trace is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.southbound.rules import RuleSet, SwitchRules
from controller.telemetry.counts import SwitchCount

FRESH = 2.0
"""Seconds for which a reading is good enough for the next reader."""

WINDOW = 1.0
"""Seconds that two readings must lie apart for what was counted between them to say something."""


@dataclass(frozen=True)
class Held:
    """One switch.

    Attributes:
        rules: all of its rules and groups, also those that are not ours: a packet does not ask whose they are.
        count: its counters.
        dead: ports that are down, as fail-over groups see it.
    """

    rules: SwitchRules
    count: SwitchCount
    dead: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Reading:
    """All connected switches.

    Attributes:
        at: when it was complete, in seconds since 1970.
        switches: by datapath id.
        silent: connected switches that did not answer, and why.
        before: an earlier reading's counters of the switches that have held the same rules since.
    """

    at: float
    switches: Mapping[int, Held] = field(default_factory=dict)
    silent: Mapping[int, str] = field(default_factory=dict)
    before: Mapping[int, SwitchCount] = field(default_factory=dict)

    @property
    def rules(self) -> RuleSet:
        """What all of them hold."""
        return RuleSet({dpid: held.rules for dpid, held in self.switches.items()})

    @property
    def now(self) -> dict[int, SwitchCount]:
        """Their counters."""
        return {dpid: held.count for dpid, held in self.switches.items()}
