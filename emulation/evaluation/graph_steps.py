"""Conversion of a task graph to steps of the simulator, with one group per task.

A message is a transfer of the flow that all messages of its pair of ranks share, or of its stripes where NICs have
several ports; a computation is a delay on the lane of its processor. Messages within a server, and messages of 0 bytes,
take no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.model.dag import Dag
from controller.model.errors import InputError
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.job import Job
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from emulation.fluid.schedule import JobSchedule


def in_order(dag: Dag, source: str = "") -> Iterator[tuple[int, list[int]]]:
    """Yield each task after all its predecessors, with its successors (Kahn, 1962).

    Raises:
        InputError: the graph has a cycle.
    """
    waits = np.bincount(dag.after, minlength=dag.n_tasks)
    order = np.argsort(dag.before, kind="stable")
    following = dag.after[order].tolist()
    first = np.searchsorted(dag.before[order], np.arange(dag.n_tasks + 1)).tolist()
    ready = np.flatnonzero(waits == 0).tolist()
    left = dag.n_tasks
    while ready:
        task = ready.pop()
        left -= 1
        then = following[first[task] : first[task + 1]]
        yield task, then
        for other in then:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    if left:
        raise InputError(f"{left} tasks form a cycle", source=source)


def schedule_of_graph(fabric: Fabric, job: Job, dag: Dag, traffic: Traffic) -> JobSchedule:
    """Return the schedule of a task graph, with one group per task.

    Args:
        fabric: the fabric of the job's hosts.
        job: the job of the graph.
        dag: the task graph.
        traffic: the flows of this job alone, as expanded on the fabric.
    """
    sent = _sent(fabric, job, dag, traffic)
    return JobSchedule(
        collective=np.zeros(dag.n_tasks, dtype=np.int32),
        repeat=np.ones(dag.n_tasks, dtype=np.int64),
        delay=dag.seconds.astype(np.float64),
        before=dag.before,
        after=dag.after,
        group=sent.task,
        flow=sent.flow,
        bytes=sent.bytes,
        lane=_lanes(dag),
    )


def least_seconds(fabric: Fabric, job: Job, dag: Dag, traffic: Traffic) -> float:
    """Return a lower bound in seconds on the duration of the graph on this fabric.

    It is the longest chain, with each message as fast as its hosts' links, or the computation of the busiest processor.
    """
    sent = _sent(fabric, job, dag, traffic)
    duration: FloatArray = dag.seconds.copy()
    gbps = fabric.healthy().link_gbps
    ends = traffic.src[sent.flow], fabric.n_hosts + traffic.dst[sent.flow]
    np.maximum.at(duration, sent.task, sent.bytes * GBIT / np.minimum(gbps[ends[0]], gbps[ends[1]]))
    busiest = np.bincount(_lanes(dag) + 1, weights=dag.seconds).max(initial=0.0)
    return max(float(busiest), _longest(dag, duration))


def _lanes(dag: Dag) -> IntArray:
    """Return the processor number [T] of each computation; -1 for tasks without computation time."""
    computes = dag.seconds > 0
    lanes = np.full(dag.n_tasks, -1, dtype=np.int32)
    _, number = np.unique(np.stack([dag.rank[computes], dag.lane[computes]]), axis=1, return_inverse=True)
    lanes[computes] = number.ravel()
    return lanes


def _longest(dag: Dag, duration: FloatArray) -> float:
    begin, longest = np.zeros(dag.n_tasks), 0.0
    for task, then in in_order(dag):
        end = float(begin[task] + duration[task])
        longest = max(longest, end)
        for other in then:
            begin[other] = max(begin[other], end)
    return longest


@dataclass(frozen=True, eq=False)
class _Sent:
    """Messages on the network: task, flow and bytes of each stripe, one a message if NICs have one port."""

    task: IntArray
    flow: IntArray
    bytes: FloatArray


def _sent(fabric: Fabric, job: Job, dag: Dag, traffic: Traffic) -> _Sent:
    """Return the stripes of all messages with bytes that leave their server, in order of tasks."""
    nic_of_host = fabric.planes.nic_of_host.astype(np.int64)
    nic = nic_of_host[[fabric.host_index[name] for name in job.hosts]]
    n = len(fabric.nic_names)
    key = nic_of_host[traffic.src] * n + nic_of_host[traffic.dst]
    order = np.argsort(key, kind="stable")
    message = np.flatnonzero(dag.is_message & (dag.bytes > 0))
    wanted = nic[dag.rank[message]] * n + nic[dag.peer[message]]
    first, end = (np.searchsorted(key[order], wanted, side=side) for side in ("left", "right"))
    many = end - first
    task = np.repeat(message, many)
    place = np.arange(len(task)) - np.repeat(np.cumsum(many) - many, many)
    flow = order[np.repeat(first, many) + place]
    # A message is divided among the stripes as the bytes of its pair of ranks are.
    _, pair = np.unique(key, return_inverse=True)
    together = np.bincount(pair.ravel(), weights=traffic.bytes)[pair.ravel()]
    share = traffic.bytes[flow] / together[flow]
    return _Sent(task.astype(np.int32), flow.astype(np.int32), dag.bytes[task] * share)
