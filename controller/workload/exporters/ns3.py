"""A fabric and jobs' flows as files of HPCC's ns-3 simulation, which SimAI and ASTRA-sim use as well.

Hosts are nodes 0 to H-1 in the fabric's order, then leaves, then spines. All flows start at once: the simulation
has no phases, so each phase of a job has its own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.tolerances import ROUNDING
from controller.workload.expand import JobTraffic
from controller.workload.exporters.scaled_bytes import scaled_bytes

LATENCY_NS = 1000
PRIORITY, PORT = 3, 100
MOST_BYTES = 2**32 - 1
"""Of a flow: the simulations read its size as an unsigned number of 32 bits, and nothing behind a larger one."""

START_S = 2.0
"""Start of the flows in seconds, as in the simulation's own examples."""


def ns3_topology(fabric: Fabric, latency_ns: int = LATENCY_NS) -> Iterator[str]:
    """Yield the lines of a topology file; cables and hosts that are down are left out.

    Raises:
        InputError: a speed is not a whole number of kbit/s.
    """
    switches = [switch.name for switch in fabric.switches]
    number = {name: fabric.n_hosts + i for i, name in enumerate(switches)}
    links = [(i, number[host.leaf], host.gbps) for i, host in enumerate(fabric.hosts) if host.up]
    links += [(number[cable.lower], number[cable.upper], cable.gbps) for cable in fabric.cables if cable.up]
    yield f"{fabric.n_hosts + len(switches)} {len(switches)} {len(links)}"
    yield " ".join(str(number[name]) for name in switches)
    for a, b, gbps in links:
        yield f"{a} {b} {_rate(gbps)} {latency_ns}ns 0.000000"


def ns3_flows(jobs: Sequence[JobTraffic], phase: int | None = None, scale: float = 1.0) -> Iterator[str]:
    """Yield the lines of a file of flows.

    Args:
        jobs: the flows of each job.
        phase: the phase to export; ``None``: the jobs have only one.
        scale: factor of all bytes, above 0 and at most 1; the result is rounded up.

    Raises:
        InputError: the jobs have several phases and none is chosen, no flow is in it, or a flow is too large for the
            simulations.
    """
    sizes = [scaled_bytes(job, scale, MOST_BYTES, "the simulations'") for job in jobs]
    phases = sorted({job.collectives[k].phase for job in jobs for k in set(job.collective.tolist())})
    if phase is None and len(phases) > 1:
        raise InputError(f"the jobs have phases {phases}; ns-3 flows have no phases, so select one", field="phase")
    rows = [
        f"{job.src[flow]} {job.dst[flow]} {PRIORITY} {PORT} {size[flow]} {START_S:g}"
        for job, size in zip(jobs, sizes, strict=True)
        for flow, collective in enumerate(job.collective.tolist())
        if phase is None or job.collectives[collective].phase == phase
    ]
    if not rows:
        raise InputError(
            "no flow crosses the network" + ("" if phase is None else " in this phase"), field="phase", value=phase
        )
    yield str(len(rows))
    yield from rows


def _rate(gbps: float) -> str:
    for unit, factor in (("Gbps", 1.0), ("Mbps", 1e3), ("Kbps", 1e6)):
        if abs(gbps * factor - round(gbps * factor)) < ROUNDING:
            return f"{round(gbps * factor)}{unit}"
    raise InputError("is not a whole number of kbit/s", field="gbps", value=gbps)
