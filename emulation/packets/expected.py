"""What the fluid model says of packets: bytes with their headers, and latency where hosts wait for each other."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.assignment import LOCAL, Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.units import GBIT
from emulation.fluid.schedule import JobSchedule, SimulatedJob
from emulation.packets.host_steps import packets_and_bytes
from emulation.packets.settings import PacketSettings


def on_the_wire(job: SimulatedJob, settings: PacketSettings) -> SimulatedJob:
    """Return the job with the bytes of its transfers as they take a link's time: in packets, headers included."""
    _, size = packets_and_bytes(job.schedule.bytes, settings)
    return dataclasses.replace(job, schedule=dataclasses.replace(job.schedule, bytes=size))


def latency_seconds(fabric: Fabric, job: SimulatedJob, settings: PacketSettings, rows: Assignment) -> float:
    """Return how much longer an epoch of a job takes because of delays of cables and because switches store packets.

    A host on a ring waits for the packets of the host before, unless its own flow is slower than that one's: then the
    delays pass while it sends. So this computes when each host begins each run, with and without delays. They count on
    the longest chain of groups that wait for each other, if each takes as long as alone; not beside longer computing.

    Args:
        fabric: the fabric.
        job: with bytes as on the wire.
        settings: of the packet engine.
        rows: paths of the flows of this job.
    """
    schedule, traffic = job.schedule, job.traffic
    links = np.full(traffic.n_flows, 2)
    paths = fabric.ways.links(
        fabric.host_leaf[traffic.src[rows.flow]], fabric.host_leaf[traffic.dst[rows.flow]], rows.path
    )
    np.maximum.at(links, rows.flow, np.where(rows.path == LOCAL, 2, 2 + (paths >= 0).sum(axis=1)))
    gbps = np.minimum(fabric.link_gbps[traffic.src], fabric.link_gbps[fabric.n_hosts + traffic.dst])
    delay = np.array([settings.latency_seconds(fabric, count) for count in range(int(links.max(initial=2)) + 1)])[links]
    added, alone = np.zeros(schedule.n_groups), schedule.delay.copy()
    first = np.searchsorted(schedule.group, np.arange(schedule.n_groups + 1))
    for g in range(schedule.n_groups):
        own = slice(first[g], first[g + 1])
        flow = schedule.flow[own]
        if not len(flow):
            continue
        seconds = schedule.bytes[own] * GBIT / gbps[flow]
        alone[g] += int(schedule.repeat[g]) * float(seconds.max())
        if schedule.repeat[g] == 1:
            added[g] = delay[flow].max()
            continue
        src, dst = traffic.src[flow], traffic.dst[flow]
        added[g] = _last_arrival(int(schedule.repeat[g]), src, dst, seconds, delay[flow]) - (
            int(schedule.repeat[g]) * float(seconds.max())
        )
    return _longest_chain(schedule, alone + added) - _longest_chain(schedule, alone)


def _longest_chain(schedule: JobSchedule, seconds: FloatArray) -> float:
    """Return the seconds of the longest chain of groups that wait for each other, each with its own seconds [G]."""
    longest = np.zeros(schedule.n_groups)
    # Groups are in an order in which none waits for a later one, except those between phases: hence repeatedly.
    for _ in range(schedule.n_groups):
        before = longest.copy()
        longest = seconds.copy()
        np.maximum.at(longest, schedule.after, before[schedule.before] + seconds[schedule.after])
        if np.array_equal(longest, before):
            break
    return float(longest.max(initial=0.0))


def _last_arrival(runs: int, src: IntArray, dst: IntArray, seconds: FloatArray, delay: FloatArray) -> float:
    """Return when the last transfer arrives, if each host begins a run when it has received the one before."""
    hosts, at = np.unique(np.concatenate([src, dst]), return_inverse=True)
    sender, receiver = at[: len(src)], at[len(src) :]
    free, arrived = np.zeros(len(src)), np.zeros(len(hosts))
    end = 0.0
    for _ in range(runs):
        free = np.maximum(free, arrived[sender]) + seconds
        arrived = np.zeros(len(hosts))
        np.maximum.at(arrived, receiver, free + delay)
        end = float((free + delay).max())
    return end
