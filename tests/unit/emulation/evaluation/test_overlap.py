"""Simulated jobs that say which collectives overlap with computing, and which come after others."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Traffic
from controller.routing import Options, PreviousPlan, Result, assign
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import flow_slowdowns
from controller.routing.times.stages import Stages
from controller.workload.job_file import parse_job
from emulation.evaluation.cell import ideal_seconds
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import joined
from emulation.fluid.simulator import Simulation, simulate

GB = 10**9
FABRIC = clos(3, 2, 12)


def flow(src: int, dst: int, gigabytes: float, collective: str) -> dict[str, Any]:
    return {"src": f"h{src}", "dst": f"h{dst}", "bytes": gigabytes * GB, "collective": collective}


def paths_of(fabric: Fabric, traffic: Traffic, path: list[int]) -> Assignment:
    """Return the assignment of flows to paths; those within a leaf have none."""
    fixed = Demand.of(fabric, traffic).fixed
    return Assignment.single(np.where(fixed == 0, np.array(path, dtype=np.int32), fixed).astype(np.int32))


def iterations(
    documents: list[dict[str, Any]], path: list[int], *, epochs: int = 1, starts: tuple[float, ...] = (0.0, 0.0)
) -> dict[str, list[float]]:
    """Return the seconds of each iteration of each job, with these paths of all flows."""

    timed = [
        TimedJob(parse_job(document), epochs=epochs, start=start)
        for document, start in zip(documents, starts, strict=False)
    ]
    jobs = simulated_jobs(FABRIC, timed)
    every = joined(jobs)[0]
    path_of = {every.flow_id(f): path[f] for f in range(every.n_flows)}

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return Result(paths_of(fabric, traffic, [path_of[traffic.flow_id(f)] for f in range(traffic.n_flows)]))

    results = simulate(Simulation(FABRIC, jobs, plan, triggers=frozenset({"arrival"})))
    assert not results.stalled
    return {
        document["name"]: [e.before + e.seconds for e in results.epochs if e.job == document["name"]]
        for document in documents
    }


def test_collectives_begin_as_the_job_says() -> None:
    """x is sent from the begin on for 0.16 s, y after it for 0.24 s; ep waits for the computing, z for ep."""
    job = {
        "name": "a",
        "compute_seconds": 0.1,
        "flows": [flow(1, 13, 3, "y"), flow(2, 14, 2, "x"), flow(3, 15, 1, "ep"), flow(4, 16, 1, "z")],
        "overlap": {"x": "compute", "z": "compute"},
        "after": {"y": ["x"], "z": ["ep"]},
    }
    # z follows ep at 0.18 s on a path of its own; y begins at 0.16 s.
    (took,) = iterations([job], [0, 0, 1, 2]).values()
    assert took == pytest.approx([0.4])
    (made,) = simulated_jobs(FABRIC, [TimedJob(parse_job(job))])
    assert made.compute_seconds == 0
    assert ideal_seconds(FABRIC, made) == pytest.approx(0.4)
    job["after"] = {}
    (took,) = iterations([job], [0, 0, 1, 2]).values()
    # Now x and y share an uplink: y, which waits for the computing, from 0.1 s on.
    assert took == pytest.approx([0.1 + 0.3])


def test_a_phase_waits_for_what_overlapped_with_the_one_before() -> None:
    job = {
        "name": "a",
        "compute_seconds": {"0": 0.1, "1": 0.05},
        "flows": [flow(1, 13, 5, "dp"), flow(2, 14, 1, "ep")],
        "overlap": {"dp": "compute"},
        "phases": {"ep": 1},
    }
    (took,) = iterations([job], [0, 1], epochs=2).values()
    assert took == pytest.approx([0.4 + 0.05 + 0.08] * 2)


def two_jobs() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "compute_seconds": 0.8,
            "flows": [
                flow(1 + first, 13 + first, 6, "ep"),
                flow(1 + first, 2 + first, 4, "ep"),
                flow(3 + first, 15 + first, 10, "dp"),
            ],
            "overlap": {"dp": "compute"},
        }
        for name, first in (("a", 0), ("b", 4))
    ]


@pytest.mark.parametrize("path", [[2, 0, 0, 2, 0, 1], [0, 0, 2, 1, 0, 2], [0, 0, 1, 1, 0, 2]])
def test_the_estimate_agrees_with_the_simulation(path: list[int]) -> None:
    """Means over begins of b spread evenly over an iteration, which the jobs keep where they are alike."""
    traffic = joined(simulated_jobs(FABRIC, [TimedJob(parse_job(job)) for job in two_jobs()]))[0]
    (expected,) = flow_slowdowns(Stages.on(FABRIC, traffic), [paths_of(FABRIC, traffic, path)]) or [0.0]
    slowdowns = []
    for start in np.arange(16) * 0.1:
        took = iterations(two_jobs(), path, epochs=8, starts=(0.0, float(start)))
        slowdowns += [np.mean(own[1:-1]) / 1.6 for own in took.values()]
    assert np.mean(slowdowns) == pytest.approx(expected, rel=0.02)


def test_jobs_with_shifts_send_by_turns_in_the_simulation_as_the_schedule_says() -> None:
    """Each sends ``dp`` in the first 0.05 s and ``ep`` in the last 0.1 s of 0.3 s, over one uplink."""
    fabric = clos(1, 2, 4)
    timed = [
        TimedJob(
            parse_job(
                {
                    "name": name,
                    "compute_seconds": 0.2,
                    "flows": [flow(at, at + 4, 1.25, "ep"), flow(at + 1, at + 5, 0.625, "dp")],
                    "overlap": {"dp": "compute"},
                }
            ),
            epochs=6,
        )
        for name, at in (("a", 1), ("b", 3))
    ]
    jobs = simulated_jobs(fabric, timed)

    def iterations_with(shifts: Literal["off", "advise"]) -> list[float]:
        options = Options(shifts=shifts, rounds=500)

        def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
            return assign("fair", fabric, traffic, previous=previous, options=options)

        results = simulate(Simulation(fabric, jobs, plan, triggers=frozenset({"arrival"})))
        return [epoch.before + epoch.seconds for epoch in results.epochs if epoch.number > 0]

    # Both begin at once and stay so: ep takes twice as long.
    assert iterations_with("off") == pytest.approx([0.4] * 10)
    assert iterations_with("advise") == pytest.approx([0.3] * 10)
