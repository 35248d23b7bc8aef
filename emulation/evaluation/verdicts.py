"""Verdicts: whether the results of a scenario reach its targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.tolerances import ROUNDING
from emulation.evaluation.cell import Row
from emulation.evaluation.targets import PublishedFigure


@dataclass(frozen=True)
class Verdict:
    """The result of a target for one kind of cases and one failure.

    ``measured`` is ``None`` if a job finished no epoch; the target is then not reached.
    """

    scenario: str
    kind: str
    failure: str
    what: str
    measured: float | None
    allowed: float
    reached: bool


Cases = dict[str, float | None]
"""Case -> mean over its seeds, under the better allocation; ``None`` where a job finished no epoch."""


def verdicts_of(scenario: str, targets: Sequence[PublishedFigure], rows: Sequence[Row]) -> list[Verdict]:
    """Return a verdict for each target, kind and failure in the rows; targets without simulation are left out."""
    ratios = _ratios([row for row in rows if row["scenario"] == scenario])
    return [
        Verdict(
            scenario,
            kind,
            failure,
            what,
            measured,
            allowed,
            measured is not None and measured <= allowed * (1 + ROUNDING),
        )
        for target in targets
        for kind, failure, policy in ratios
        if policy == target.policy and (not target.kinds or kind in target.kinds)
        for what, measured, allowed in _demands(
            target, failure, ratios[kind, failure, policy], ratios.get((kind, failure, target.not_above or ""))
        )
    ]


def _demands(
    target: PublishedFigure, failure: str, cases: Cases, other: Cases | None
) -> Iterator[tuple[str, float | None, float]]:
    """Yield the demands of a target on a policy's cases under a failure: text, measured value, allowed value."""
    if failure in target.at_most:
        yield f"{target.policy}, mean", _mean(cases), target.at_most[failure] * (1 + target.tolerance)
    theirs = _mean(other) if other else None
    if other is None or theirs is None:
        return
    below = failure in target.below
    allowed = theirs * (1 - 2 * ROUNDING) if below else theirs * (1 + target.tolerance)
    yield f"{target.policy}, mean {'below' if below else 'not above'} {target.not_above}'s", _mean(cases), allowed
    if target.case_tolerance is not None and cases.keys() == other.keys():
        words = f"{target.policy} ÷ {target.not_above}, worst case"
        yield words, _worst_quotient(cases, other), 1 + target.case_tolerance


def _ratios(rows: Sequence[Row]) -> dict[tuple[str, str, str], Cases]:
    """(kind, failure, policy) -> cases."""
    grouped: dict[tuple[str, str, str], dict[str, dict[str, list[float | None]]]] = {}
    for row in rows:
        by_allocation = grouped.setdefault((row["kind"], row["failure"], row["policy"]), {})
        by_allocation.setdefault(row["allocation"], {}).setdefault(row["case"], []).append(row["ratio"])
    best: dict[tuple[str, str, str], Cases] = {}
    for key, by_allocation in grouped.items():
        made: list[Cases] = [
            {case: None if None in seeds else float(np.mean(seeds)) for case, seeds in cases.items()}  # type: ignore[arg-type]
            for cases in by_allocation.values()
        ]
        best[key] = min(made, key=lambda cases: mean if (mean := _mean(cases)) is not None else float("inf"))
    return best


def _mean(cases: Cases) -> float | None:
    known = [value for value in cases.values() if value is not None]
    return float(np.mean(known)) if len(known) == len(cases) else None


def _worst_quotient(cases: Cases, other: Cases) -> float | None:
    pairs = [(mine, other[case]) for case, mine in cases.items()]
    known = [mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    return max(known) if len(known) == len(pairs) else None
