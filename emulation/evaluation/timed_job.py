"""A job with its times: what a scenario names, and what becomes a job of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.workload.expand import JobTraffic, combine, expand
from controller.workload.load import told_if_unplaced
from emulation.evaluation.steps import schedule_of
from emulation.fluid.schedule import SimulatedJob


@dataclass(frozen=True, eq=False)
class TimedJob:
    """A job on hosts of a fabric, and when it does what.

    Attributes:
        compute_seconds: before the communication of each epoch.
        epochs: how many; then it leaves.
        start: seconds, when it comes.
        pieces: in how many parts trees and chains pass their data on.
        source: of what is wrong with it.
    """

    job: Job
    compute_seconds: float = 0.0
    epochs: int = 1
    start: float = 0.0
    pieces: int = 1
    source: str = ""


def simulated_jobs(fabric: Fabric, jobs: Sequence[TimedJob]) -> tuple[SimulatedJob, ...]:
    """The jobs as the simulator takes them, with UDP source ports given in this order.

    Raises:
        InputError: a job that does not fit the fabric, or whose name another one has.
    """
    expanded: list[JobTraffic] = []
    made = []
    for timed in jobs:
        try:
            if any(timed.job.name == other.name for other in expanded):
                raise InputError("a job before it has this name", field="name", value=timed.job.name)
            expanded.append(expand(fabric, timed.job, expanded))
        except InputError as error:
            raise told_if_unplaced(error, timed.job).with_source(timed.source) from None
        traffic = combine(expanded[-1:])
        schedule = schedule_of(fabric, timed.job, traffic, pieces=timed.pieces)
        made.append(SimulatedJob(timed.job.name, traffic, schedule, timed.compute_seconds, timed.epochs, timed.start))
    return tuple(made)
