"""Targets of a scenario, and published figures of others for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.model.errors import InputError
from emulation.evaluation.scenario_form import ScenarioForm


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
