"""Flow-level simulation of jobs that compute and communicate by turns (docs/reference/simulator.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.routing import POLICIES, Options, PreviousPlan, Result, assign
from controller.routing.split_check import check_splits
from emulation.evaluation.cell import ideal_seconds
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.movers import Allocation
from emulation.fluid.simulator import LinkChange, Simulation
from emulation.fluid.simulator import simulate as run
from fairspine.planning import options_of
from fairspine.results import SimulationResult, read_only


def simulate(
    fabric: Fabric,
    jobs: Iterable[Job],
    *,
    policy: str = "fair",
    epochs: int = 3,
    compute_seconds: float | Mapping[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    failures: Mapping[float, Sequence[str]] | None = None,
    allocation: str = "flow",
    seed: int = 0,
    options: Options | Mapping[str, object] | None = None,
    until: float = float("inf"),
) -> SimulationResult:
    """Simulate some epochs of every job; the policy plans again when jobs start, at epochs and at failures.

    Args:
        fabric: the fabric.
        jobs: the jobs to simulate.
        policy: the name of the policy that plans.
        epochs: epochs of every job, after which it ends.
        compute_seconds: computing time before the communication of each epoch: one value, or by name of the job;
            by default, the job's own.
        start: seconds at which a job starts, by its name; 0 for the others.
        failures: names of cables and switches that fail, by the second at which they do.
        allocation: how flows share links: ``flow``, ``paced`` or ``collective``.
        seed: the seed of the policy.
        options: the options of the policy.
        until: simulated seconds after which to stop.

    Raises:
        InputError: a name or a value is invalid, or a job does not fit the fabric.
    """
    POLICIES.named(policy)
    chosen, known = options_of(options), list(jobs)
    if epochs < 1:
        raise InputError("must be at least 1", field="epochs", value=epochs)
    if allocation not in set(Allocation):
        raise InputError(f"must be one of {', '.join(Allocation)}", field="allocation", value=allocation)
    changes = _changes(fabric, failures or {})
    compute = _by_job(known, "compute_seconds", {} if compute_seconds is None else compute_seconds)
    said = compute_seconds if isinstance(compute_seconds, Mapping) or compute_seconds is None else compute
    begin = _by_job(known, "start", start or {})
    timed = [
        TimedJob(
            job, compute[job.name] if said and job.name in said else None, epochs, begin[job.name], source=job.name
        )
        for job in known
    ]
    simulated = simulated_jobs(fabric, timed)
    for simulated_job in simulated:
        check_splits(simulated_job.traffic.collectives, [policy], chosen)

    def planner(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy, fabric, traffic, seed=seed, previous=previous, options=chosen)

    results = run(
        Simulation(
            fabric,
            simulated,
            planner,
            allocation=Allocation(allocation),
            changes=changes,
            until=until,
            paces=chosen.paces,
        )
    )
    done = results.epochs
    return SimulationResult(
        fabric=fabric,
        policy=policy,
        job=read_only(np.array([each.job for each in done], dtype=np.str_)),
        epoch=read_only(np.array([each.number for each in done], dtype=np.int32)),
        began=read_only(np.array([each.began for each in done], dtype=np.float64)),
        ended=read_only(np.array([each.ended for each in done], dtype=np.float64)),
        ideal_seconds={job.name: ideal_seconds(fabric, job) for job in simulated},
        link_bytes=read_only(results.carried / GBIT),
        planning_seconds=read_only(np.array([each.seconds for each in results.plannings], dtype=np.float64)),
        finished=results.ended,
        stalled=results.stalled,
    )


def _by_job(jobs: Sequence[Job], field: str, value: float | Mapping[str, float]) -> dict[str, float]:
    names = [job.name for job in jobs]
    given = value if isinstance(value, Mapping) else dict.fromkeys(names, value)
    for name, seconds in given.items():
        if name not in names:
            raise InputError("no job has this name", field=field, value=name)
        if not 0 <= seconds < float("inf"):
            raise InputError("must be seconds, at least 0", field=f"{field}.{name}", value=seconds)
    return {name: float(given.get(name, 0.0)) for name in names}


def _changes(fabric: Fabric, failures: Mapping[float, Sequence[str]]) -> tuple[LinkChange, ...]:
    for at, names in failures.items():
        for name in names:
            try:
                fabric.without_links([name])
            except KeyError:
                raise InputError(
                    "no cable, host link or switch has this name", field=f"failures[{at}]", value=name
                ) from None
    return tuple(LinkChange(at, tuple(names)) for at, names in sorted(failures.items()))
