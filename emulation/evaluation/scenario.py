"""Scenario files: what is simulated under which policies; a grid of cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.fabric_file import from_validation_error, load_fabric, parse_fabric, read_document
from controller.routing import DRAWING, POLICIES, Options
from controller.routing.options_text import parse_options
from emulation.evaluation.cases import Case, cases_of
from emulation.evaluation.scenario_form import PolicyForm, ScenarioForm
from emulation.evaluation.targets import Reference, Target, references_of, targets_of
from emulation.fluid.movers import Allocation
from emulation.fluid.simulator import LinkChange, Trigger

SPLIT = "+split"

ALL_SPLITS = 1_000_000_000
"""More than any fabric allows: the policies themselves allow leaves x spines."""


@dataclass(frozen=True)
class NamedPolicy:
    """A policy with its options, under the name that tables have."""

    name: str
    policy: str
    options: Options
    allocations: frozenset[Allocation] = frozenset(Allocation)

    @property
    def splits(self) -> bool:
        """Whether it may send a flow by several paths; only then does pacing make a difference."""
        return POLICIES[self.policy].splits and (self.policy != "fair" or bool(self.options.max_splits))


@dataclass(frozen=True)
class Failure:
    """What is down from the beginning: the spines of the highest numbers, or cables drawn by the seed."""

    spines: int = 0
    links: int = 0

    @property
    def name(self) -> str:
        if self.links:
            return f"{self.links} link{'s' * (self.links > 1)}"
        return f"{self.spines} spine{'s' * (self.spines > 1)}" if self.spines else "none"

    def on(self, fabric: Fabric, seed: int) -> Fabric:
        """The fabric with it."""
        if self.links:
            drawn = np.random.default_rng([seed, self.links]).permutation(len(fabric.cables))[: self.links]
            return fabric.without_links([fabric.cable_names[c] for c in drawn.tolist()])
        return fabric.without_links([spine.name for spine in fabric.spines[fabric.n_spines - self.spines :]])


@dataclass(frozen=True, eq=False)
class Cell:
    """One simulation of the grid.

    Attributes:
        fabric: as it is meant to be; ``failure`` says what is down.
        bins: seconds of each bin of link utilisation in results that are kept whole; 0: none.
    """

    scenario: str
    fabric: Fabric
    case: Case
    failure: Failure
    policy: NamedPolicy
    allocation: Allocation
    seed: int
    triggers: frozenset[Trigger]
    period: float
    until: float
    changes: tuple[LinkChange, ...]
    bins: float


@dataclass(frozen=True, eq=False)
class Scenario:
    """A scenario, read and checked.

    Attributes:
        references: figures of others, for the report.
        targets: how the grid should come out.
        notes: what was left out, a sentence each.
    """

    name: str
    fabric: Fabric
    cases: tuple[Case, ...]
    failures: tuple[Failure, ...]
    policies: tuple[NamedPolicy, ...]
    allocations: tuple[Allocation, ...]
    seeds: tuple[int, ...]
    triggers: frozenset[Trigger]
    period: float
    until: float
    changes: tuple[LinkChange, ...]
    bins: float
    references: tuple[Reference, ...] = ()
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """The grid. What would be the same simulation twice is in it once (``NamedPolicy.splits``, ``DRAWING``)."""
        cells = []
        for case, failure, policy in itertools.product(self.cases, self.failures, self.policies):
            for seed in self.seeds if failure.links or policy.policy in DRAWING else self.seeds[:1]:
                for allocation in self._allocations(policy):
                    cells.append(
                        Cell(
                            self.name, self.fabric, case, failure, policy, allocation, seed, self.triggers, self.period,
                            self.until, self.changes, self.bins,
                        )
                    )  # fmt: skip
        return cells

    def _allocations(self, policy: NamedPolicy) -> list[Allocation]:
        wanted = [each for each in self.allocations if each in policy.allocations]
        if policy.splits or Allocation.FLOW not in wanted:
            return wanted
        return [each for each in wanted if each is not Allocation.PACED]


def load_scenario(path: str | Path, policies: Sequence[str] | None = None) -> Scenario:
    """Read a scenario file (YAML or JSON); paths in it are relative to its folder.

    Args:
        policies: names (of the scenario's policies, or of any) in place of the scenario's.

    Raises:
        InputError: the first thing wrong, with the file and the field.
    """
    return parse_scenario(read_document(path), Path(path).parent, source=str(path), policies=policies)


def parse_scenario(document: Any, base: Path, *, source: str = "", policies: Sequence[str] | None = None) -> Scenario:
    """A scenario from plain data; see ``load_scenario``."""
    try:
        if not isinstance(document, dict):
            raise InputError("a scenario is a mapping with 'fabric', 'cases' and 'policies'", value=document)
        try:
            form = ScenarioForm.model_validate(document)
        except ValidationError as error:
            raise _tidied(from_validation_error(error)) from None
        return _build(form, base, policies)
    except InputError as error:
        raise error.with_source(source) from None


def _build(form: ScenarioForm, base: Path, asked: Sequence[str] | None) -> Scenario:
    fabric = _fabric(form.fabric, base)
    for i, count in enumerate(form.failed_spines):
        if count >= fabric.n_spines:
            raise InputError(
                f"the fabric has {fabric.n_spines} spines, and one has to stay",
                field=f"failed_spines[{i}]",
                value=count,
            )
    for i, count in enumerate(form.failed_links):
        if count >= len(fabric.cables):
            raise InputError(f"the fabric has {len(fabric.cables)}", field=f"failed_links[{i}]", value=count)
    for i, change in enumerate(form.changes):
        for j, name in enumerate(change.names):
            try:
                fabric.without_links([name])
            except KeyError:
                raise InputError(
                    "no switch and no link has this name", field=f"changes[{i}].names[{j}]", value=name
                ) from None
    named = _policies(form.policies, asked)
    cases: list[Case] = []
    notes = []
    for i, entry in enumerate(form.cases):
        try:
            made = list(cases_of(fabric, entry, form.epochs, base))
        except InputError as error:
            if error.source:
                raise
            raise InputError(error.reason, field=f"cases[{i}].{error.field}", value=error.value) from None
        if not made:
            notes.append(f"cases[{i}] is left out: {entry.files.folder if entry.files else 'it'} is not there")
        for case in made:
            if any((case.kind, case.name) == (other.kind, other.name) for other in cases):
                raise InputError("another entry makes a case of this name", field=f"cases[{i}].name", value=case.name)
            cases.append(case)
    if not cases:
        raise InputError("no case is left: the files of all of them are missing", field="cases")
    failures = (
        *(Failure(spines=count) for count in dict.fromkeys(form.failed_spines)),
        *(Failure(links=count) for count in dict.fromkeys(form.failed_links)),
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
        changes=tuple(LinkChange(each.at, tuple(each.names), each.up) for each in form.changes),
        references=references_of(form, [failure.name for failure in failures]),
        targets=targets_of(form, [failure.name for failure in failures]),
        notes=tuple(notes),
    )


def _fabric(given: Any, base: Path) -> Fabric:
    if isinstance(given, str):
        return load_fabric(base / given)
    try:
        return parse_fabric(given)
    except InputError as error:
        field = f"fabric.{error.field}" if error.field else "fabric"
        raise InputError(error.reason, field=field, value=error.value) from None


def _policies(forms: Sequence[PolicyForm], asked: Sequence[str] | None) -> tuple[NamedPolicy, ...]:
    named: dict[str, NamedPolicy] = {}
    for i, form in enumerate(forms):
        made = _policy(form, f"policies[{i}]")
        if made.name in named:
            raise InputError("two policies have this name", field=f"policies[{i}].name", value=made.name)
        named[made.name] = made
    if asked is None:
        return tuple(named.values())
    chosen = {name: named.get(name) or _policy(PolicyForm(policy=name), "--policies") for name in asked}
    return tuple(chosen.values())


def _policy(form: PolicyForm, field: str) -> NamedPolicy:
    base = form.policy.removesuffix(SPLIT)
    if base not in POLICIES:
        raise InputError(
            f"no policy has this name; there are {', '.join(POLICIES)} and fair{SPLIT}", field=field, value=form.policy
        )
    settings = dict(form.options)
    if form.policy != base:
        if not POLICIES[base].splits:
            raise InputError("this policy splits no flow", field=field, value=form.policy)
        settings = {"max_splits": ALL_SPLITS, **settings}
    try:
        options = parse_options([f"{name}={'' if value is None else value}" for name, value in settings.items()])
    except InputError as error:
        raise InputError(error.reason, field=f"{field}.{error.field}", value=error.value) from None
    allocations = frozenset(Allocation if form.allocation is None else form.allocation)
    return NamedPolicy(form.name or form.policy, base, options, allocations)


def _tidied(error: InputError) -> InputError:
    """A check of a whole mapping has no need to show all of it."""
    return InputError(error.reason, field=error.field, value=None if isinstance(error.value, dict) else error.value)
