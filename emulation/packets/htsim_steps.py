"""Connection matrices of htsim with the steps of collectives: a connection for each transfer, started by triggers.

In a ring, a host sends its next step when it has received the one before, as in the packet engine. What waits for whole
groups (phases, rounds of other algorithms) is started by a barrier. htsim's triggers cannot wait for a time, so the
computing of jobs is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.workload.importers.htsim.matrix import MAX_HTSIM_BYTES
from controller.workload.importers.htsim.topology import hosts_per_leaf
from emulation.fluid.schedule import SimulatedJob


@dataclass(frozen=True)
class _Step:
    """A connection, the trigger that starts it, and those that it fires when all is sent and received (0: none)."""

    src: int
    dst: int
    size: int
    trigger: int
    sent: int = 0
    received: int = 0


def write_steps(fabric: Fabric, jobs: Sequence[SimulatedJob], scale: float = 1.0) -> Iterator[str]:
    """Return the lines of a connection matrix; all jobs begin at once.

    Args:
        fabric: host i is node i.
        jobs: one epoch of each is written.
        scale: factor of all bytes, above 0 and at most 1; results are rounded up.

    Raises:
        InputError: htsim numbers hosts otherwise, a transfer is too large for htsim, there is none, or the steps of a
            job wait for each other as triggers cannot express.
    """
    hosts_per_leaf(fabric)
    triggers: list[int] = []
    steps = [step for job in jobs for step in _steps(job, scale, triggers)]
    if not steps:
        raise InputError("no flow crosses the network", field="job")
    yield f"Nodes {fabric.n_hosts}"
    yield f"Connections {len(steps)}"
    yield f"Triggers {len(triggers)}"
    for number, step in enumerate(steps, 1):
        begin = f"trigger {step.trigger}" if step.trigger else "start 0"
        end = f" send_done_trigger {step.sent}" if step.sent else ""
        end += f" recv_done_trigger {step.received}" if step.received else ""
        yield f"{step.src}->{step.dst} id {number} {begin} size {step.size}{end}"
    for number, count in enumerate(triggers, 1):
        yield f"trigger id {number} barrier count {count}"


def _steps(job: SimulatedJob, scale: float, triggers: list[int]) -> Iterator[_Step]:
    """Yield the connections of a job; append the counts of its triggers, which are numbered from 1."""
    schedule, traffic = job.schedule, job.traffic
    first = np.searchsorted(schedule.group, np.arange(schedule.n_groups + 1)).tolist()
    begins = _begins(job, np.diff(first).tolist(), triggers)
    for g in range(schedule.n_groups):
        own = range(first[g], first[g + 1])
        flows = [int(schedule.flow[t]) for t in own]
        ends = [(int(traffic.src[flow]), int(traffic.dst[flow])) for flow in flows]
        sizes = [max(1, int(np.ceil(schedule.bytes[t] * scale))) for t in own]
        if max(sizes, default=0) > MAX_HTSIM_BYTES:
            raise InputError(
                f"a transfer has more than htsim's {MAX_HTSIM_BYTES} bytes; --scale makes all smaller",
                field=f"job {job.name}",
                value=max(sizes),
            )
        start, end = begins[g]
        into: dict[int, int] = {}
        out: dict[int, int] = {}
        for src, dst in ends:
            into[dst] = into.get(dst, 0) + 1
            out[src] = out.get(src, 0) + 1
        run_of: dict[int, int] = {}
        for run in range(int(schedule.repeat[g])):
            last = run + 1 == int(schedule.repeat[g])
            after: dict[int, int] = {}
            if not last:
                for host in out:
                    triggers.append(into.get(host, out[host]))
                    after[host] = len(triggers)
            for (src, dst), size in zip(ends, sizes, strict=True):
                yield _Step(
                    src,
                    dst,
                    size,
                    run_of.get(src, start),
                    # A host that receives nothing goes on when its own last step is done.
                    sent=after.get(src, 0) if src not in into else 0,
                    received=end if last else after.get(dst, 0),
                )
            run_of = after


def _begins(job: SimulatedJob, transfers: Sequence[int], triggers: list[int]) -> list[tuple[int, int]]:
    """Return, for each group, the trigger that starts it and that which its last run fires (0: none).

    A connection fires one trigger when it is received, so groups that wait for a group must wait for the same ones.
    """
    schedule = job.schedule
    before: list[set[int]] = [set() for _ in range(schedule.n_groups)]
    for earlier, later in zip(schedule.before.tolist(), schedule.after.tolist(), strict=True):
        before[later].add(earlier)
    # Groups without transfers only pass on.
    whole: dict[int, frozenset[int]] = {}

    def sending_before(g: int) -> frozenset[int]:
        if g not in whole:
            parts = [frozenset({b}) if transfers[b] else sending_before(b) for b in before[g]]
            whole[g] = frozenset[int]().union(*parts)
        return whole[g]

    starts: dict[frozenset[int], int] = {}
    ends = [0] * schedule.n_groups
    for g in range(schedule.n_groups):
        waits = sending_before(g)
        if not transfers[g] or not waits or waits in starts:
            continue
        triggers.append(sum(transfers[b] for b in waits))
        starts[waits] = len(triggers)
        for b in waits:
            if ends[b]:
                raise InputError(
                    "its steps wait for each other as triggers of htsim cannot express (pieces, task graphs)",
                    field=f"job {job.name}",
                )
            ends[b] = len(triggers)
    return [(starts.get(sending_before(g), 0), ends[g]) for g in range(schedule.n_groups)]
