"""Simulation of Hedera's loop in an experiment: the same first paths, period and placement, without packets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from controller.model.assignment import LOCAL, Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result, assign
from controller.routing.options_text import parse_options
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.scale import Scale
from emulation.experiments.workload import nic_of
from emulation.fluid.simulator import Simulation, simulate
from emulation.roce.run import FlowKey

PHASES = 8
"""Times within a period at which the jobs begin. In the lab nothing ties their begin to the loop's readings."""

Uplinks = Mapping[FlowKey, Sequence[str | None]]
"""Link by which each QP of a flow leaves its leaf at first; ``None``: it stays in its leaf."""


def hedera_seconds(scenario: EmulatedScenario, scale: Scale, draw: Draw, uplinks: Uplinks) -> dict[str, float]:
    """Return the seconds of an iteration of each job at the scale of the lab, mean over iterations and ``PHASES``.

    As in scenarios with ``first`` and ``planned: sending`` (docs/reference/simulator.md), with the paths by which
    the switches hash the flows as the first ones. A placement takes no time.

    Args:
        scenario: the jobs.
        scale: the scale of the lab.
        draw: the placement and its seed.
        uplinks: where flows go at first.
    """
    request, options = scenario.request, parse_options(draw.options)
    jobs = simulated_jobs(
        scenario.fabric,
        [TimedJob(job, epochs=scenario.iterations[job.name]) for job in scenario.jobs],
        QueuePairs(request.qps, request.qp_mode),
    )

    def hashed(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        del previous
        return Result(Assignment.single(_paths(fabric, traffic, uplinks, draw.seed)))

    def place(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(draw.routing, fabric, traffic, seed=draw.seed, previous=previous, options=options)

    period = request.loop_period / scale.time
    took: dict[str, list[float]] = {}
    for phase in range(PHASES):
        begin = (phase + 0.5) / PHASES * period
        simulation = Simulation(
            scenario.fabric,
            [replace(job, start=begin) for job in jobs],
            place,
            triggers=frozenset({"arrival", "failure", "period"}),
            planned="sending",
            first=hashed,
            period=period,
        )
        for epoch in simulate(simulation).epochs:
            took.setdefault(epoch.job, []).append((epoch.before + epoch.seconds) * scale.time)
    return {job: statistics.fmean(seconds) for job, seconds in took.items()}


def _paths(fabric: Fabric, traffic: Traffic, uplinks: Uplinks, seed: int) -> IntArray:
    """[F] path class of each flow by its uplink; above that, where there are several, one that is drawn."""
    ids, ways, random = fabric.link_ids, fabric.live_ways, np.random.default_rng(seed)
    path = np.full(traffic.n_flows, LOCAL, dtype=np.int32)
    nics = [nic_of(host) for host in fabric.hosts]
    ends = [array.tolist() for array in (traffic.src, traffic.dst, traffic.collective)]
    leaves = (fabric.host_leaf[traffic.src].tolist(), fabric.host_leaf[traffic.dst].tolist())
    used: dict[FlowKey, int] = {}
    for flow, (src, dst, collective, a, b) in enumerate(zip(*ends, *leaves, strict=True)):
        row = traffic.collectives[collective]
        key = row.job, row.name, nics[src], nics[dst]
        number = used.setdefault(key, 0)
        used[key] += 1
        if a == b:
            continue
        wanted = uplinks[key][number % len(uplinks[key])]
        able = [int(k) for k in ways.between(a, b) if ids[ways.links_of(a, b, int(k))[0]] == wanted]
        path[flow] = able[int(random.integers(len(able)))]
    return path
