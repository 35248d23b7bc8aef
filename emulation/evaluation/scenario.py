"""Scenario files, which describe a grid of simulations: cases, failures and policies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from pydantic import ValidationError

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import from_validation_error, load_fabric, parse_fabric, read_document
from controller.routing import POLICIES, Options, advising, draws
from controller.routing.options_text import parse_options
from controller.routing.split_check import check_splits
from emulation.evaluation.cases import Case, cases_of
from emulation.evaluation.scenario_form import PolicyForm, ScenarioForm
from emulation.evaluation.targets import PublishedFigure, Reference, references_of, targets_of
from emulation.fluid.adaptive import Adaptive, AdaptiveKind
from emulation.fluid.movers import Allocation
from emulation.fluid.replanning import PlannedFlows
from emulation.fluid.simulator import LinkChange, Trigger
from emulation.policy_names import SHIFTS, SPLIT

ALL_SPLITS = 1_000_000_000
"""More than any fabric allows: the policies themselves allow leaves x spines."""

OF_PLANS = frozenset({Allocation.PLANNED, Allocation.HOSTS})
"""Ways to share links on the paths of a plan."""

QUICK_EPOCHS = 2
"""Epochs of a job in the quick form of a scenario: the second one begins where others have begun theirs."""


@dataclass(frozen=True)
class NamedPolicy:
    """A policy with its options, under the name that tables have.

    Attributes:
        adaptive: ``policy`` is not one of the registry: transfers choose their paths at their start.
        triggers: when it plans, in place of the scenario's triggers.
        planned: flows that it plans (``Simulation.planned``).
        first: the policy of flows without a live path, until this one plans them (``Simulation.first``); empty: none.
    """

    name: str
    policy: str
    options: Options
    allocations: frozenset[Allocation] = frozenset(Allocation)
    adaptive: Adaptive | None = None
    triggers: frozenset[Trigger] | None = None
    planned: PlannedFlows = "present"
    first: str = ""

    @property
    def draws(self) -> bool:
        """Whether the result depends on the seed."""
        return (
            draws(self.policy)
            or draws(self.first)
            or (self.adaptive is not None and self.adaptive.kind == "power_of_two")
        )

    @property
    def splits(self) -> bool:
        """Whether the policy may split a flow over several paths; pacing makes a difference only then."""
        return self.adaptive is None and POLICIES[self.policy].splits_with(self.options)


@dataclass(frozen=True)
class InitialFailure:
    """Failures from the beginning: the spines with the highest numbers, cables drawn by the seed, or those named.

    Attributes:
        spines: number of switches of the top layer.
        links: number of cables.
        names: of switches and cables.
        role: what a switch of the top layer is called.
    """

    spines: int = 0
    links: int = 0
    names: tuple[str, ...] = ()
    role: Literal["spine", "core"] = "spine"

    @property
    def name(self) -> str:
        """Name of the failure, such as ``none``, ``1 spine``, ``16 links`` or ``agg1``."""
        if self.names:
            return ", ".join(self.names)
        if self.links:
            return f"{self.links} link{'s' * (self.links > 1)}"
        return f"{self.spines} {self.role}{'s' * (self.spines > 1)}" if self.spines else "none"

    def on(self, fabric: Fabric, seed: int) -> Fabric:
        """Return the fabric with the failed parts down."""
        if self.names:
            return fabric.without_links(self.names)
        if self.links:
            drawn = np.random.default_rng([seed, self.links]).permutation(len(fabric.cables))[: self.links]
            return fabric.without_links([fabric.cable_names[c] for c in drawn.tolist()])
        return fabric.without_links([spine.name for spine in fabric.spines[fabric.n_spines - self.spines :]])


@dataclass(frozen=True, eq=False)
class Cell:
    """One simulation of the grid.

    Attributes:
        fabric: the healthy fabric; ``failure`` names the failed parts.
        bins: length in seconds of each bin of link utilisation in full results; 0: none.
        jitter: standard deviation of computing times, as a part of them.
        clock_error: standard deviation of the jobs' clocks in seconds.
    """

    scenario: str
    fabric: Fabric
    case: Case
    failure: InitialFailure
    policy: NamedPolicy
    allocation: Allocation
    seed: int
    triggers: frozenset[Trigger]
    period: float
    until: float
    changes: tuple[LinkChange, ...]
    bins: float
    jitter: float = 0.0
    clock_error: float = 0.0


@dataclass(frozen=True, eq=False)
class Scenario:
    """A scenario, read and checked.

    Attributes:
        references: published figures of others, for the report.
        targets: results that the grid should reach.
        notes: one sentence for each part that was left out.
    """

    name: str
    fabric: Fabric
    cases: tuple[Case, ...]
    failures: tuple[InitialFailure, ...]
    policies: tuple[NamedPolicy, ...]
    allocations: tuple[Allocation, ...]
    seeds: tuple[int, ...]
    triggers: frozenset[Trigger]
    period: float
    until: float
    changes: tuple[LinkChange, ...]
    bins: float
    jitter: float = 0.0
    clock_error: float = 0.0
    references: tuple[Reference, ...] = ()
    targets: tuple[PublishedFigure, ...] = ()
    notes: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """Return the grid, in which equal simulations occur once (``NamedPolicy.splits``, ``NamedPolicy.draws``)."""
        cells = []
        for case, failure, policy in itertools.product(self.cases, self.failures, self.policies):
            repeats = self._repeats(failure, policy)
            for seed in self.seeds:
                for allocation in self._allocations(policy):
                    if seed != self.seeds[0] and not (repeats or allocation is Allocation.HOSTS):
                        continue
                    cells.append(
                        Cell(
                            self.name,
                            self.fabric,
                            case,
                            failure,
                            policy,
                            allocation,
                            seed,
                            policy.triggers or self.triggers,
                            self.period,
                            self.until,
                            self.changes,
                            self.bins,
                            self.jitter,
                            self.clock_error,
                        )
                    )
        return cells

    def quick(self) -> Scenario:
        """Return the first case of each kind with two epochs per job, no failure and the first one, and one seed.

        All policies stay. References and targets are of the whole scenario and are left out.
        """
        first = {case.kind: case for case in reversed(self.cases)}
        cases = [case for case in self.cases if first[case.kind] is case]
        return replace(
            self,
            cases=tuple(
                replace(case, jobs=tuple(replace(job, epochs=min(job.epochs, QUICK_EPOCHS)) for job in case.jobs))
                for case in cases
            ),
            failures=self.failures[:2],
            seeds=self.seeds[:1],
            references=(),
            targets=(),
            notes=(*self.notes, f"{len(cases)} of {len(self.cases)} cases, {QUICK_EPOCHS} epochs per job, one seed"),
        )

    def _repeats(self, failure: InitialFailure, policy: NamedPolicy) -> bool:
        """Return whether simulations with different seeds differ."""
        return bool(failure.links or policy.draws or self.jitter or self.clock_error)

    def _allocations(self, policy: NamedPolicy) -> list[Allocation]:
        # The scenario's order first; a policy may name some that the scenario does not have.
        wanted = [each for each in dict.fromkeys((*self.allocations, *Allocation)) if each in policy.allocations]
        if policy.adaptive is not None:
            wanted = [each for each in wanted if each not in OF_PLANS]
        if policy.splits or Allocation.FLOW not in wanted:
            return wanted
        return [each for each in wanted if each is not Allocation.PACED]


def load_scenario(path: str | Path, policies: Sequence[str] | None = None) -> Scenario:
    """Read a scenario file (YAML or JSON); paths in it are relative to its folder.

    Args:
        path: the file.
        policies: names of policies (of the scenario, or others) to use instead of the scenario's.

    Raises:
        InputError: the file is invalid; names the file and the first invalid field.
    """
    return parse_scenario(read_document(path), Path(path).parent, source=str(path), policies=policies)


def parse_scenario(document: Any, base: Path, *, source: str = "", policies: Sequence[str] | None = None) -> Scenario:
    """Return a scenario from plain data; see ``load_scenario``."""
    try:
        if not isinstance(document, dict):
            raise InputError("a scenario is a mapping with 'fabric', 'cases' and 'policies'", value=document)
        try:
            form = ScenarioForm.model_validate(document)
        except ValidationError as error:
            raise _tidied(from_validation_error(error, document)) from None
        return _build(form, base, policies)
    except InputError as error:
        raise error.with_source(source) from None


def _build(form: ScenarioForm, base: Path, asked: Sequence[str] | None) -> Scenario:
    fabric = _fabric(form.fabric, base)
    for i, slow in enumerate(form.slow):
        for k, name in enumerate(slow.names):
            try:
                fabric = fabric.with_slow_cables([name], slow.part)
            except KeyError:
                raise InputError(
                    "no switch or cable has this name", field=f"slow[{i}].names[{k}]", value=name
                ) from None
    for i, count in enumerate(form.failed_spines):
        if count >= fabric.n_spines:
            raise InputError(
                f"the fabric has {fabric.n_spines} {fabric.roles[-1]}s, of which one must remain",
                field=f"failed_spines[{i}]",
                value=count,
            )
    for i, count in enumerate(form.failed_links):
        if count >= len(fabric.cables):
            raise InputError(f"the fabric has {len(fabric.cables)} cables", field=f"failed_links[{i}]", value=count)
    for i, names in enumerate(form.failed):
        _check_names(fabric, names, f"failed[{i}]")
    for i, change in enumerate(form.changes):
        _check_names(fabric, change.names, f"changes[{i}].names")
    named = _policies(form, asked)
    cases, notes = _cases(form, fabric, named, base)
    if not cases:
        raise InputError("the files of all cases are missing", field="cases")
    role: Literal["spine", "core"] = "core" if len(fabric.layers) > 2 else "spine"
    failures = (
        *(InitialFailure(spines=count, role=role) for count in dict.fromkeys(form.failed_spines)),
        *(InitialFailure(links=count) for count in dict.fromkeys(form.failed_links)),
        *(InitialFailure(names=names) for names in dict.fromkeys(map(tuple, form.failed))),
    )
    return Scenario(
        name=form.name,
        fabric=fabric,
        cases=tuple(cases),
        failures=failures,
        policies=named,
        allocations=tuple(dict.fromkeys(form.allocation)),
        seeds=tuple(dict.fromkeys(form.seeds)),
        triggers=frozenset(form.triggers),
        period=form.period,
        until=form.until,
        bins=form.bins,
        jitter=form.jitter,
        clock_error=form.clock_error,
        changes=tuple(LinkChange(each.at, tuple(each.names), each.up) for each in form.changes),
        references=references_of(form, [failure.name for failure in failures]),
        targets=targets_of(form, [failure.name for failure in failures]),
        notes=tuple(notes),
    )


def _check_names(fabric: Fabric, names: Sequence[str], field: str) -> None:
    """Raise ``InputError`` unless each name is that of a switch or cable."""
    for i, name in enumerate(names):
        try:
            fabric.without_links([name])
        except KeyError:
            raise InputError("no switch or link has this name", field=f"{field}[{i}]", value=name) from None


def _cases(
    form: ScenarioForm, fabric: Fabric, policies: Sequence[NamedPolicy], base: Path
) -> tuple[list[Case], list[str]]:
    """Return the cases, and one sentence for each entry that was left out."""
    cases: list[Case] = []
    notes: list[str] = []
    for i, entry in enumerate(form.cases):
        try:
            made = list(cases_of(fabric, entry, form.epochs, base))
            for case, policy in itertools.product(made, policies):
                for job in case.jobs:
                    check_splits(job.traffic.collectives, [policy.policy], policy.options)
        except InputError as error:
            if error.source:
                raise
            raise InputError(error.reason, field=f"cases[{i}].{error.field}", value=error.value) from None
        if not made:
            notes.append(f"cases[{i}] is left out: {entry.files.folder if entry.files else 'it'} does not exist")
        for case in made:
            if any((case.kind, case.name) == (other.kind, other.name) for other in cases):
                raise InputError("another entry has a case of this name", field=f"cases[{i}].name", value=case.name)
            cases.append(case)
    return cases, notes


def _fabric(given: Any, base: Path) -> Fabric:
    if isinstance(given, str):
        return load_fabric(base / given)
    try:
        return parse_fabric(given)
    except InputError as error:
        field = f"fabric.{error.field}" if error.field else "fabric"
        raise InputError(error.reason, field=field, value=error.value) from None


def _policies(form: ScenarioForm, asked: Sequence[str] | None) -> tuple[NamedPolicy, ...]:
    """Return the policies of a scenario, or the requested ones (``asked``: their names)."""
    named: dict[str, NamedPolicy] = {}
    for i, each in enumerate(form.policies):
        made = _policy(each, f"policies[{i}]", form)
        if made.name in named:
            raise InputError("two policies have this name", field=f"policies[{i}].name", value=made.name)
        named[made.name] = made
    if asked is None:
        return tuple(named.values())
    chosen = {name: named.get(name) or _policy(PolicyForm(policy=name), "--policies", form) for name in asked}
    return tuple(chosen.values())


def _policy(form: PolicyForm, field: str, scenario: ScenarioForm) -> NamedPolicy:
    asked = frozenset(scenario.allocation if form.allocation is None else form.allocation)
    if form.policy in get_args(AdaptiveKind):
        return _adaptive(form, field, asked)
    base = form.policy.removesuffix(SPLIT).removesuffix(SHIFTS)
    if base not in POLICIES:
        splitting = (name for name, policy in POLICIES.items() if policy.split_option == "max_splits")
        short = (*(f"{name}{SPLIT}" for name in splitting), *(f"{name}{SHIFTS}" for name in advising()))
        raise InputError(
            f"no policy has this name; there are {', '.join((*POLICIES, *short))}, and the "
            f"simulator's {' and '.join(get_args(AdaptiveKind))}",
            field=field,
            value=form.policy,
        )
    settings = dict(form.options)
    if form.policy.endswith(SHIFTS):
        if base not in advising():
            raise InputError(f"only {', '.join(advising())} advises shifts", field=field, value=form.policy)
        settings = {"shifts": "advise", **settings}
    elif form.policy != base:
        if not POLICIES[base].splits:
            raise InputError("this policy does not split flows", field=field, value=form.policy)
        settings = {"max_splits": ALL_SPLITS, **settings}
    try:
        options = parse_options([f"{name}={'' if value is None else value}" for name, value in settings.items()])
    except InputError as error:
        raise InputError(error.reason, field=f"{field}.{error.field}", value=error.value) from None
    triggers = None if form.triggers is None else frozenset(form.triggers)
    events = triggers or frozenset(scenario.triggers)
    if form.first is None and form.planned == "sending" and "epoch" not in events:
        raise InputError("requires the trigger 'epoch'", field=f"{field}.planned", value=form.planned)
    if form.first is not None and (form.planned != "sending" or "period" not in events or "epoch" in events):
        needs = "requires 'planned: sending' and the trigger 'period', without 'epoch'"
        raise InputError(needs, field=f"{field}.first", value=form.first)
    return NamedPolicy(
        form.name or form.policy, base, options, asked, triggers=triggers, planned=form.planned, first=form.first or ""
    )


def _adaptive(form: PolicyForm, field: str, asked: frozenset[Allocation]) -> NamedPolicy:
    if asked <= OF_PLANS:
        raise InputError(
            f"this policy makes no plans, for which allocation {' and '.join(sorted(OF_PLANS))} are", field=field
        )
    if form.triggers is not None or form.planned != "present" or form.first is not None:
        raise InputError("this policy makes no plans: it has neither 'triggers', 'planned' nor 'first'", field=field)
    options = dict(form.options)
    view = options.pop("view_seconds", 0.0)
    for name, value in options.items():
        raise InputError("the only option of this policy is view_seconds", field=f"{field}.options.{name}", value=value)
    if isinstance(view, bool) or not isinstance(view, int | float) or not 0 <= view < float("inf"):
        raise InputError("must be seconds, 0 or more", field=f"{field}.options.view_seconds", value=view)
    kind: AdaptiveKind = "least_loaded" if form.policy == "least_loaded" else "power_of_two"
    return NamedPolicy(form.name or form.policy, form.policy, Options(), asked, Adaptive(kind, float(view)))


def _tidied(error: InputError) -> InputError:
    """Return the error without its value if that is a whole mapping."""
    return InputError(error.reason, field=error.field, value=None if isinstance(error.value, dict) else error.value)
