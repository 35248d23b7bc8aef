"""Export of fabrics and jobs to the file formats of other simulators."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.planning.live_traffic import live_jobs
from controller.workload.expand import ExpandedJobs
from controller.workload.importers.htsim.matrix import write_matrix
from controller.workload.importers.htsim.topology import write_topology


def htsim_matrix(fabric: Fabric, jobs: Iterable[Job], *, scale: float = 1.0) -> str:
    """Return the jobs' flows as a connection matrix of htsim (.cm); node n is the fabric's n-th host.

    Where NICs have several ports, the ports are the nodes, and a connection has a flow for each.

    Args:
        fabric: the fabric of the jobs.
        jobs: the jobs to export, in order.
        scale: factor of all bytes; htsim takes at most 2 GiB a connection.

    Raises:
        InputError: a job does not fit the fabric, or htsim cannot express it.
    """
    if not 0 < scale <= 1:
        raise InputError("must be above 0 and at most 1", field="scale", value=scale)
    expanded = ExpandedJobs(fabric)
    expanded.expand(list(jobs))
    lines = write_matrix(fabric, live_jobs(fabric, expanded.jobs), scale)
    return "".join(f"{line}\n" for line in lines)


def htsim_topology(fabric: Fabric, *, latency_ns: int = 1000) -> str:
    """Return a symmetric fabric as a topology of htsim (.topo).

    Args:
        fabric: the fabric to export.
        latency_ns: latency of each cable in nanoseconds.

    Raises:
        InputError: the fabric is not symmetric.
    """
    return write_topology(fabric, latency_ns)
