"""Jobs from htsim's connection matrices, and connection matrices of jobs' flows.

A written matrix has comments that name the collective and phase of its connections, and is read back as the same
flows, collectives and phases; UDP source ports are not part of the format. Other matrices are grouped as
``htsim_phases``
describes. htsim runs a written matrix one phase after the other: a barrier that all connections of a phase fire starts
the next.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import FlowList, Job
from controller.workload.expand import JobTraffic
from controller.workload.exporters.scaled_bytes import scaled_bytes
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.fields import job_name
from controller.workload.importers.htsim.connections import COMMENT, Connections
from controller.workload.importers.htsim.phases import Grouping, group
from controller.workload.importers.htsim.topology import hosts_per_leaf
from controller.workload.job_file import LEAST_WEIGHT, MOST_WEIGHT

MAX_HTSIM_BYTES = 2**31 - 1
"""Most bytes of a connection: htsim stores them as an ``int``."""

_NAME = r"[A-Za-z0-9._-]{1,63}"
_JOB = re.compile(rf"job ({_NAME}) weight ([0-9]{{1,7}}(?:\.[0-9]{{1,17}})?(?:e-[0-9]{{1,2}})?)")
_COLLECTIVE = re.compile(rf"collective ({_NAME}) phase ([0-9]{{1,7}}) connections ([0-9]{{1,9}})-([0-9]{{1,9}})")


class Read(NamedTuple):
    """A job, its number of collectives, and notes on doubtful points."""

    job: Job
    collectives: int
    notes: list[str]


@dataclass(frozen=True)
class _Said:
    """The contents of the comments of a written matrix."""

    name: str
    weight: float
    grouping: Grouping


def job_of(matrix: Connections, hosts: tuple[str, ...], request: ImportRequest) -> Read:
    """Derive the job of a connection matrix.

    Args:
        matrix: the connection matrix.
        hosts: host name of each node.
        request: the options of the import.

    Raises:
        InputError: a connection never starts.
    """
    notes: list[str] = []
    said = _said(matrix)
    if said is None:
        grouping, rounds = group(matrix)
        notes += _overlaps(matrix, rounds)
        if matrix.comments:
            notes.append(
                f"{matrix.source.name}: its comments about collectives describe several jobs or do not match its "
                "connections; collectives and phases are derived from triggers"
            )
    else:
        grouping = said.grouping
    size = np.frombuffer(matrix.size, dtype=np.int64).copy() if len(matrix) else np.zeros(0, dtype=np.int64)
    unsized = size <= 0
    size[unsized] = request.bytes or 0
    if unsized.any():
        first = int(np.flatnonzero(unsized)[0])
        notes.append(
            f"{matrix.source.name}:{matrix.line[first]}: {int(unsized.sum())} connections have no size, the first here "
            f"(htsim sends without end); {request.bytes or 0} bytes are assumed"
        )
    if matrix.failures:
        notes.append(
            f"{matrix.source.name}: {matrix.failures} failures are left out; a fabric file lists them in 'failed'"
        )
    job = Job(
        name=request.name or (said.name if said else job_name(matrix.source, "htsim")),
        weight=said.weight if said else 1.0,
        hosts=hosts,
        flows=FlowList(
            src=tuple(hosts[node] for node in matrix.src),
            dst=tuple(hosts[node] for node in matrix.dst),
            bytes=size,
            collective=tuple(grouping.names[k] for k in grouping.collective),
            udp_src=np.zeros(len(matrix), dtype=np.int32),
        ),
        phases={name: phase for name, phase in zip(grouping.names, grouping.phases, strict=True) if phase},
    )
    return Read(job, len(grouping.names), notes)


def write_matrix(fabric: Fabric, jobs: Sequence[JobTraffic], scale: float = 1.0) -> Iterator[str]:
    """Return the lines of a connection matrix: each job's flows phase by phase, all jobs at the same time.

    Args:
        fabric: the fabric on which the jobs were expanded; host i is node i.
        jobs: the flows of each job.
        scale: factor of all bytes, above 0 and at most 1; the result is rounded up.

    Raises:
        InputError: htsim numbers hosts otherwise, a flow is too large for htsim, or there is no flow.
    """
    hosts_per_leaf(fabric)
    if not any(job.n_flows for job in jobs):
        raise InputError("no flow crosses the network", field="job")
    sizes = [scaled_bytes(job, scale, MAX_HTSIM_BYTES, "htsim's") for job in jobs]
    return _lines(fabric.n_hosts, jobs, sizes)


def _lines(nodes: int, jobs: Sequence[JobTraffic], sizes: list[list[int]]) -> Iterator[str]:
    steps = [_by_phase(job) for job in jobs]
    yield f"Nodes {nodes}"
    yield f"Connections {sum(job.n_flows for job in jobs)}"
    yield f"Triggers {sum(max(0, len(of_job) - 1) for of_job in steps)}"
    first = 1
    for job, of_job in zip(jobs, steps, strict=True):
        yield f"{COMMENT}job {job.name} weight {job.weight!r}"
        for step in of_job:
            for collective, flows in step:
                row = job.collectives[collective]
                last = first + len(flows) - 1
                yield f"{COMMENT}collective {row.name} phase {row.phase} connections {first}-{last}"
                first = last + 1
    number, trigger = 0, 0
    barriers: list[str] = []
    for job, of_job, size in zip(jobs, steps, sizes, strict=True):
        start = "start 0"
        for position, step in enumerate(of_job):
            end = ""
            if position + 1 < len(of_job):
                trigger += 1
                end = f" send_done_trigger {trigger}"
                barriers.append(f"trigger id {trigger} barrier count {sum(len(flows) for _, flows in step)}")
            for _, flows in step:
                for flow in flows:
                    number += 1
                    yield f"{job.src[flow]}->{job.dst[flow]} id {number} {start} size {size[flow]}{end}"
            start = f"trigger {trigger}"
    yield from barriers


def _by_phase(job: JobTraffic) -> list[list[tuple[int, list[int]]]]:
    """Return the flows of the collectives of each phase with flows, in order of phases."""
    flows: dict[int, list[int]] = {}
    for flow, collective in enumerate(job.collective.tolist()):
        flows.setdefault(collective, []).append(flow)
    steps: dict[int, list[tuple[int, list[int]]]] = {}
    for collective in sorted(flows):
        steps.setdefault(job.collectives[collective].phase, []).append((collective, flows[collective]))
    return [steps[phase] for phase in sorted(steps)]


def _said(matrix: Connections) -> _Said | None:
    """Return the contents of the comments, if they are of one job and fit the connections."""
    if not matrix.comments:
        return None
    job = _JOB.fullmatch(matrix.comments[0])
    rows = [_COLLECTIVE.fullmatch(comment) for comment in matrix.comments[1:]]
    if job is None or job[1] in (".", ".."):
        return None
    weight = float(job[2])
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        return None
    names: list[str] = []
    phases: list[int] = []
    collective = array("q")
    for row in rows:
        if row is None or int(row[3]) != len(collective) + 1 or not len(collective) < int(row[4]) <= len(matrix):
            return None
        collective.extend([len(names)] * (int(row[4]) - len(collective)))
        names.append(row[1])
        phases.append(int(row[2]))
    if len(collective) != len(matrix) or len(set(names)) != len(names) or max(phases, default=0) > 1_000_000:
        return None
    return _Said(job[1], weight, Grouping(collective, tuple(names), tuple(phases)))


def _overlaps(matrix: Connections, rounds: array[int]) -> Iterator[str]:
    """Yield a note on connections that may still run in htsim when later phases start; in the job they have ended."""
    last = max(rounds, default=0)
    alone = sum(
        1
        for number, one, other in zip(rounds, matrix.send_done, matrix.recv_done, strict=True)
        if number < last and not one and not other
    )
    if alone:
        yield (
            f"{matrix.source.name}: {alone} connections start no others and may continue while later phases "
            "begin; in the job, phases follow each other"
        )
