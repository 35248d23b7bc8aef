"""The flows of jobs with their stripes in planes that are live."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from controller.model.fabric import Fabric
from controller.routing.problem.live_planes import on_live_planes
from controller.workload.expand import JobTraffic, combine


def jobs_on_live_planes(fabric: Fabric, jobs: Sequence[JobTraffic]) -> list[JobTraffic]:
    """Return the jobs with each stripe in the plane in which a plan for all of them would have it."""
    if fabric.planes.count == 1 or not jobs:
        return list(jobs)
    traffic = on_live_planes(fabric, combine(jobs))
    begins = np.cumsum([job.n_flows for job in jobs])[:-1]
    ends = zip(np.split(traffic.src, begins), np.split(traffic.dst, begins), strict=True)
    return [dataclasses.replace(job, src=src, dst=dst) for job, (src, dst) in zip(jobs, ends, strict=True)]
