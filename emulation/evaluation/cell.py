"""One cell of a grid: its simulation, and the summary of the results in one row."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import controller.routing
import emulation.fluid
from controller.model.fabric import Fabric, FloatArray
from controller.model.traffic import Collective, Traffic
from controller.model.units import GBIT
from controller.routing import BUILT_IN, POLICIES, PreviousPlan, Result, assign
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent, summed
from controller.routing.times.expected import mean_slowdown, schedule_bound
from controller.routing.times.stages import Stages
from controller.routing.warm_up_instances import FabricKind
from emulation.evaluation.scenario import Cell
from emulation.evaluation.warm_up import warm
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import Simulation, simulate

PERCENTILES = (25, 50, 75, 90, 95, 99)

Row = dict[str, Any]
"""Value by column, as plain data: names of the cell, then the measurements."""


def run_cell(cell: Cell) -> tuple[Row, Results]:
    """Simulate a cell and return its summary row and the full results."""
    warm([FabricKind.of(cell.fabric)])
    began = time.perf_counter()
    results = simulate_cell(cell)
    return row_of(cell, results, time.perf_counter() - began), results


def simulate_cell(cell: Cell) -> Results:
    """Simulate a cell and return the full results."""
    policy = cell.policy

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy.policy, fabric, traffic, seed=cell.seed, previous=previous, options=policy.options)

    def plan_first(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy.first, fabric, traffic, seed=cell.seed, previous=previous)

    return simulate(
        Simulation(
            fabric=cell.failure.on(cell.fabric, cell.seed),
            jobs=cell.case.jobs,
            planner=plan,
            allocation=cell.allocation,
            triggers=cell.triggers,
            planned=policy.planned,
            first=plan_first if policy.first else None,
            period=cell.period,
            changes=cell.changes,
            until=cell.until,
            bins=cell.bins,
            jitter=cell.jitter,
            clock_error=cell.clock_error,
            seed=cell.seed,
            paces=policy.options.paces,
            adaptive=None if policy.adaptive is None else dataclasses.replace(policy.adaptive, seed=cell.seed),
        )
    )


def ideal_seconds(fabric: Fabric, job: SimulatedJob) -> float:
    """Return a lower bound on the communication time of an epoch, for the job alone on the healthy fabric.

    In each phase all flows count as one collective that may be split arbitrarily (docs/explanation/objective.md: the
    concurrent flow), and each collective takes at least the sum of its rounds; phases follow each other. A task graph
    takes at least the time of its computations and waits. Where collectives overlap with computing, the computing is a
    part of it.
    """
    if job.alone_seconds is not None:
        return job.alone_seconds
    phase = np.unique(job.traffic.phase, return_inverse=True)[1].astype(np.int32)
    order = np.argsort(phase[job.traffic.collective], kind="stable")
    of_phase = phase[job.traffic.collective][order]
    traffic = Traffic(
        job.traffic.src[order],
        job.traffic.dst[order],
        job.traffic.bytes[order],
        of_phase,
        np.arange(len(order), dtype=np.int32),
        job.traffic.udp_src[order],
        tuple(Collective(job.name, f"phase{p}", phase=p) for p in range(int(phase.max(initial=-1)) + 1)),
    )
    healthy = fabric.healthy()
    seconds = Demand.of(healthy, traffic).ideal_seconds
    parts = as_sent(job.traffic)
    if len(parts.collectives) > len(job.traffic.collectives):
        # Collectives of a phase need not be in the same round at a time.
        own = summed(job.traffic, parts, Demand.of(healthy, parts).ideal_seconds)
        np.fmax.at(seconds, phase, own)
    return max(job.least_seconds, float(np.nansum(seconds)))


@dataclass
class TenantTotals:
    """What the jobs of a tenant did: how many finished an iteration or not, their iterations, and these alone.

    Attributes:
        jobs: their number.
        stuck: those of them that finished no iteration.
        iterations: number of all iterations.
        seconds: of all iterations.
        alone: seconds that all iterations take alone.
        sent: bytes of all iterations.
    """

    jobs: int = 0
    stuck: int = 0
    iterations: int = 0
    seconds: float = 0.0
    alone: float = 0.0
    sent: float = 0.0

    def add(self, seconds: list[float], alone: float, sent: float) -> None:
        """Count a job: the seconds of its iterations, those of one alone, and the bytes of one."""
        self.jobs, self.stuck = self.jobs + 1, self.stuck + (not seconds)
        self.iterations, self.seconds = self.iterations + len(seconds), self.seconds + sum(seconds)
        self.alone, self.sent = self.alone + alone * len(seconds), self.sent + sent * len(seconds)

    def row(self) -> Row:
        """Return the jobs, their iterations, the bytes that these sent, and their time over that alone.

        ``iteration`` is ``None`` where some job finished none, or all take no time.
        """
        ratio = self.seconds / self.alone if self.alone > 0 and not self.stuck else None
        return {"jobs": self.jobs, "iterations": self.iterations, "bytes": round(self.sent), "iteration": ratio}


def row_of(cell: Cell, results: Results, wall: float) -> Row:
    """Return the summary of a simulation.

    ``ratio``: epoch communication time over the ideal one, mean over epochs and then jobs; ``ratio_worst``: that of the
    slowest job. ``None`` if some job with traffic finished no epoch. ``ratios``: percentiles of it over epochs.
    ``iteration``: time of all iterations, with computation and waiting for held periods, over their time alone;
    ``iteration_99``: the 99th percentile of this ratio over iterations; ``iteration_bound``: see ``_over_bound``.
    ``tenants``: see ``TenantTotals.row``, by tenant, where jobs have one.
    ``fct``: seconds of the transfers (of pieces, if these are independent). ``gbps``: rate of a job while it
    communicates, mean over jobs. ``link_mean``, ``link_busiest``, ``imbalance``: see ``LinkUse``.
    """
    ratios, rates = [], []
    sent: list[float] = []
    iterations, alone = [], []
    tenants: dict[str, TenantTotals] = {}
    for job in cell.case.jobs:
        ideal = ideal_seconds(cell.fabric, job)
        own = [epoch for epoch in results.epochs if epoch.job == job.name]
        took = [epoch.seconds for epoch in own]
        own_iterations, own_alone = [epoch.before + epoch.seconds for epoch in own], job.compute_seconds + ideal
        iterations += own_iterations
        alone += [own_alone] * len(took)
        tenant = job.traffic.collectives[0].tenant if job.traffic.collectives else None
        if tenant is not None:
            tenants.setdefault(tenant, TenantTotals()).add(own_iterations, own_alone, float(job.traffic.bytes.sum()))
        if ideal > 0:
            sent += [seconds / ideal for seconds in took]
            mean = float(np.mean(took)) if took else float("nan")
            ratios.append(mean / ideal)
            rates.append(float(job.traffic.bytes.sum()) * GBIT / mean)
    planned = np.array([planning.seconds for planning in results.plannings])
    used = link_use(results)
    took_fct = results.flows.ended - results.flows.began
    return {
        "scenario": cell.scenario,
        "kind": cell.case.kind,
        "case": cell.case.name,
        "failure": cell.failure.name,
        "policy": cell.policy.name,
        "allocation": str(cell.allocation),
        "seed": cell.seed,
        "jobs": len(cell.case.jobs),
        "ring": cell.case.ring,
        "epochs": len(results.epochs),
        "ratio": _plain(np.mean(ratios)) if ratios else None,
        "ratio_worst": _plain(np.max(ratios)) if ratios else None,
        "ratios": {str(p): _percentile(np.array(sent), p) for p in PERCENTILES},
        "iteration": float(np.sum(iterations) / np.sum(alone)) if np.sum(alone) > 0 else None,
        "iteration_99": _percentile(_parts(iterations, alone), 99),
        "iteration_bound": _over_bound(cell, results),
        **({"tenants": {name: totals.row() for name, totals in sorted(tenants.items())}} if tenants else {}),
        "gbps": _plain(np.mean(rates)) if rates else None,
        "fct": {str(p): _percentile(took_fct, p) for p in PERCENTILES},
        "link_mean": used.mean,
        "link_busiest": used.busiest,
        "imbalance": used.imbalance,
        "plans": len(planned),
        "planning_mean": _plain(planned.mean()) if len(planned) else None,
        "planning_worst": _plain(planned.max()) if len(planned) else None,
        "moved": sum(planning.moved for planning in results.plannings),
        "moved_sending": sum(planning.moved_sending for planning in results.plannings),
        "simulated_seconds": results.ended,
        "stalled": results.stalled,
        "wall_seconds": wall,
    }


def _over_bound(cell: Cell, results: Results) -> float | None:
    """Return the mean slowdown over its lower bound (docs/explanation/objective.md), on the fabric with its failures.

    ``None`` where the bound does not hold: jobs come at different times, computing times vary, links change, a job is a
    graph of tasks, or some job finished no iteration.
    """
    jobs = cell.case.jobs
    is_steady = len({job.start for job in jobs}) == 1 and not cell.jitter and not cell.changes
    if not is_steady or any(job.least_seconds for job in jobs):
        return None
    stages = Stages.on(cell.failure.on(cell.fabric, cell.seed), as_sent(joined(jobs)[0]))
    of_job: dict[str, list[float]] = {name: [] for name in stages.names}
    for epoch in results.epochs:
        if epoch.job in of_job:
            of_job[epoch.job].append(epoch.before + epoch.seconds)
    if not of_job or not all(of_job.values()):
        return None
    seconds = np.array([np.mean(own) for own in of_job.values()])
    return mean_slowdown(stages, seconds) / schedule_bound(stages)


def _parts(seconds: list[float], of: list[float]) -> FloatArray:
    """Ratios where there is something to divide by."""
    base = np.array(of)
    parts: FloatArray = np.array(seconds)[base > 0] / base[base > 0]
    return parts


def _percentile(values: FloatArray, p: int) -> float | None:
    return float(np.percentile(values, p)) if len(values) else None


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


@cache
def _code() -> str:
    """Return a hash of the code of policies, simulator and summary, since rows of other code must not be reused."""
    folders = (Path(controller.routing.__file__).parent, Path(emulation.fluid.__file__).parent)
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    digest = hashlib.blake2b(digest_size=16)
    for path in (*files, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _plugin_code(policy: str) -> str:
    """Return a hash of the file of a policy that another distribution brings; empty for this project's own."""
    if policy in BUILT_IN or policy not in POLICIES:
        return ""
    file = inspect.getsourcefile(inspect.unwrap(POLICIES.named(policy).assign))
    return "" if file is None else hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()


def key_of(cell: Cell) -> str:
    """Return a hash of all inputs of the row except the machine: equal keys mean equal rows, except for times."""
    said = [
        _code(),
        cell.scenario,
        cell.fabric.version,
        cell.case.kind,
        cell.case.name,
        cell.failure,
        cell.policy.name,
        cell.policy.policy,
        _plugin_code(cell.policy.policy),
        cell.policy.options,
        cell.policy.adaptive,
        cell.policy.planned,
        cell.policy.first,
        str(cell.allocation),
        cell.seed,
        sorted(cell.triggers),
        cell.period,
        cell.until,
        cell.changes,
        cell.bins,
        cell.jitter,
        cell.clock_error,
    ]
    digest = hashlib.blake2b(repr(said).encode(), digest_size=16)
    for job in cell.case.jobs:
        digest.update(
            repr(
                (job.name, job.traffic.version, job.compute_seconds, job.epochs, job.start, job.least_seconds)
            ).encode()
        )
        for column in dataclasses.fields(job.schedule):
            digest.update(getattr(job.schedule, column.name).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class LinkUse:
    """Link use over the whole simulation, computation included, of cables that were up at its start or carried traffic.

    Attributes:
        mean, busiest: utilisation, between 0 and 1.
        imbalance: the busiest of a leaf's uplinks (downlinks) over their mean, averaged over leaves and directions and
            weighted by the carried traffic; 1 is even, ``None`` if nothing crossed the spines.
    """

    mean: float
    busiest: float
    imbalance: float | None


def link_use(results: Results) -> LinkUse:
    """Return the link use of a simulation."""
    fabric = results.fabric
    first = fabric.first_cable_link
    gbit = results.carried[first:].reshape(-1, 2)
    gbps = fabric.link_gbps[first:].reshape(-1, 2)
    there = fabric.link_up[first:].reshape(-1, 2) | (gbit > 0)
    seconds = results.ended - min(results.came.values(), default=0.0)
    if not there.any() or seconds <= 0:
        return LinkUse(0.0, 0.0, None)
    # A cable has its uplink first and its downlink second (controller.model.fabric).
    end = (fabric.cable_lower[:, None] * 2 + np.array([0, 1]))[there]
    gbit, gbps = gbit[there], gbps[there]
    used = gbit / gbps
    total, room = np.bincount(end, weights=gbit), np.bincount(end, weights=gbps)
    busiest = np.zeros(len(total))
    np.maximum.at(busiest, end, used)
    sends = total > 0
    uneven = busiest[sends] * room[sends] / total[sends]
    return LinkUse(
        mean=float(gbit.sum() / gbps.sum() / seconds),
        busiest=float(used.max() / seconds),
        imbalance=float(np.average(uneven, weights=total[sends])) if sends.any() else None,
    )
