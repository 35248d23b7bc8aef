"""Snapshot of the rules and counters of all switches, as read back from them; the input of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.model.switch_key import SwitchKey
from controller.southbound.rules.rule import RuleKey
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from controller.telemetry.counters import SwitchCounters

FRESH = 2.0
"""Seconds for which a snapshot is reused."""

WINDOW = 1.0
"""Least time in seconds between two readings whose counters are compared."""


@dataclass(frozen=True)
class SwitchSnapshot:
    """The observed state of one switch.

    Attributes:
        rules: all rules and groups of the switch, including those that the controller did not install.
        count: counters of the switch.
        dead: ports that are down, as fail-over groups see it.
        foreign: keys of the rules that the controller did not install, with their cookies.
    """

    rules: SwitchRules
    count: SwitchCounters
    dead: frozenset[int] = frozenset()
    foreign: Mapping[RuleKey, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FabricSnapshot:
    """The observed state of all connected switches.

    Attributes:
        at: when the snapshot was complete, in seconds since 1970.
        switches: state by key.
        silent: reason by key for connected switches that did not answer.
        before: counters of an earlier reading, for switches whose rules have not changed since.
    """

    at: float
    switches: Mapping[SwitchKey, SwitchSnapshot] = field(default_factory=dict)
    silent: Mapping[SwitchKey, str] = field(default_factory=dict)
    before: Mapping[SwitchKey, SwitchCounters] = field(default_factory=dict)

    @property
    def rules(self) -> RuleSet:
        """Rules and groups of all switches."""
        return RuleSet({key: held.rules for key, held in self.switches.items() if isinstance(key, int)})

    @property
    def now(self) -> dict[SwitchKey, SwitchCounters]:
        """Counters by key."""
        return {key: held.count for key, held in self.switches.items()}
