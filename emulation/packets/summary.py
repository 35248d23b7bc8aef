"""Summary of the bouts of a referee: mean and worst of the cases, by kind of cases, failure and contender."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from emulation.packets.referee import Bout


@dataclass(frozen=True)
class RefereeStanding:
    """A contender in the cases of one kind; ratios are those of the slowest job, mean and largest.

    Attributes:
        over_ideal, over_spraying: on packets: over the ideal, and over the best spraying of the same case.
        fluid_over_ideal: in the fluid model.
        again: part of the packets that were sent again.
        deviation: part by which packets take longer than the fluid model says: mean, and that farthest from 0.
        above: cases in which the deviation is above the tolerance.
    """

    scenario: str
    kind: str
    failure: str
    policy: str
    cases: int
    over_ideal: float
    over_ideal_worst: float
    over_spraying: float
    over_spraying_worst: float
    fluid_over_ideal: float
    again: float
    deviation: float
    deviation_worst: float
    above: int

    def document(self) -> dict[str, Any]:
        """Return it as plain data; ``None`` for what is not a number."""
        return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in asdict(self).items()}


def standings_of(
    scenario: str, bouts: Sequence[Bout], tolerance: float, hosts_tolerance: float
) -> list[RefereeStanding]:
    """Summarise bouts.

    Args:
        scenario: its name.
        bouts: of the scenario.
        tolerance: largest deviation of plans whose paces hosts keep.
        hosts_tolerance: largest deviation of plans with hosts that keep no pace. That of sprayings is not limited:
            the fluid model has no queues.
    """
    grouped: dict[tuple[str, str, str], list[Bout]] = {}
    for bout in bouts:
        grouped.setdefault((bout.case.kind, bout.failure, bout.contender.name), []).append(bout)
    made = []
    for (kind, failure, policy), own in grouped.items():

        def values(of: Callable[[Bout], float], own: Sequence[Bout] = own) -> list[float]:
            return [of(bout) for bout in own]

        ideal = values(lambda bout: bout.slowest.packets / bout.slowest.packet_ideal)
        spraying = values(lambda bout: bout.slowest.packets / bout.slowest.best_spraying)
        deviation = values(lambda bout: bout.deviation)
        allowed = math.inf
        if not own[0].contender.sprays:
            allowed = tolerance if own[0].contender.paced else hosts_tolerance
        made.append(
            RefereeStanding(
                scenario,
                kind,
                failure,
                policy,
                len(own),
                float(np.mean(ideal)),
                max(ideal),
                float(np.mean(spraying)),
                max(spraying),
                float(np.mean(values(lambda bout: bout.slowest.fluid / bout.slowest.fluid_ideal))),
                float(np.mean(values(lambda bout: float(bout.results.sent_again.sum() / bout.results.sent.sum())))),
                float(np.mean(deviation)),
                max(deviation, key=abs),
                sum(not abs(each) <= allowed for each in deviation),
            )
        )
    return made
