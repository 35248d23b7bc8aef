"""Targets of a scenario, and published figures of others for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from controller.model.errors import InputError
from controller.model.tolerances import ROUNDING
from emulation.evaluation.scenario_form import ScenarioForm

if TYPE_CHECKING:
    from emulation.evaluation.cell import Row


@dataclass(frozen=True)
class Reference:
    """A published epoch time over the ideal, by failure; ``source`` names the publication and its cases.

    ``kinds``: kinds of cases that it can be compared with; empty: all.
    """

    name: str
    source: str
    kinds: frozenset[str]
    ratio: Mapping[str, float]
    ratio_worst: Mapping[str, float]


@dataclass(frozen=True)
class PublishedFigure:
    """A policy's epoch time over the ideal, mean over the cases of a kind, is to be low enough.

    Under several allocations the better one counts.

    Attributes:
        kinds: of cases; none: each.
        at_most: by failure; with ``tolerance`` (relative) on top.
        not_above: a policy whose mean it must not exceed under any failure, with ``tolerance`` on top.
        below: failures under which it has to be below that policy's mean.
        case_tolerance: how far (relative) a single case may be above that policy's; ``None``: no matter.
    """

    policy: str
    kinds: frozenset[str]
    at_most: Mapping[str, float]
    tolerance: float = 0.0
    not_above: str | None = None
    below: frozenset[str] = frozenset()
    case_tolerance: float | None = None


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


def references_of(form: ScenarioForm, failures: Sequence[str]) -> tuple[Reference, ...]:
    """Return the scenario's references.

    Args:
        form: the scenario.
        failures: names of the scenario's failures.

    Raises:
        InputError: a reference names a failure or a kind of cases that the scenario does not have.
    """
    for i, each in enumerate(form.references):
        _known(each.kinds, form.kinds, f"references[{i}].kinds")
        _known(each.ratio, failures, f"references[{i}].ratio")
        _known(each.ratio_worst, failures, f"references[{i}].ratio_worst")
    return tuple(
        Reference(each.name, each.source, frozenset(each.kinds), each.ratio, each.ratio_worst)
        for each in form.references
    )


def targets_of(form: ScenarioForm, failures: Sequence[str]) -> tuple[PublishedFigure, ...]:
    """Return the scenario's targets; see ``references_of``.

    Raises:
        InputError: a target names a policy, a failure or a kind of cases that the scenario does not have.
    """
    policies = [policy.name or policy.policy for policy in form.policies]
    for i, each in enumerate(form.targets):
        _known(each.kinds, form.kinds, f"targets[{i}].kinds")
        _known([each.policy], policies, f"targets[{i}].policy")
        _known([each.not_above] if each.not_above else [], policies, f"targets[{i}].not_above")
        _known(each.at_most, failures, f"targets[{i}].at_most")
        _known(each.below, failures, f"targets[{i}].below")
    return tuple(
        PublishedFigure(
            each.policy,
            frozenset(each.kinds),
            each.at_most,
            each.tolerance,
            each.not_above,
            frozenset(each.below),
            each.case_tolerance,
        )
        for each in form.targets
    )


def _known(names: Iterable[str], there: Sequence[str], field: str) -> None:
    for name in names:
        if name not in there:
            raise InputError(f"the scenario has {', '.join(there)}", field=field, value=name)


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
