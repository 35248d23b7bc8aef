"""The computing times of jobs and the schedule of a plan, at the scale of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.model.fabric import Fabric
from controller.model.timing import IterationGrid
from controller.model.traffic import Traffic
from controller.routing.problem.rounds import as_sent, phases_of_rounds
from controller.routing.times.stages import Stages
from emulation.experiments.request import EmulatedScenario
from emulation.roce.job_cycle import JobCycle

Computing = Mapping[str, tuple[tuple[int, float], ...]]
"""By job with traffic: (phase, seconds of computing) in the order of its phases."""


def computing_of(fabric: Fabric, traffic: Traffic) -> Computing:
    """Return how long each job computes in each of its phases, in seconds on the healthy fabric."""
    parts = as_sent(traffic)
    stages, phase_of = Stages.on(fabric.healthy(), parts), phases_of_rounds(traffic, parts)
    of_job: dict[str, dict[int, float]] = {name: {} for name in stages.names}
    for j, row, seconds in zip(stages.job.tolist(), stages.row.tolist(), stages.compute.tolist(), strict=True):
        phases = of_job[stages.names[j]]
        phase = phase_of[stages.names[j], stages.demand.traffic.collectives[row].phase]
        # A phase with several stages computes before the first of them.
        phases[phase] = phases.get(phase, 0.0) + seconds
    return {name: tuple(phases.items()) for name, phases in of_job.items()}


def cycles(scenario: EmulatedScenario, schedule: Mapping[str, Any] | None, scale: float) -> list[JobCycle]:
    """Return when each job with traffic computes and sends.

    Args:
        scenario: the jobs.
        schedule: the plan's ``schedule``, if it advises shifts.
        scale: emulated seconds for each second on the fabric.
    """
    grids = {} if schedule is None else {row["job"]: _grid(row, scale) for row in schedule["jobs"]}
    iterations = scenario.iterations
    return [
        JobCycle(job, iterations[job], tuple((phase, seconds * scale) for phase, seconds in phases), grids.get(job))
        for job, phases in computing_of(scenario.fabric, scenario.traffic).items()
    ]


def _grid(row: Mapping[str, Any], scale: float) -> IterationGrid:
    return IterationGrid(row["period_seconds"] * scale, row["shift_seconds"] * scale, row["hold"])


def predicted_iterations(plan: Mapping[str, Any]) -> dict[str, float]:
    """Return the expected iteration of each job of a plan in seconds, as far as some job states computing times."""
    times = plan.get("times") or {"jobs": []}
    schedule = plan.get("schedule") or {"jobs": []}
    # Jobs that follow a schedule are in both, and their iterations are those of the schedule.
    return {row["job"]: row["iteration_seconds"] for row in (*times["jobs"], *schedule["jobs"])}
