"""The lab as an engine of the referee: the plans of a scenario on switches and hosts of this machine."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from controller.routing import assign
from emulation import needs
from emulation.errors import LabError
from emulation.evaluation.scenario import Scenario
from emulation.experiments.command import run_isolated
from emulation.experiments.from_scenario import Experiment, experiments_of
from emulation.experiments.request import ExperimentRequest, load
from emulation.experiments.run import prepare
from emulation.experiments.scale import PACKET_BYTES
from emulation.experiments.simulated import planned_simulation, simulated_seconds
from emulation.fluid.host_rates import EVEN
from emulation.fluid.movers import Allocation
from emulation.packets.referee import SPRAY
from emulation.packets.summary import RefereeStanding
from emulation.policy_names import PACED, WINDOWS

LAB = ", on the lab"
"""What names of contenders have in tables: packets of real hosts, not of the packet engine."""

WITHIN = 0.15
"""Part by which times on the lab may differ from the fluid model: what ``fairspine emulate --scenario`` allows."""


@dataclass(frozen=True)
class LabTimes:
    """Seconds of an iteration of a job, mean over its iterations, at the scale of the lab.

    Attributes:
        measured: on the lab.
        fluid: in the fluid model, over the same paths.
        ideal: there, if all flows divide freely over all paths.
    """

    job: str
    measured: float
    fluid: float
    ideal: float

    @property
    def deviation(self) -> float:
        """Part by which the lab takes longer than the fluid model says."""
        return self.measured / self.fluid - 1

    def document(self) -> dict[str, Any]:
        """Return the times as plain data."""
        return {
            "job": self.job,
            "lab_seconds": self.measured,
            "lab_over_ideal": self.measured / self.ideal,
            "fluid_seconds": self.fluid,
            "fluid_over_ideal": self.fluid / self.ideal,
            "deviation_from_fluid": self.deviation,
        }


@dataclass(frozen=True)
class LabBout:
    """One draw of a policy in one case on the lab.

    Attributes:
        kind, case, failure: of the scenario.
        policy: as in ``fairspine emulate``: with ``+paced`` or ``+windows`` where hosts keep the paces of the plan.
        sent, sent_again: packets of data.
    """

    kind: str
    case: str
    failure: str
    policy: str
    seed: int
    jobs: Sequence[LabTimes]
    sent: float
    sent_again: int

    @property
    def slowest(self) -> LabTimes:
        """The times of the slowest job: the largest in each column."""
        columns = zip(*((job.measured, job.fluid, job.ideal) for job in self.jobs), strict=True)
        return LabTimes("slowest", *map(max, columns))

    def document(self) -> dict[str, Any]:
        """Return the bout as plain data."""
        return {
            "kind": self.kind,
            "case": self.case,
            "failure": self.failure,
            "seed": self.seed,
            "policy": f"{self.policy}{LAB}",
            "jobs": [job.document() for job in (*self.jobs, self.slowest)],
            "packets": round(self.sent),
            "sent_again": self.sent_again,
        }


class LabEngine:
    """Runs the bouts of a scenario on the lab; made before anything runs, so that what is wrong is told first."""

    def __init__(self, scenario: Scenario, out: Path, seconds: float, pace_window: float = 0.0) -> None:
        """Check the scenario and the machine, and write the files of the experiments.

        Args:
            scenario: its policies run without paces and with them.
            out: folder for the files of each experiment.
            seconds: approximate time of the longest iteration of a job that is alone on the lab.
            pace_window: round trips of the windows that hosts keep in place of paces; 0: they pace.

        Raises:
            LabError: a part is missing, or not root, or flows have no path.
            InputError: the scenario does not fit on the lab.
        """
        wanted = ExperimentRequest(fabric=Path(), jobs=(), seconds=seconds, out=out)
        if pace_window:
            wanted = replace(wanted, pace_window=pace_window)
        self.experiments, self.notes = experiments_of(scenario, wanted, kept=WINDOWS if pace_window else PACED)
        lacking = needs.missing()
        if lacking:
            raise LabError(lacking)
        for experiment in self.experiments:
            experiment.write()
            prepare(load(experiment.request))

    def bouts(self, run: Callable[[ExperimentRequest], int] | None = None) -> list[LabBout]:
        """Run all experiments, one after the other, and return their bouts.

        Args:
            run: runs one and returns its exit status; ``None``: in private namespaces, with progress on standard error.

        Raises:
            LabError: one failed, or was interrupted.
        """
        made: list[LabBout] = []
        for experiment in self.experiments:
            request = experiment.request
            status = run_isolated(request, "none") if run is None else run(request)
            if status:
                raise LabError(f"the lab failed in {experiment.case.name}, failed: {experiment.failure.name}")
            written = request.out / f"{request.name}.json"
            made += bouts_of(experiment, json.loads(written.read_text()))
        return made


def bouts_of(experiment: Experiment, document: Mapping[str, Any]) -> list[LabBout]:
    """Return the bouts of an experiment from its results (``results.document``)."""
    scale = document["scale"]["time"]
    ideal = _ideal(experiment)
    made = []
    for run in document["runs"]:
        allocation = Allocation.PLANNED if run["paced"] else Allocation.HOSTS
        fluid = simulated_seconds(experiment, run, allocation, EVEN)
        times = [
            LabTimes(
                row["job"], statistics.fmean(row["iterations"]), fluid[row["job"]] * scale, ideal[row["job"]] * scale
            )
            for row in run["jobs"]
        ]
        sent = sum(row["bytes"] for row in run["collectives"]) / (PACKET_BYTES * document["scale"]["payload_part"])
        again = sum(row["retransmissions"] for row in run["collectives"])
        made.append(
            LabBout(
                experiment.case.kind,
                experiment.case.name,
                experiment.failure.name,
                run["policy"],
                run["seed"],
                times,
                sent,
                again,
            )
        )
    return made


def _ideal(experiment: Experiment) -> dict[str, float]:
    return planned_simulation(
        experiment, lambda fabric, traffic, previous: assign(SPRAY, fabric, traffic, previous=previous)
    )


def lab_standings(scenario: str, bouts: Sequence[LabBout], tolerance: float) -> list[RefereeStanding]:
    """Summarise bouts of the lab as those of the packet engine are; there is no spraying on it.

    Args:
        scenario: its name.
        bouts: of the scenario.
        tolerance: largest deviation from the fluid model.
    """
    grouped: dict[tuple[str, str, str], list[LabBout]] = {}
    for bout in bouts:
        grouped.setdefault((bout.kind, bout.failure, bout.policy), []).append(bout)
    made = []
    for (kind, failure, policy), own in grouped.items():
        ideal = [bout.slowest.measured / bout.slowest.ideal for bout in own]
        deviation = [bout.slowest.deviation for bout in own]
        made.append(
            RefereeStanding(
                scenario,
                kind,
                failure,
                f"{policy}{LAB}",
                len(own),
                float(np.mean(ideal)),
                max(ideal),
                math.nan,
                math.nan,
                float(np.mean([bout.slowest.fluid / bout.slowest.ideal for bout in own])),
                sum(bout.sent_again for bout in own) / max(sum(bout.sent for bout in own), 1.0),
                float(np.mean(deviation)),
                max(deviation, key=abs),
                sum(not abs(each) <= tolerance for each in deviation),
            )
        )
    return made


def lab_lines(bout: LabBout) -> list[tuple[str, ...]]:
    """Return the cells of rows of ``report.JOB_COLUMNS``: each job of a bout."""
    return [
        (
            bout.case,
            f"{bout.policy}{LAB}",
            times.job,
            f"{times.measured * 1e6:,.0f}",
            f"{times.measured / times.ideal:.3f}",
            "-",
            f"{times.fluid * 1e6:,.0f}",
            f"{100 * times.deviation:+.1f} %",
        )
        for times in bout.jobs
    ]
