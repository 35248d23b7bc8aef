"""Expected iterations of jobs that say which collectives overlap with computing, and which come after others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.timing import CollectiveTimes, JobTiming, PlanTimes
from controller.model.traffic import Collective, Traffic
from controller.model.waits import FOR_COMPUTING, Waits
from controller.routing import assign
from controller.routing.kernels.times import flow_iterations as serial
from controller.routing.kernels.times import ordered_iterations as ordered
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import plan_times
from controller.routing.times.flow_problem import flow_iterations
from controller.routing.times.ordered_estimate import ordered_iterations
from controller.routing.times.phase_order import PhaseStages, order_of
from controller.routing.times.stages import Stages
from tests.unit.laws import examples
from tests.unit.routing.instances import one_path, random_fabric, random_traffic, traffic_of

TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s
OVERLAPS = Waits(computing=False)


def times(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> PlanTimes:
    expected = plan_times(Demand.of(fabric, traffic), assignment)
    assert expected is not None
    return expected


def alone(timing: JobTiming, *rows: tuple[str, float, Waits], phases: tuple[int, ...] = ()) -> PlanTimes:
    """Return the times of a job without others, whose collectives are of one flow each, from hosts of their own."""
    n = len(rows)
    phase = phases or (0,) * n
    table = [
        Collective("a", name, phase=p, timing=timing, waits=waits)
        for (name, _, waits), p in zip(rows, phase, strict=True)
    ]
    flows = [(i, n + i, round(10 * TENTH * seconds), i) for i, (_, seconds, _) in enumerate(rows)]
    return times(clos(n, 2, n), traffic_of(flows, table), Assignment.single(np.arange(n, dtype=np.int32)))


def by_name(expected: PlanTimes) -> dict[str, tuple[float, float, float]]:
    (row,) = expected.jobs
    return {each.name: (each.seconds, each.binds, each.slack_seconds) for each in row.collectives}


def test_what_overlaps_with_computing_takes_no_time_of_its_own_until_it_is_longer() -> None:
    compute = JobTiming(((0, 0.1),))
    short = alone(compute, ("ep", 0.1, FOR_COMPUTING), ("dp", 0.15, OVERLAPS))
    assert (short.jobs[0].alone_seconds, short.jobs[0].iteration_seconds) == pytest.approx((0.2, 0.2))
    assert by_name(short) == {
        "ep": pytest.approx((0.1, 1.0, 0.0), abs=1e-9),
        "dp": pytest.approx((0.15, 0.0, 0.05), abs=1e-9),
    }
    long = alone(compute, ("ep", 0.1, FOR_COMPUTING), ("dp", 0.25, OVERLAPS))
    assert (long.jobs[0].alone_seconds, long.jobs[0].iteration_seconds) == pytest.approx((0.25, 0.25))
    assert by_name(long)["ep"] == pytest.approx((0.1, 0.0, 0.05), abs=1e-9)
    assert by_name(long)["dp"] == pytest.approx((0.25, 1.0, 0.0), abs=1e-9)


def test_a_collective_begins_when_those_have_ended_that_it_is_after() -> None:
    # x is sent from the begin on for 0.15 s, y then for 0.2 s; z follows ep, which has waited for the computing.
    expected = alone(
        JobTiming(((0, 0.1),)),
        ("y", 0.2, Waits(computing=True, after=("x",))),
        ("x", 0.15, OVERLAPS),
        ("ep", 0.1, FOR_COMPUTING),
        ("z", 0.05, Waits(computing=False, after=("ep",))),
    )
    assert expected.jobs[0].iteration_seconds == pytest.approx(0.35)
    assert by_name(expected) == {
        "x": pytest.approx((0.15, 1.0, 0.0), abs=1e-9),
        "y": pytest.approx((0.2, 1.0, 0.0), abs=1e-9),
        "ep": pytest.approx((0.1, 0.0, 0.1), abs=1e-9),
        "z": pytest.approx((0.05, 0.0, 0.1), abs=1e-9),
    }


def test_a_phase_waits_for_all_that_overlapped_with_the_phase_before() -> None:
    expected = alone(
        JobTiming(((0, 0.1), (1, 0.05))),
        ("dp", 0.3, OVERLAPS),
        ("ep", 0.1, FOR_COMPUTING),
        phases=(0, 1),
    )
    assert expected.jobs[0].iteration_seconds == pytest.approx(0.45)
    assert dict(expected.jobs[0].phase_seconds) == pytest.approx({0: 0.3, 1: 0.1})
    assert expected.jobs[0].duty == pytest.approx(0.4 / 0.45)


def test_where_computing_ends_last_nothing_binds() -> None:
    expected = alone(JobTiming(((0, 0.3),)), ("dp", 0.1, OVERLAPS))
    assert expected.jobs[0].iteration_seconds == pytest.approx(0.3)
    assert by_name(expected)["dp"] == pytest.approx((0.1, 0.0, 0.2), abs=1e-9)


def test_a_job_without_computing_sends_all_of_a_phase_at_once() -> None:
    rows = [("ep", 0.1, FOR_COMPUTING), ("dp", 0.15, OVERLAPS)]
    expected = alone(JobTiming(((0, 0.0),)), *rows)
    assert expected.jobs[0].iteration_seconds == pytest.approx(0.15)


@pytest.mark.parametrize(("period", "compute"), [(0.5, 0.4), (0.2, 0.1), (0.15, 0.05), (0.05, 0.0)])
def test_of_a_measured_period_computing_takes_what_collectives_after_it_leave(period: float, compute: float) -> None:
    expected = alone(JobTiming(period_seconds=period), ("ep", 0.1, FOR_COMPUTING), ("dp", 0.12, OVERLAPS))
    assert expected.jobs[0].compute_seconds == pytest.approx(compute, abs=1e-9)
    assert expected.jobs[0].alone_seconds == pytest.approx(max(period, 0.12))


def test_collectives_that_share_a_host_take_as_long_as_all_their_bytes_alone() -> None:
    # dp has sent half when ep begins; both send over the link of one host.
    rows = [Collective("a", "ep", timing=JobTiming(((0, 0.05),))), Collective("a", "dp", waits=OVERLAPS)]
    traffic = traffic_of([(0, 2, TENTH, 0), (0, 3, TENTH, 1)], rows)
    expected = times(clos(1, 2, 2), traffic, one_path(2))
    assert (expected.jobs[0].alone_seconds, expected.jobs[0].iteration_seconds) == pytest.approx((0.2, 0.2))


def test_jobs_without_overlap_beside_one_with_it_have_no_rows_of_collectives() -> None:
    rows = [
        Collective("a", "dp", timing=JobTiming(((0, 0.1),)), waits=OVERLAPS),
        Collective("b", "c", timing=JobTiming(((0, 0.1),))),
    ]
    expected = times(clos(1, 2, 2), traffic_of([(0, 2, TENTH, 0), (1, 3, TENTH, 1)], rows), one_path(2))
    a, b = expected.jobs
    assert a.collectives == (CollectiveTimes("dp", *by_name(dataclasses.replace(expected, jobs=(a,)))["dp"]),)
    assert b.collectives == ()
    assert expected.slowdown > 1.1


# -- laws -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(20, 120), deadline=None)
def test_jobs_without_overlap_take_as_long_as_without_an_order_of_stages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    rows = tuple(dataclasses.replace(row, timing=JobTiming(((row.phase, 0.1),))) for row in traffic.collectives)
    stages = Stages.of(Demand.of(fabric, dataclasses.replace(traffic, collectives=rows)))
    if not len(stages.names):
        return
    plan = assign("random", fabric, traffic, seed=seed).assignment
    phases = [[PhaseStages([send], [True], [[]], send, send) for send in own] for own in stages.split(stages.send)]
    order = order_of(phases, stages.split(stages.compute))
    same = dataclasses.replace(stages, order=order)
    assert same.alone == pytest.approx(stages.alone)
    begins, horizon = np.zeros(len(stages.names)), 20.0 * float(stages.alone.max())
    one = serial.play(flow_iterations(stages, plan), begins, begins, horizon, 10**9)
    other = ordered.play(ordered_iterations(same, plan, order), begins, horizon, 10**9)
    often = one.ended > 0
    assert (np.abs(other.iterations - one.ended) <= 1).all()
    assert (other.took / np.maximum(other.iterations, 1))[often] == pytest.approx(
        (one.took / np.maximum(one.ended, 1))[often], rel=0.02
    )


@st.composite
def instances(draw: st.DrawFn) -> tuple[Fabric, Traffic]:
    """Jobs of several phases whose collectives wait for any others, and may take until later phases, on any fabric."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    rows: list[Collective] = []
    for row in traffic.collectives:
        before = [other.name for other in rows if other.job == row.job and other.phase <= row.phase]
        after = tuple(name for name in before if rng.random() < 0.5)
        timing = JobTiming(tuple((p, float(rng.choice([0.0, 0.01, 0.1]))) for p in range(3)))
        until = int(rng.integers(row.phase + 1, 4)) if rng.random() < 0.3 else None
        waits = Waits(bool(rng.random() < 0.5), after, until)
        rows.append(dataclasses.replace(row, timing=timing, waits=waits))
    return fabric, dataclasses.replace(traffic, collectives=tuple(rows))


@given(instances(), st.integers(0, 9))
@settings(max_examples=examples(30, 180), deadline=None)
def test_no_iteration_is_shorter_than_the_least_time_alone(instance: tuple[Fabric, Traffic], seed: int) -> None:
    fabric, traffic = instance
    stages = Stages.of(Demand.of(fabric, traffic))
    if stages.order is None or not len(stages.names):
        return
    plan = assign("random", fabric, traffic, seed=seed).assignment
    horizon = 3.0 * float(stages.alone.max())
    played = ordered.play(ordered_iterations(stages, plan, stages.order), np.zeros(len(stages.names)), horizon, 10**9)
    whole = played.iterations > 0
    assert (played.took[whole] / played.iterations[whole] >= stages.alone[whole] * (1 - 1e-6)).all()


@given(instances(), st.integers(0, 9))
@settings(max_examples=examples(20, 120), deadline=None)
def test_reported_times_are_within_their_limits(instance: tuple[Fabric, Traffic], seed: int) -> None:
    fabric, traffic = instance
    expected = times(fabric, traffic, assign("random", fabric, traffic, seed=seed).assignment)
    # The estimate is a mean over a limited time from drawn phases, of which the bound does not hold exactly.
    assert expected.slowdown >= expected.bound * 0.97 or not expected.jobs
    for job in expected.jobs:
        assert job.iteration_seconds >= job.alone_seconds >= job.compute_seconds * (1 - 1e-9)
        assert 0 <= job.duty <= 1
        for row in job.collectives:
            assert 0 <= row.binds <= 1
            assert 0 <= row.slack_seconds <= job.iteration_seconds * (1 + 1e-6)
            assert row.seconds <= job.iteration_seconds * (1 + 1e-6)
