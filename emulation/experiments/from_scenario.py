"""Conversion of a simulator scenario to experiments on packets, one for each case and failure, with the same paths.

Experiments take files, as the command does: each case and failure gets a folder with its fabric file (in which failed
parts are down) and its job files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from controller.routing import Options, advising, draws, enforceable
from controller.routing.times.stages import has_times
from controller.whole_file import write_bytes
from controller.workload.job_document import document_of
from emulation.evaluation.cases import Case
from emulation.evaluation.scenario import InitialFailure, NamedPolicy, Scenario
from emulation.experiments.request import ExperimentRequest
from emulation.policy_names import SHIFTS

MOST_HOSTS = 64
"""Of a fabric that is emulated: two cores carry sixteen at 15 Mbit/s, and more at less."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """One case under one failure: a lab, and all policies on it.

    Attributes:
        fabric: the fabric with the failed parts down.
        request: the request; ``write`` writes its fabric and job files.
    """

    case: Case
    failure: InitialFailure
    fabric: Fabric
    request: ExperimentRequest

    def write(self) -> None:
        """Write the files that the request names.

        Raises:
            InputError: they cannot be written.
        """
        documents: list[tuple[Path, Any]] = [(self.request.fabric, fabric_document(self.fabric))]
        documents += zip(self.request.jobs, (document_of(timed.telling) for timed in self.case.described), strict=True)
        try:
            self.request.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(error.strerror or str(error), field="--out", value=str(self.request.folder)) from None
        for path, document in documents:
            write_bytes(path, [f"{json.dumps(document)}\n".encode()])


def experiments_of(
    scenario: Scenario, wanted: ExperimentRequest, *, kept: str | None = None
) -> tuple[list[Experiment], list[str]]:
    """Return the experiments, and one sentence for each part of the scenario that is left out.

    Args:
        scenario: the scenario.
        wanted: the common settings; its fabric, jobs, policies, seeds and name are not used.
        kept: run each policy a second time, with hosts that keep the paces of its plans: ``PACED`` or ``WINDOWS``.

    Raises:
        InputError: the fabric is too large, or no policy is left.
    """
    if scenario.fabric.n_hosts > MOST_HOSTS:
        raise InputError(
            f"one machine emulates at most {MOST_HOSTS} hosts", field="fabric", value=scenario.fabric.n_hosts
        )
    policies, notes = _policies(scenario.policies)
    if not policies:
        raise InputError("switches cannot follow any of them", field="policies")
    if kept is not None:
        policies = tuple(name for policy in policies for name in (policy, f"{policy}{kept}"))
    if scenario.changes:
        notes.append("changes of links are left out: failed links are down from the beginning")
    made = []
    for case in scenario.cases:
        if any(timed.dag is not None for timed in case.described):
            notes.append(f"{case.name} is left out: experiments do not support task graphs")
            continue
        for failure in scenario.failures:
            for seed in scenario.seeds if failure.links else scenario.seeds[:1]:
                name = _slug(f"{case.name}-{failure.name}" + (f"-{seed}" if failure.links else ""))
                folder = wanted.out / name
                request = replace(
                    wanted,
                    fabric=folder / "fabric.json",
                    jobs=tuple(folder / f"{_slug(job.name)}.json" for job in case.jobs),
                    policies=policies,
                    seeds=(seed,) if failure.links else scenario.seeds,
                    iterations=_iterations(case),
                    qps=case.qps.count,
                    qp_mode=case.qps.mode,
                    name=name,
                )
                made.append(Experiment(case, failure, failure.on(scenario.fabric, seed), request))
    if not made:
        raise InputError("experiments do not support task graphs, and every case has one", field="cases")
    return made, notes


def _policies(named: tuple[NamedPolicy, ...]) -> tuple[tuple[str, ...], list[str]]:
    kept, notes = [], []
    for each in named:
        if each.policy not in enforceable():
            notes.append(f"{each.name} is left out: switches cannot follow it")
        elif each.splits:
            notes.append(f"{each.name} is left out: experiments of scenarios are compared flow by flow, not by pieces")
        elif each.policy in advising() and each.options == Options(shifts="advise"):
            kept.append(each.policy + SHIFTS)
        elif each.options != Options():
            notes.append(f"{each.name} is left out: experiments do not support options of policies")
        else:
            kept.append(each.policy)
    # Policies that draw come first, since tables compare with the first policy.
    return tuple(sorted(dict.fromkeys(kept), key=lambda name: not draws(name))), notes


def _iterations(case: Case) -> tuple[int, ...]:
    """Return the epochs of each job; one, if none computes: then all are the same."""
    if not any(has_times(job.traffic) for job in case.jobs):
        return (1,) * len(case.jobs)
    return tuple(job.epochs for job in case.jobs)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "case"
