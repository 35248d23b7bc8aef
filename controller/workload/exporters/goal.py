"""Jobs' flows as a GOAL schedule, the input of LogGOPSim and ATLAHS.

Rank n is the fabric's n-th host. A job's phases run one after the other on each rank (``calc 0`` between them waits for
all of a phase's sends and receives), jobs run at the same time. Each flow has its own tag, and so has each piece
of a split one. A plan's path is a comment on the line before the send: ``txt2bin`` accepts comments only at the
beginning of a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.model.errors import InputError
from controller.workload.expand import JobTraffic
from controller.workload.exporters.messages import Routes, messages_of


def goal_lines(
    n_hosts: int, jobs: Sequence[JobTraffic], compute_ns: int = 0, routes: Routes | None = None
) -> Iterator[str]:
    """Yield the lines of a schedule.

    Args:
        n_hosts: the number of hosts of the fabric.
        jobs: the flows of each job.
        routes: the paths of all flows in a plan, if there is one.
        compute_ns: computing time of each rank before each job's first phase.

    Raises:
        InputError: there is no flow.
    """
    if not any(job.n_flows for job in jobs):
        raise InputError("no flow crosses the network", field="job")
    parts = _parts(jobs, routes)
    yield f"num_ranks {n_hosts}"
    for rank in range(n_hosts):
        yield ""
        yield f"rank {rank} {{"
        number = 0
        for job in sorted({job for _, job, _, _ in parts.get(rank, [])}):
            waits: list[str] = []
            if compute_ns:
                number += 1
                yield f"l{number}: calc {compute_ns} cpu {job}"
                waits = [f"l{number}"]
            phases = sorted({phase for phase, other, _, _ in parts[rank] if other == job})
            for phase in phases:
                names = []
                for path, text in [row[2:] for row in parts[rank] if row[:2] == (phase, job)]:
                    number += 1
                    names.append(f"l{number}")
                    if path:
                        yield path
                    yield f"l{number}: {text}"
                    yield from (f"l{number} requires {before}" for before in waits)
                if phase != phases[-1]:
                    number += 1
                    yield f"l{number}: calc 0 cpu {job}"
                    yield from (f"l{number} requires {name}" for name in names)
                    waits = [f"l{number}"]
        yield "}"


def _parts(jobs: Sequence[JobTraffic], routes: Routes | None) -> dict[int, list[tuple[int, int, str, str]]]:
    """Return (phase, job, path as a comment or nothing, statement) of each rank."""
    parts: dict[int, list[tuple[int, int, str, str]]] = {}
    for row in messages_of(jobs, routes):
        path = f"// {row.flow} by {' '.join(row.links)}" if row.links else ""
        send = f"send {row.bytes}b to {row.dst} tag {row.tag}"
        parts.setdefault(row.src, []).append((row.phase, row.job, path, send))
        receive = f"recv {row.bytes}b from {row.src} tag {row.tag}"
        parts.setdefault(row.dst, []).append((row.phase, row.job, "", receive))
    return parts
