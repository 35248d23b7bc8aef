"""Scenarios of ``fairspine simulate`` on optical fabrics: cases, dead NICs, policies and seeds, as rows of a report.

Beside the policies there are always the ideal switch and the fat tree of equal cost. A cell plans its circuits for the
NICs that live, and simulates one iteration (``emulation.circuits.simulated``); of shards that are too large for this,
it has the planned time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from controller.circuits.demand import shards_of
from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.fabric.optical_file import load_optical_fabric, parse_optical_fabric
from controller.circuits.planning.circuit_plan import CircuitPlan, plan_circuits
from controller.circuits.planning.comparison import COMPARED, FAT_TREE_OF_EQUAL_COST, policy_and_paths
from controller.model.errors import InputError
from controller.model.files.fabric_file import from_validation_error, read_document
from controller.model.job import Job
from controller.workload.job_file import load_job, parse_job
from emulation.circuits.simulated import MOST_SERVERS, simulated_seconds
from emulation.evaluation.cell import PERCENTILES, Row
from emulation.evaluation.scenario_form import Numbers, Title

ANY_PORTS = ("search", "now")
"""Policies that dead NICs do not end."""
IDEAL, FAT_TREE = "ideal switch", "fat tree of equal cost"
_LISTED = BeforeValidator(lambda value: value if isinstance(value, list) else [value])


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CircuitCaseForm(_Strict):
    """Jobs that run at the same time: files, or their content."""

    name: Title
    jobs: Annotated[list[str | dict[str, Any]], _LISTED, Field(min_length=1)]


class CircuitScenarioForm(_Strict):
    """The whole file; the grid is the product of cases, numbers of dead NICs, policies and seeds."""

    name: Title = "circuits"
    fabric: Any
    cases: Annotated[list[CircuitCaseForm], Field(min_length=1)]
    policies: Annotated[list[str], _LISTED, Field(min_length=1)] = list(COMPARED)
    failed_nics: Numbers = [0]
    seeds: Numbers = [0]
    effort: Annotated[float, Field(ge=0, le=1000)] = 1.0


@dataclass(frozen=True, eq=False)
class CircuitCell:
    """One simulation: jobs with the sources for their errors, and what they run on."""

    scenario: str
    fabric: OpticalFabric
    case: str
    jobs: Sequence[tuple[str, Job]]
    failed: int
    policy: str
    seed: int
    effort: float

    def row(self) -> Row:
        """Simulate, and return the columns of ``emulation.evaluation.cell.row_of`` that circuits have.

        Raises:
            InputError: a job does not fit the fabric, or no circuits can serve it.
        """
        began = time.perf_counter()
        fabric = with_dead_nics(self.fabric, self.failed, self.seed)
        over: list[float] = []
        plan: CircuitPlan | None = None
        simulated = False
        if self.policy in (IDEAL, FAT_TREE):
            factor = FAT_TREE_OF_EQUAL_COST if self.policy == FAT_TREE else 1.0
            over = [factor * each for each in _over_ideal_switch(fabric, self.jobs)]
        else:
            policy, paths = policy_and_paths(self.policy)
            plan = plan_circuits(
                fabric,
                self.jobs,
                policy=policy,
                paths=paths,
                seed=self.seed,
                effort=self.effort,
                clock=time.perf_counter,
            )
            simulated = all(each.shard.demand.n <= MOST_SERVERS for each in plan.shards)
            for each in plan.shards:
                alone = replace(plan, shards=(each,))
                seconds = simulated_seconds(alone) if simulated else each.seconds
                if each.ideal_seconds > 0 and seconds is not None:
                    over.append(seconds / each.ideal_seconds)
        return _row(self, over, plan, simulated=simulated, wall=time.perf_counter() - began)


@dataclass(frozen=True, eq=False)
class CircuitScenario:
    """A scenario, read and checked."""

    name: str
    cells: tuple[CircuitCell, ...]
    notes: tuple[str, ...] = ()

    def quick(self) -> CircuitScenario:
        """Return the first case, at most one number of dead NICs beside none, and one seed."""
        first = self.cells[0]
        failures = list(dict.fromkeys(cell.failed for cell in self.cells))[:2]
        kept = [c for c in self.cells if c.case == first.case and c.failed in failures and c.seed == first.seed]
        return replace(self, cells=tuple(kept))


def is_on_circuits(path: str | Path) -> bool:
    """Return whether a scenario file names an optical fabric.

    Raises:
        InputError: the file, or that of its fabric, cannot be read.
    """
    document = read_document(path)
    fabric = document.get("fabric") if isinstance(document, dict) else None
    if isinstance(fabric, str) and not (Path(path).parent / fabric).exists():
        return False
    content = read_document(Path(path).parent / fabric) if isinstance(fabric, str) else fabric
    return isinstance(content, dict) and "optical" in content


def load_circuit_scenario(path: str | Path, policies: Sequence[str] | None = None) -> CircuitScenario:
    """Read a scenario file; paths in it are relative to its folder.

    Args:
        path: the file.
        policies: names of policies to use instead of the scenario's.

    Raises:
        InputError: the file is invalid; names the file and the first invalid field.
    """
    source, base = str(path), Path(path).parent
    document = read_document(path)
    try:
        form = CircuitScenarioForm.model_validate(document)
    except ValidationError as error:
        raise from_validation_error(error, document).with_source(source) from None
    try:
        names = list(dict.fromkeys(form.policies if policies is None else policies))
        for i, name in enumerate(names):
            if name not in (IDEAL, FAT_TREE):
                policy_and_paths(name, f"policies[{i}]" if policies is None else "--policies")
        fabric = (
            load_optical_fabric(base / form.fabric)
            if isinstance(form.fabric, str)
            else parse_optical_fabric(form.fabric)
        )
        for i, count in enumerate(form.failed_nics):
            if count > fabric.n_servers * (fabric.nics - 1):
                raise InputError(
                    f"each of {fabric.n_servers} servers keeps one of {fabric.nics} NICs",
                    field=f"failed_nics[{i}]",
                    value=count,
                )
        cases = _cases(form, fabric, base)
    except InputError as error:
        raise (error if error.source else error.with_source(source)) from None
    cells = tuple(_grid(form, fabric, cases, [IDEAL, FAT_TREE, *names]))
    left_out = [
        name for name in names if any(form.failed_nics) and not any(c.failed and c.policy == name for c in cells)
    ]
    notes = tuple(f"{name} needs all NICs, and is left out where some are dead" for name in left_out)
    return CircuitScenario(form.name, cells, notes)


def _cases(form: CircuitScenarioForm, fabric: OpticalFabric, base: Path) -> Mapping[str, list[tuple[str, Job]]]:
    cases: dict[str, list[tuple[str, Job]]] = {}
    for i, case in enumerate(form.cases):
        if case.name in cases:
            raise InputError("a case before has this name", field=f"cases[{i}].name", value=case.name)
        cases[case.name] = [
            (str(base / each), load_job(base / each)) if isinstance(each, str) else ("", parse_job(each))
            for each in case.jobs
        ]
        shards_of(fabric, cases[case.name])
    return cases


def _grid(
    form: CircuitScenarioForm,
    fabric: OpticalFabric,
    cases: Mapping[str, list[tuple[str, Job]]],
    policies: Sequence[str],
) -> Iterator[CircuitCell]:
    """Yield the cells; those that no seed changes occur once, those that need dead NICs not at all."""
    for name, failed, policy in itertools.product(cases, dict.fromkeys(form.failed_nics), dict.fromkeys(policies)):
        if failed and policy not in (IDEAL, FAT_TREE) and policy_and_paths(policy)[0] not in ANY_PORTS:
            continue
        drawn = failed > 0 or policy not in (IDEAL, FAT_TREE)
        for seed in dict.fromkeys(form.seeds if drawn else form.seeds[:1]):
            yield CircuitCell(form.name, fabric, name, cases[name], failed, policy, seed, form.effort)


def with_dead_nics(fabric: OpticalFabric, count: int, seed: int) -> OpticalFabric:
    """Return a fabric where so many more NICs are dead, drawn one by one; each server keeps one."""
    rng = np.random.default_rng([seed, count])
    dead = fabric.dead.copy()
    for _ in range(count):
        may = np.argwhere(~dead & (dead.sum(axis=1, keepdims=True) < fabric.nics - 1))
        if not len(may):
            break
        dead[tuple(may[rng.integers(len(may))])] = True
    lit = [each for each in fabric.circuits if not any(dead[end] for end in fabric.ends(each))]
    return replace(fabric, dead=dead, circuits=tuple(lit))


def _over_ideal_switch(fabric: OpticalFabric, jobs: Sequence[tuple[str, Job]]) -> list[float]:
    """Return for each shard the time on a switch to which only live NICs lead, over that with all NICs."""
    over = []
    for shard in shards_of(fabric, jobs):
        out, into = shard.demand.sent
        most = np.maximum(out, into)
        live = (~fabric.dead[list(shard.servers)]).sum(axis=1)
        with_all = float(most.max(axis=1).sum()) / fabric.nics
        if with_all > 0:
            over.append(float((most / live).max(axis=1).sum()) / with_all)
    return over


def _row(cell: CircuitCell, over: Sequence[float], plan: CircuitPlan | None, *, simulated: bool, wall: float) -> Row:
    none = dict.fromkeys(map(str, PERCENTILES))
    return {
        "scenario": cell.scenario,
        "kind": "circuits",
        "case": cell.case,
        "failure": f"{cell.failed} NIC{'s' * (cell.failed > 1)}" if cell.failed else "none",
        "policy": cell.policy,
        "allocation": "flow" if simulated or plan is None else "planned",
        "seed": cell.seed,
        "jobs": len(cell.jobs),
        "ring": None,
        "epochs": len(over),
        "ratio": float(np.mean(over)) if over else None,
        "ratio_worst": float(np.max(over)) if over else None,
        "ratios": none,
        "iteration": None,
        "iteration_99": None,
        "iteration_bound": None,
        "gbps": None,
        "fct": none,
        "link_mean": None,
        "link_busiest": None,
        "imbalance": None,
        "plans": 0 if plan is None else 1,
        "planning_mean": None if plan is None else plan.planning_seconds,
        "planning_worst": None if plan is None else plan.planning_seconds,
        "moved": 0,
        "moved_sending": 0,
        "simulated_seconds": None,
        "stalled": False,
        "wall_seconds": wall,
    }
