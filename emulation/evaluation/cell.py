"""One cell of a grid: simulate it, and say in one row how it went."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import controller.routing
import emulation.evaluation.link_use
import emulation.fluid
from controller.model.assignment import Assignment
from controller.model.clos import clos
from controller.model.fabric import Fabric, FloatArray
from controller.model.traffic import Collective, Traffic
from controller.routing import Previous, assign, warm_up
from controller.routing.demand import Demand
from emulation.evaluation.link_use import link_use
from emulation.evaluation.scenario import Cell
from emulation.fluid.movers import GBIT
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import Simulation, simulate

PERCENTILES = (25, 50, 75, 90, 95, 99)

Row = dict[str, Any]
"""Column -> value, as plain data: names of the cell, then what was measured."""


def run_cell(cell: Cell) -> tuple[Row, Results]:
    """Simulate a cell: the row says how it went, the results say everything."""
    warm()
    began = time.perf_counter()
    results = simulate_cell(cell)
    return row_of(cell, results, time.perf_counter() - began), results


def simulate_cell(cell: Cell) -> Results:
    """The results whole."""

    def plan(fabric: Fabric, traffic: Traffic, previous: Previous | None) -> Assignment:
        policy = cell.policy
        result = assign(policy.policy, fabric, traffic, seed=cell.seed, previous=previous, options=policy.options)
        return result.assignment

    return simulate(
        Simulation(
            fabric=cell.failure.on(cell.fabric, cell.seed),
            jobs=cell.case.jobs,
            planner=plan,
            allocation=cell.allocation,
            triggers=cell.triggers,
            period=cell.period,
            changes=cell.changes,
            until=cell.until,
            bins=cell.bins,
        )
    )


@cache
def warm() -> None:
    """Once a process: no planning time that is told includes the loading of compiled code."""
    warm_up()
    pair = np.array([0, 1], dtype=np.int32)
    size = np.full(2, 1000, dtype=np.int64)
    traffic = Traffic(pair, pair + 2, size, pair * 0, pair, pair + 50000, (Collective("j", "c"),))
    fabric = clos(2, 2, 2)
    for name in ("fair", "spray"):
        simulate(
            Simulation(
                fabric,
                [SimulatedJob("j", traffic, one_step_each(traffic))],
                lambda live, flows, previous, name=name: assign(name, live, flows).assignment,
            )
        )


def ideal_seconds(fabric: Fabric, job: SimulatedJob) -> float:
    """The least time that an epoch's communication can take on the healthy fabric with nobody else there.

    In each phase all flows are taken as one collective that may be split at will (docs/objective.md: the concurrent
    flow); phases come one after the other.
    """
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
    return float(np.nansum(Demand.of(fabric.healthy(), traffic).ideal_seconds))


def row_of(cell: Cell, results: Results, wall: float) -> Row:
    """What a simulation came to.

    ``ratio``: epoch communication time over the ideal one, mean over epochs and then jobs; ``ratio_worst``: of the
    slowest job. ``None`` where some job with traffic finished no epoch.
    ``fct``: seconds of the transfers (of pieces, where those go by themselves). ``gbps``: what a job sends while it
    communicates, mean over jobs. ``link_mean``, ``link_busiest``, ``imbalance``: see ``LinkUse``.
    """
    ratios, rates = [], []
    for job in cell.case.jobs:
        ideal = ideal_seconds(cell.fabric, job)
        took = [epoch.seconds for epoch in results.epochs if epoch.job == job.name]
        if ideal > 0:
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
        "epochs": len(results.epochs),
        "ratio": _plain(np.mean(ratios)) if ratios else None,
        "ratio_worst": _plain(np.max(ratios)) if ratios else None,
        "gbps": _plain(np.mean(rates)) if rates else None,
        "fct": {str(p): _percentile(took_fct, p) for p in PERCENTILES},
        "link_mean": used.mean,
        "link_busiest": used.busiest,
        "imbalance": used.imbalance,
        "plans": len(planned),
        "planning_mean": _plain(planned.mean()) if len(planned) else None,
        "planning_worst": _plain(planned.max()) if len(planned) else None,
        "moved": sum(planning.moved for planning in results.plannings),
        "simulated_seconds": results.ended,
        "stalled": results.stalled,
        "wall_seconds": wall,
    }


def _percentile(values: FloatArray, p: int) -> float | None:
    return float(np.percentile(values, p)) if len(values) else None


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


@cache
def _code() -> str:
    """A hash of the policies, the simulator and what makes rows: a row that other code made is no answer."""
    folders = (Path(controller.routing.__file__).parent, Path(emulation.fluid.__file__).parent)
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    digest = hashlib.blake2b(digest_size=16)
    for path in (*files, Path(__file__), Path(emulation.evaluation.link_use.__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(cell: Cell) -> str:
    """A hash of everything that the row depends on but the machine: equal keys, equal rows (times apart)."""
    said = [
        _code(), cell.scenario, cell.fabric.version, cell.case.kind, cell.case.name, cell.failure, cell.policy.name,
        cell.policy.policy, cell.policy.options,
        str(cell.allocation), cell.seed, sorted(cell.triggers), cell.period, cell.until, cell.changes, cell.bins,
    ]  # fmt: skip
    digest = hashlib.blake2b(repr(said).encode(), digest_size=16)
    for job in cell.case.jobs:
        digest.update(repr((job.name, job.traffic.version, job.compute_seconds, job.epochs, job.start)).encode())
        for column in dataclasses.fields(job.schedule):
            digest.update(getattr(job.schedule, column.name).tobytes())
    return digest.hexdigest()
