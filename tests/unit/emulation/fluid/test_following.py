"""Jobs of the simulator follow a schedule, also with computing times that vary."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.model.timing import JobShift, Schedule
from controller.model.traffic import Collective
from controller.routing import Result
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.routing.instances import traffic_of

TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s


def run(*shifts: tuple[float, float, bool], compute: tuple[float, ...], **more: float) -> Results:
    """Simulate jobs of one flow of 0.1 s each over one link, with (shift, period, hold) each."""
    jobs = []
    for i, seconds in enumerate(compute):
        traffic = traffic_of([(i, len(compute) + i, TENTH, 0)], [Collective("ab"[i], "c")])
        jobs.append(SimulatedJob("ab"[i], traffic, one_step_each(traffic), compute_seconds=seconds, epochs=8))
    rows = tuple(JobShift("ab"[i], period, shift, hold, period, 1.0) for i, (shift, period, hold) in enumerate(shifts))

    def planner(_fabric: object, traffic: object, _previous: object) -> Result:
        flows = traffic.n_flows  # type: ignore[attr-defined]
        return Result(Assignment.single(np.zeros(flows, dtype=np.int32)), schedule=Schedule(rows, 1.0, 1.0))

    fabric = clos(1, 2, len(compute))
    return simulate(Simulation(fabric, jobs, planner, **more))  # type: ignore[arg-type]


def begins(results: Results, job: str) -> list[float]:
    return [epoch.began for epoch in results.epochs if epoch.job == job]


def test_jobs_of_equal_periods_that_begin_apart_send_by_turns() -> None:
    results = run((0.0, 0.2, False), (0.1, 0.2, False), compute=(0.1, 0.1))
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([0.1] * 16, abs=1e-6)
    assert begins(results, "b") == pytest.approx(np.arange(8) * 0.2 + 0.2)


def test_a_held_job_waits_for_its_grid_and_the_waiting_counts() -> None:
    results = run((0.0, 0.21, True), (0.1, 0.21, False), compute=(0.1, 0.11))
    assert [epoch.seconds for epoch in results.epochs] == pytest.approx([0.1] * 16, abs=1e-6)
    assert begins(results, "a") == pytest.approx(np.arange(8) * 0.21 + 0.1)
    before = [epoch.before for epoch in results.epochs if epoch.job == "a"]
    assert before == pytest.approx([0.1, *[0.11] * 7])


def test_deviations_of_a_held_job_do_not_add_up() -> None:
    held, free = (run((0.0, 0.25, hold), compute=(0.15,), jitter=0.1, seed=3) for hold in (True, False))
    # Computing takes 0.15 s with a standard deviation of 0.015 s: an iteration that is late is followed by one that is
    # on time, or late by the two together.
    deviation = np.array(begins(held, "a")) - (np.arange(8) * 0.25 + 0.15)
    assert np.abs(deviation).max() < 0.12
    ends = np.array([epoch.ended for epoch in held.epochs])
    start = np.array([epoch.began for epoch in held.epochs])[1:] - ends[:-1]
    assert [epoch.before for epoch in held.epochs[1:]] == pytest.approx(start)
    # Without hold, computing is all that lies between two epochs.
    assert [epoch.before for epoch in free.epochs[:1]] == [epoch.before for epoch in held.epochs[:1]]
    assert sum(epoch.before for epoch in held.epochs) > sum(epoch.before for epoch in free.epochs)


def test_jitter_depends_on_the_seed_alone() -> None:
    one, two, other = (run((0.0, 0.2, False), compute=(0.1,), jitter=0.1, seed=seed) for seed in (1, 1, 2))
    assert one.epochs == two.epochs
    assert one.epochs != other.epochs


def test_a_job_follows_its_own_clock_which_is_off_by_a_constant() -> None:
    """Jobs that would send by turns overlap by the difference of their clocks."""
    for seed in range(5):
        results = run((0.05, 0.25, True), (0.15, 0.25, True), compute=(0.1, 0.1), clock_error=0.01, seed=seed)
        offsets = 0.01 * np.random.default_rng([seed, 1]).standard_normal(2)
        grids = {"a": 0.05 + offsets[0], "b": 0.15 + offsets[1]}
        for job, grid in grids.items():
            # Late ones begin at once, so that they are after the grid by at most what they overlapped.
            late = np.array(begins(results, job)) - 0.1 - grid - np.arange(8) * 0.25
            assert (late > -1e-9).all()
            assert (late < abs(offsets[1] - offsets[0]) + 1e-9).all()
    exact = run((0.05, 0.25, True), compute=(0.1,))
    assert run((0.05, 0.25, True), compute=(0.1,), clock_error=0.0, seed=7).epochs == exact.epochs
