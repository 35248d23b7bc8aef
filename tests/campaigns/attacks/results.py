"""Results of a campaign of attacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.campaigns.attacks.kinds import AttackKind
from tests.campaigns.attacks.watch import ObservedEffects


@dataclass(frozen=True)
class AttackResult:
    """The result of one round.

    Attributes:
        wrong: the invariants that did not hold; empty if all did.
    """

    number: int
    kinds: tuple[AttackKind, ...]
    wrong: tuple[str, ...]
    seen: ObservedEffects
    lost: int
    pings: int

    def __str__(self) -> str:
        """Return the round, its attacks and its failures in one line."""
        names = " + ".join(kind.name for kind in self.kinds)
        return f"round {self.number}: {names}: " + ("; ".join(self.wrong) or "held")


@dataclass
class AttackOutcome:
    """The result of a campaign: its rounds, in order."""

    results: list[AttackResult] = field(default_factory=list)

    @property
    def failed(self) -> list[AttackResult]:
        """Return the rounds that failed."""
        return [result for result in self.results if result.wrong]
