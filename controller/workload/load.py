"""Loading of several job files, in order, as the controller would admit them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.workload.expand import ExpandedJobs, JobTraffic
from controller.workload.importers.base import provisional_hosts
from controller.workload.job_file import load_job


def load_jobs(
    fabric: Fabric, paths: Sequence[Path], default_qps: QueuePairs = ONE_QP
) -> tuple[list[Job], list[JobTraffic]]:
    """Load the jobs, and their flows on this fabric with UDP source ports assigned in this order.

    ``default_qps``: the QPs of connections of jobs that do not say.

    Raises:
        InputError: the first error found, with its file.
    """
    jobs: dict[str, Job] = {}
    expanded = ExpandedJobs(fabric)
    wrong: InputError | None = None
    for path in paths:
        try:
            job = load_job(path)
            if job.name in jobs:
                raise InputError("a previous job has this name", field="name", value=job.name).with_source(str(path))
        except InputError as error:
            # A job before it may be wrong, too.
            wrong = error
            break
        jobs[job.name] = job
    every = list(jobs.values())
    try:
        expanded.expand(every, default_qps)
    except InputError as error:
        place = len(expanded.jobs)
        raise name_unplaced_ranks(error, every[place]).with_source(str(paths[place])) from None
    if wrong is not None:
        raise wrong
    return every, expanded.jobs


def name_unplaced_ranks(error: InputError, job: Job) -> InputError:
    """Return the error, or a hint to place the job if it is still on provisional hosts."""
    if error.field.startswith("hosts[") and job.hosts == provisional_hosts(len(job.hosts)):
        return InputError("the job has none yet: place it by 'fairspine job place'", field="hosts")
    return error
