"""The traffic of jobs on a fabric: where NICs have several ports, with each stripe between ports that are joined.

Whoever plans, simulates or exports the flows of jobs gets them here, so nobody else asks whether a ``Traffic`` is in
planes that are live. ``workload.expand.combine`` only joins the flows of jobs: each stripe is in the plane of its
number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.planning.plane_drain import NONE_ASIDE, PortsAside, on_planes_in_use
from controller.workload.expand import JobTraffic, combine


def live_traffic(fabric: Fabric, jobs: Sequence[JobTraffic], aside: PortsAside = NONE_ASIDE) -> Traffic:
    """Return the flows of all jobs, each stripe between ports that a live path joins, as far as there are some.

    Args:
        fabric: the fabric with its present failures, without what is drained otherwise.
        jobs: the flows of each job.
        aside: ports of drained planes and leaves, which a stripe takes only where no others join its NICs.
    """
    return on_planes_in_use(fabric, combine(jobs, fabric.tenants), aside)


def live_jobs(fabric: Fabric, jobs: Sequence[JobTraffic]) -> list[JobTraffic]:
    """Return the jobs with each stripe in the plane in which a plan for all of them has it."""
    if fabric.planes.count == 1 or not jobs:
        return list(jobs)
    traffic = live_traffic(fabric, jobs)
    begins = np.cumsum([job.n_flows for job in jobs])[:-1]
    ends = zip(np.split(traffic.src, begins), np.split(traffic.dst, begins), strict=True)
    return [dataclasses.replace(job, src=src, dst=dst) for job, (src, dst) in zip(jobs, ends, strict=True)]
