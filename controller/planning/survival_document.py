"""The document of a failure analysis, printed by ``fairspine survive`` and returned by ``POST /v1/plans:survive``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.planning.survival import Outcome, Survival


def survival_document(survival: Survival, above: float | None, sequence: Sequence[Outcome] | None) -> dict[str, Any]:
    """Return all outcomes, worst first; with ``above`` and a sequence, also how many failures the jobs bear."""
    document: dict[str, Any] = {
        "jobs": list(survival.jobs),
        "before": _row(survival.before),
        "failures": [_row(outcome) for outcome in survival.outcomes],
    }
    if above is not None and sequence is not None:
        document["above"] = above
        document["sequence"] = [_row(outcome) for outcome in sequence]
        document["bears_at_most"] = bears(above, sequence)
    return document


def bears(above: float, sequence: Sequence[Outcome]) -> int | None:
    """Return the number of failures after which every job is still above the speed; ``None`` if all of them are."""
    if not sequence:
        return 0
    return len(sequence) - 1 if sequence[-1].min_speed < above else None


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "kinds": list(outcome.failure.kinds),
        "names": list(outcome.failure.names),
        "min_speed": outcome.min_speed,
        "speeds": [None if speed != speed else speed for speed in outcome.speed.tolist()],
        "unroutable": outcome.unroutable,
        "moved": outcome.moved,
    }
