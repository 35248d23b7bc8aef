"""Jobs of a scenario with their times, and their conversion to jobs of the simulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.dag import Dag
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import Int64Array, Traffic
from controller.planning.live_traffic import live_traffic
from controller.routing.problem.rounds import as_sent, phases_of_rounds
from controller.routing.times.phase_order import has_order
from controller.routing.times.stages import Stages, has_times
from controller.workload.expand import JobTraffic, expand, jobs_of_tenants
from controller.workload.load import name_unplaced_ranks
from emulation.evaluation.graph_steps import least_seconds, schedule_of_graph
from emulation.evaluation.steps import schedule_of
from emulation.fluid.schedule import JobSchedule, SimulatedJob


@dataclass(frozen=True, eq=False)
class TimedJob:
    """A job on hosts of a fabric, with its times.

    Attributes:
        compute_seconds: computation before the communication of each epoch; ``None``: as the job describes.
        epochs: number of epochs before the job ends.
        start: time of its start in seconds.
        pieces: number of parts in which trees and chains forward their data.
        source: source that errors name.
        dag: the task graph, if its files contain one; the job then has a flow for each pair of ranks.
    """

    job: Job
    compute_seconds: float | None = None
    epochs: int = 1
    start: float = 0.0
    pieces: int = 1
    source: str = ""
    dag: Dag | None = None

    @property
    def telling(self) -> Job:
        """The job with its computation time in its description, where policies read it."""
        said = self.compute_seconds
        if said is None or (said == 0 and self.job.timing is None):
            return self.job
        first = min(self.job.phase_by_name.values(), default=0)
        return dataclasses.replace(self.job, timing=JobTiming(((first, said),)))


def scaled(timed: TimedJob, factor: float) -> TimedJob:
    """Return the same job with this part of its bytes, of its computing times, and of the time until it starts.

    Args:
        timed: the job.
        factor: above 0; bytes are rounded, and no message has less than one.

    Raises:
        InputError: it is a task graph.
    """
    if factor == 1.0:
        return timed
    if timed.dag is not None:
        raise InputError("a task graph cannot be scaled", field="scale", value=factor)
    job = timed.job
    timing = job.timing
    if timing is not None:
        period = timing.period_seconds
        timing = JobTiming(
            tuple((phase, seconds * factor) for phase, seconds in timing.compute),
            None if period is None else period * factor,
        )
    calls = tuple(dataclasses.replace(call, bytes=int(_part(call.bytes, factor))) for call in job.collectives)
    flows = dataclasses.replace(job.flows, bytes=_part(job.flows.bytes, factor))
    matrix = job.matrix and dataclasses.replace(job.matrix, bytes=_part(job.matrix.bytes, factor))
    return dataclasses.replace(
        timed,
        job=dataclasses.replace(job, collectives=calls, flows=flows, matrix=matrix, timing=timing),
        compute_seconds=None if timed.compute_seconds is None else timed.compute_seconds * factor,
        start=timed.start * factor,
    )


def sending_at_once(timed: TimedJob) -> TimedJob:
    """Return the same job without computing times and from second 0 on: it sends all the time.

    Raises:
        InputError: it is a task graph.
    """
    if timed.dag is not None:
        raise InputError("a task graph has computing times of its own", field="at_once", value=True)
    return dataclasses.replace(timed, job=dataclasses.replace(timed.job, timing=None), compute_seconds=None, start=0.0)


def _part(size: Int64Array | int, factor: float) -> Int64Array:
    """Return so many bytes of each, at least 1 where there were some."""
    least: Int64Array = np.minimum(np.asarray(size, dtype=np.int64), 1)
    return np.maximum(least, np.rint(np.asarray(size) * factor).astype(np.int64))


def _in_order(fabric: Fabric, traffic: Traffic) -> tuple[dict[int, float] | None, float | None]:
    """Return the computing of a job by phase, and the least seconds of an iteration alone, if it states an order.

    Both are ``None`` for a job of which no collective overlaps with computing or is after another.
    """
    if not has_order(traffic.collectives):
        return None, None
    stages = Stages.on(fabric.healthy(), traffic)
    timing = traffic.collectives[0].timing
    if stages.order is None or not len(stages.row):
        return ({} if timing is None else dict(timing.compute)), None
    first_row = stages.row[stages.order.stage_first[:-1]]
    phases = stages.demand.traffic.phase[first_row].tolist()
    return dict(zip(phases, stages.order.compute.tolist(), strict=True)), float(stages.alone[0])


def _computing(fabric: Fabric, traffic: Traffic, schedule: JobSchedule) -> tuple[float, JobSchedule]:
    """Return the seconds before each epoch's communication, and the schedule with the computation between phases."""
    if not has_times(traffic):
        return 0.0, schedule
    parts = as_sent(traffic)
    stages, of_rounds = Stages.on(fabric.healthy(), parts), phases_of_rounds(traffic, parts)
    if not len(stages.row):
        timing = traffic.collectives[0].timing if traffic.collectives else None
        return (sum(seconds for _, seconds in timing.compute) if timing else 0.0), schedule
    phase_of = traffic.phase[schedule.collective]
    delay = schedule.delay.copy()
    inside = phase_of[schedule.before] == phase_of[schedule.after]
    begins = ~np.isin(np.arange(schedule.n_groups), schedule.after[inside])
    for row, seconds in zip(stages.row[1:].tolist(), stages.compute[1:].tolist(), strict=True):
        stage = stages.demand.traffic.collectives[row]
        delay[begins & (phase_of == of_rounds[stage.job, stage.phase])] += seconds
    return float(stages.compute[0]), dataclasses.replace(schedule, delay=delay)


def simulated_jobs(
    fabric: Fabric, jobs: Sequence[TimedJob], default_qps: QueuePairs = ONE_QP
) -> tuple[SimulatedJob, ...]:
    """Return the jobs in the simulator's form, with UDP source ports assigned in this order.

    ``default_qps``: the QPs of connections of jobs that do not say; a graph's flows have one.

    Raises:
        InputError: a job does not fit the fabric, or two jobs have the same name.
    """
    expanded: list[JobTraffic] = []
    made = []
    for timed in jobs:
        try:
            if any(timed.job.name == other.name for other in expanded):
                raise InputError("a previous job has this name", field="name", value=timed.job.name)
            expanded.append(
                expand(fabric, timed.telling, expanded, default_qps=default_qps if timed.dag is None else ONE_QP)
            )
        except InputError as error:
            raise name_unplaced_ranks(error, timed.job).with_source(timed.source) from None
        traffic = live_traffic(fabric, expanded[-1:])
        least, alone = 0.0, None
        if timed.dag is None:
            computing, alone = _in_order(fabric, traffic)
            schedule = schedule_of(fabric, timed.job, traffic, pieces=timed.pieces, computing=computing)
            compute, schedule = _computing(fabric, traffic, schedule) if computing is None else (0.0, schedule)
        else:
            schedule = schedule_of_graph(fabric, timed.job, timed.dag, traffic)
            compute = timed.compute_seconds or 0.0
            least = least_seconds(fabric, timed.job, timed.dag, traffic)
        made.append(SimulatedJob(timed.job.name, traffic, schedule, compute, timed.epochs, timed.start, least, alone))
    shared = jobs_of_tenants(expanded, fabric.tenants)
    if shared is expanded:
        return tuple(made)
    return tuple(
        dataclasses.replace(job, traffic=dataclasses.replace(job.traffic, collectives=own.collectives))
        for job, own in zip(made, shared, strict=True)
    )
