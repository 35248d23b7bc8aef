"""Comparison of packets and simulation: the times of both side by side, and the ratios between policies."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulation.experiments.from_scenario import Experiment
from emulation.experiments.simulated import simulated_seconds

WITHIN = 0.15
"""How far a measured ratio may be from the simulated one."""


@dataclass(frozen=True)
class Compared:
    """A job under a policy and a failure.

    Attributes:
        simulated, measured: seconds of an iteration in each draw; simulated ones at the scale of the measured ones.
    """

    case: str
    failure: str
    policy: str
    job: str
    simulated: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def mean_simulated(self) -> float:
        """Mean of the simulated times, in seconds."""
        return statistics.fmean(self.simulated)

    @property
    def mean_measured(self) -> float:
        """Mean of the measured times, in seconds."""
        return statistics.fmean(self.measured)


@dataclass(frozen=True)
class Ratio:
    """Time under one policy over that under another one, mean over jobs and draws, and whether both sides agree.

    Attributes:
        off: measured over simulated ratio, minus 1.
    """

    case: str
    one: str
    other: str
    simulated: float
    measured: float

    @property
    def off(self) -> float:
        """Relative deviation of the measured ratio from the simulated one."""
        return self.measured / self.simulated - 1.0

    @property
    def agrees(self) -> bool:
        """Whether the deviation is at most ``WITHIN``."""
        return abs(self.off) <= WITHIN


def compare(experiment: Experiment, document: Mapping[str, Any]) -> list[Compared]:
    """Return a row for each policy and job of an experiment.

    Args:
        experiment: the experiment.
        document: its results (``results.document``).
    """
    scale = document["scale"]["time"]
    rows = []
    for policy in experiment.request.policies:
        runs = [run for run in document["runs"] if run["policy"] == policy]
        simulated = [simulated_seconds(experiment, run) for run in runs]
        measured = [{row["job"]: statistics.fmean(row["iterations"]) for row in run["jobs"]} for run in runs]
        for job in experiment.case.jobs:
            if job.name in measured[0]:
                rows.append(
                    Compared(
                        experiment.case.name,
                        experiment.failure.name,
                        policy,
                        job.name,
                        tuple(seconds[job.name] * scale for seconds in simulated),
                        tuple(seconds[job.name] for seconds in measured),
                    )
                )
    return rows


def ratios(rows: Sequence[Compared]) -> list[Ratio]:
    """Return the ratios of every two rows of a case, over policies and failures."""
    compared = []
    for case in dict.fromkeys(row.case for row in rows):
        members: dict[str, list[Compared]] = {}
        for row in rows:
            if row.case == case:
                members.setdefault(label(row), []).append(row)
        for one, other in itertools.combinations(members, 2):
            compared.append(
                Ratio(
                    case,
                    one,
                    other,
                    _mean(members[one], measured=False) / _mean(members[other], measured=False),
                    _mean(members[one], measured=True) / _mean(members[other], measured=True),
                )
            )
    return compared


def label(row: Compared) -> str:
    """``fair``, or ``fair, 1 spine failed``."""
    return row.policy if row.failure == "none" else f"{row.policy}, {row.failure} failed"


def _mean(rows: Sequence[Compared], *, measured: bool) -> float:
    return statistics.fmean(row.mean_measured if measured else row.mean_simulated for row in rows)
