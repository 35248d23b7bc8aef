"""Simulation of an experiment: the same jobs on the same fabric over the same paths, without packets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from controller.model.assignment import LOCAL, Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.timing import JobShift, Schedule
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result
from emulation.experiments.from_scenario import Experiment
from emulation.fluid.host_rates import NSCC, HostSharing
from emulation.fluid.movers import Allocation
from emulation.fluid.simulator import Planner, Simulation, simulate


def simulated_seconds(
    experiment: Experiment,
    run: Mapping[str, Any],
    allocation: Allocation = Allocation.FLOW,
    sharing: HostSharing = NSCC,
) -> dict[str, float]:
    """Return the seconds of an iteration of each job on the fabric (not scaled), mean over its iterations.

    Jobs begin at once, or when the schedule of the run's plan says; computing and waiting for held periods count.

    Args:
        experiment: the experiment.
        run: one of the ``runs`` of the experiment's document: its flows' links are the paths, and it has the schedule.
        allocation: how flows divide links.
        sharing: how unevenly hosts do so, with the allocation ``hosts``.
    """
    document = run.get("schedule")
    schedule = None if document is None else _schedule(document)
    links = {flow: tuple(unit["links"]) for unit in run["flows"] for flow in unit["ids"]}

    def planner(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        del previous
        return Result(Assignment.single(paths_by_links(fabric, traffic, links)), schedule=schedule)

    return planned_simulation(experiment, planner, allocation, sharing)


def planned_simulation(
    experiment: Experiment,
    planner: Planner,
    allocation: Allocation = Allocation.FLOW,
    sharing: HostSharing = NSCC,
) -> dict[str, float]:
    """Return the same as ``simulated_seconds`` with paths of a planner; jobs begin at once if it makes no schedule."""
    iterations = experiment.request.iterations
    at_once = [
        replace(job, epochs=number, start=0.0) for job, number in zip(experiment.case.jobs, iterations, strict=True)
    ]
    simulation = Simulation(experiment.fabric, at_once, planner, allocation=allocation, sharing=sharing)
    took: dict[str, list[float]] = {}
    for epoch in simulate(simulation).epochs:
        took.setdefault(epoch.job, []).append(epoch.before + epoch.seconds)
    return {job: statistics.fmean(seconds) for job, seconds in took.items()}


def _schedule(document: Mapping[str, Any]) -> Schedule:
    return Schedule(tuple(JobShift(**row) for row in document["jobs"]), document["slowdown"], document["bound"])


def paths_by_links(fabric: Fabric, traffic: Traffic, links: Mapping[str, tuple[str, ...]]) -> IntArray:
    """[F] path class of each flow, from the names of the links between leaves and spines that it takes."""
    ids = fabric.link_ids
    path = np.full(traffic.n_flows, LOCAL, dtype=np.int32)
    leaves = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    for flow, (a, b) in enumerate(zip(leaves[0].tolist(), leaves[1].tolist(), strict=True)):
        if a == b:
            continue
        wanted = links[traffic.flow_id(flow)]
        path[flow] = next(
            k
            for k in range(fabric.n_paths)
            if tuple(ids[link] for link in fabric.ways.links_of(a, b, k) if link >= 0) == wanted
        )
    return path
