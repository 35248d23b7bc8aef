"""Plans in space and time: shifts of the iterations of jobs that say how they compute."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobShift, JobTiming, Schedule
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, PreviousPlan, Result, assign
from controller.routing.policies.shifts import ITERATIONS, MOST_EXAMINED, Simulator
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import Trial, flow_slowdowns, trial_slowdowns, unshifted_trial
from controller.routing.times.stages import Stages
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import random_fabric, random_traffic, traffic_of

GB = 10**9
TENTH = 10 * GB // 8  # bytes of 0.1 s at 100 Gbit/s
ADVISE = Options(shifts="advise", rounds=40_000)


def pairs(*compute: float) -> Traffic:
    """Jobs a, b, ... of one flow of 0.1 s each, from hosts of their own on one leaf to another."""
    n = len(compute)
    rows = [Collective("abcd"[i], "c", timing=JobTiming(((0, seconds),))) for i, seconds in enumerate(compute)]
    return traffic_of([(i, n + i, TENTH, i) for i in range(n)], rows)


def advised(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None = None, **options: object) -> Result:
    chosen = dataclasses.replace(ADVISE, **options)  # type: ignore[arg-type]
    result = assign("fair", fabric, traffic, previous=previous, options=chosen)
    assert result.schedule is not None
    return result


def schedule_of(fabric: Fabric, traffic: Traffic) -> Schedule:
    made = advised(fabric, traffic).schedule
    assert made is not None
    return made


def played(fabric: Fabric, traffic: Traffic, path: tuple[int, ...], shift: list[float]) -> float:
    """Return the mean slowdown of given paths and shifts."""
    demand = Demand.of(fabric, traffic)
    simulator = Simulator.of(Stages.of(demand), Assignment.single(np.array(path, dtype=np.int32)))
    return simulator.play(np.array(shift), np.zeros(len(shift)))[0].slowdown


# -- one bottleneck, by hand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compute", [(0.1, 0.1), (0.2, 0.2, 0.2), (0.1, 0.3), (0.3, 0.3, 0.3, 0.3)])
def test_jobs_that_fit_one_after_the_other_on_one_link_do_not_slow_each_other_down(compute: tuple[float, ...]) -> None:
    schedule = schedule_of(clos(1, 2, len(compute)), pairs(*compute))
    assert (schedule.slowdown, schedule.gap) == pytest.approx((1.0, 0.0), abs=1e-6)
    for row, seconds in zip(schedule.jobs, compute, strict=True):
        assert (row.iteration_seconds, row.period_seconds) == pytest.approx((seconds + 0.1, seconds + 0.1), abs=1e-6)
        assert row.compatibility == pytest.approx(1.0, abs=1e-6)
        assert 0 <= row.shift_seconds < row.period_seconds
        assert not row.hold


@pytest.mark.parametrize(("shift", "iteration"), [(0.0, 0.30), (0.05, 0.25), (0.1, 0.2)])
def test_two_equal_jobs_overlap_by_the_part_that_their_shift_leaves(shift: float, iteration: float) -> None:
    slowdown = played(clos(1, 2, 2), pairs(0.1, 0.1), (0, 0), [0.0, shift])
    assert slowdown == pytest.approx(iteration / 0.2, abs=1e-6)


def test_a_job_whose_period_is_nearly_that_of_another_is_held_to_it() -> None:
    # Periods of 0.2 and 0.21 drift: without holding, the mean over 40 iterations is near that over random phases, 1.24.
    schedule = schedule_of(clos(1, 2, 2), pairs(0.1, 0.11))
    short, long = schedule.jobs
    assert short.hold
    assert not long.hold
    assert schedule.slowdown <= (0.21 / 0.2 + 1.0) / 2 * (1 + 1e-6)
    assert schedule.slowdown >= 1.02


def test_jobs_that_do_not_fit_are_no_faster_than_the_bound() -> None:
    # Three jobs that send for half of the time on one link: at least 1.5, and three that take turns reach it.
    schedule = schedule_of(clos(1, 2, 3), pairs(0.1, 0.1, 0.1))
    assert schedule.bound == pytest.approx(1.5)
    assert schedule.slowdown == pytest.approx(1.5, rel=0.01)


def test_a_job_without_computing_times_has_no_shift() -> None:
    traffic = pairs(0.3, 0.0)
    always = dataclasses.replace(traffic.collectives[1], timing=None)
    schedule = schedule_of(clos(1, 2, 2), dataclasses.replace(traffic, collectives=(traffic.collectives[0], always)))
    assert [row.job for row in schedule.jobs] == ["a"]


# -- laws -----------------------------------------------------------------------------------------------------------


def timed_instance(seed: int) -> tuple[Fabric, Traffic]:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    says = {row.job: rng.random() > 0.2 for row in traffic.collectives}
    rows = tuple(
        dataclasses.replace(row, timing=JobTiming(((row.phase, float(rng.random()) * 0.5),)) if says[row.job] else None)
        for row in traffic.collectives
    )
    return fabric, dataclasses.replace(traffic, collectives=rows)


@settings(max_examples=examples(20, 120), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_schedule_is_no_better_than_its_bound_and_its_numbers_agree(seed: int) -> None:
    fabric, traffic = timed_instance(seed)
    result = assign("fair", fabric, traffic, options=dataclasses.replace(ADVISE, rounds=2_000))
    if result.schedule is None:
        assert all(row.timing is None for row in traffic.collectives)
        return
    schedule = result.schedule
    assert schedule.slowdown >= 1.0
    assert schedule.bound >= 1.0
    for row in schedule.jobs:
        assert 0 <= row.shift_seconds < row.period_seconds
        assert 0 <= row.compatibility <= 1 + 1e-9
        # A held job begins at most once a period, except after an iteration that was late by up to half of one.
        assert row.iteration_seconds >= row.period_seconds * (0.5 if row.hold else 1.0) * (1 - 1e-6)


@settings(max_examples=examples(12, 75), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_jobs_without_times_get_the_same_plan_with_and_without_advice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    traffic = random_traffic(rng, fabric)
    plain = assign("fair", fabric, traffic, options=Options(rounds=2_000))
    other = assign("fair", fabric, traffic, options=Options(rounds=2_000, shifts="advise"))
    assert other.schedule is None
    assert (plain.assignment.path == other.assignment.path).all()


@settings(max_examples=examples(5, 60), deadline=None)
@given(st.lists(st.integers(1, 4), min_size=3, max_size=3), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_no_paths_and_shifts_of_a_grid_are_better_by_more_than_a_twentieth(
    compute: list[int], sizes: list[int]
) -> None:
    # Three jobs of two flows each over two spines, all multiples of 0.1 s: every pair of paths, every shift by 0.05 s.
    rows = [Collective("abc"[i], "c", timing=JobTiming(((0, c / 10),))) for i, c in enumerate(compute)]
    flows = [(2 * i + k, 6 + 2 * i + k, TENTH * sizes[i], i) for i in range(3) for k in range(2)]
    fabric, traffic = clos(2, 2, 6), traffic_of(flows, rows)
    schedule = schedule_of(fabric, traffic)
    period = [(c + s) / 10 for c, s in zip(compute, sizes, strict=True)]
    steps = [np.arange(0, seconds - 1e-9, 0.05).tolist() for seconds in period]
    demand = Demand.of(fabric, traffic)
    stages, best = Stages.of(demand), np.inf
    for path in itertools.product((0, 1), repeat=5):
        simulator = Simulator.of(stages, Assignment.single(np.array((0, *path), dtype=np.int32)))
        for second, third in itertools.product(steps[1], steps[2]):
            best = min(best, simulator.play(np.array([0.0, second, third]), np.zeros(3))[0].slowdown)
    # The first iterations simulated may gain by an idle network; no schedule stays below the bound. Of 620 drawn cases
    # none was off by a hundredth; computing 0.2 s and sending 0.1, 0.2 and 0.1 s is, by four hundredths.
    assert schedule.slowdown <= max(best, schedule.bound) * 1.05


@settings(max_examples=examples(12, 75), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_schedule_is_never_expected_to_be_slower_than_the_plan_without_shifts(seed: int) -> None:
    fabric, traffic = timed_instance(seed)
    options = dataclasses.replace(ADVISE, rounds=2_000)
    result = assign("fair", fabric, traffic, options=options)
    if result.schedule is None:
        return
    plain = assign("fair", fabric, traffic, options=dataclasses.replace(options, shifts="off")).assignment
    stages = Stages.of(Demand.of(fabric, traffic))
    if not result.schedule.jobs:
        assert (result.assignment.path == plain.path).all()
        return
    rows = [result.schedule.shift_of(name) for name in stages.names]
    shift = np.array([0.0 if row is None else row.shift_seconds for row in rows])
    hold = np.array([row.period_seconds if row is not None and row.hold else 0.0 for row in rows])
    trials = [
        unshifted_trial(stages, plain),
        Trial(result.assignment, shift.reshape(1, -1), hold, ITERATIONS),
    ]
    without, reached = trial_slowdowns(stages, trials, MOST_EXAMINED)
    assert reached <= without * (1 + 1e-6)


def test_jobs_under_way_get_no_shifts_that_help_only_jobs_which_begin_together() -> None:
    # Periods of 0.3, 0.37 and 0.41 s on one link: which of them meet depends on when they begin.
    fabric, whole = clos(1, 2, 3), pairs(0.2, 0.27, 0.31)
    scattered = Schedule((JobShift("a", 0.3, 0.0, False, 0.3, 1.0),), 1.0, 1.0)
    known = PreviousPlan.of(fabric, whole, assign("fair", fabric, whole).assignment, scattered)
    schedule = advised(fabric, whole, known).schedule
    assert schedule is not None
    stages = Stages.of(Demand.of(fabric, whole))
    (without,) = flow_slowdowns(stages, [assign("fair", fabric, whole).assignment]) or [0.0]
    assert not schedule.jobs or schedule.slowdown <= without * 0.99


# -- with an earlier schedule ---------------------------------------------------------------------------------------


def previous_of(fabric: Fabric, traffic: Traffic, result: Result) -> PreviousPlan:
    return PreviousPlan.of(fabric, traffic, result.assignment, result.schedule)


def test_the_same_jobs_keep_their_paths_and_shifts() -> None:
    fabric, traffic = clos(2, 2, 4), pairs(0.1, 0.1, 0.25, 0.2)
    first = advised(fabric, traffic)
    again = advised(fabric, traffic, previous_of(fabric, traffic, first))
    assert again.schedule == first.schedule
    assert (again.assignment.path == first.assignment.path).all()


def test_a_new_job_does_not_move_the_shifts_of_others_unless_it_pays() -> None:
    fabric, whole = clos(1, 2, 3), pairs(0.2, 0.2, 0.2)
    two = dataclasses.replace(
        whole,
        src=whole.src[:2],
        dst=whole.dst[:2],
        bytes=whole.bytes[:2],
        collective=whole.collective[:2],
        number=whole.number[:2],
        udp_src=whole.udp_src[:2],
        collectives=whole.collectives[:2],
    )
    # The two are by turns, with too little room between them for a third.
    first = advised(fabric, two)
    assert first.schedule is not None
    rows = tuple(
        dataclasses.replace(row, shift_seconds=shift) for row, shift in zip(first.schedule.jobs, (0, 0.15), strict=True)
    )
    known = PreviousPlan.of(fabric, two, first.assignment, dataclasses.replace(first.schedule, jobs=rows))
    dear = advised(fabric, whole, known, churn_price=10.0).schedule
    cheap = advised(fabric, whole, known, churn_price=0.001).schedule
    assert dear is not None
    assert cheap is not None
    # Nobody else is moved; or all go on without shifts, where those of the third help only jobs that begin together.
    assert [row.shift_seconds for row in dear.jobs[:2]] in ([0, 0.15], [])
    assert dear.slowdown > 1.01
    assert cheap.slowdown == pytest.approx(1.0, abs=1e-6)


def test_searches_from_several_seeds_find_schedules_that_are_no_slower() -> None:
    slowdowns = []
    for starts in (1, 3, 3):
        made = [
            assign("fair", *timed_instance(seed), options=dataclasses.replace(ADVISE, rounds=100, starts=starts))
            for seed in range(3)
        ]
        slowdowns.append([0.0 if each.schedule is None else each.schedule.slowdown for each in made])
    one, more, again = slowdowns
    assert more == again
    assert 0 < sum(more) <= sum(one) * 1.001


def test_equal_arguments_give_equal_schedules() -> None:
    fabric, traffic = clos(2, 2, 4), pairs(0.1, 0.15, 0.25, 0.2)
    assert schedule_of(fabric, traffic) == schedule_of(fabric, traffic)


# -- with splits and QPs --------------------------------------------------------------------------------------------


def test_of_flows_that_are_cut_the_schedule_is_simulated_on_the_pieces() -> None:
    # Three flows of each job over two links: a third longer than alone on one path each, as alone where one is cut.
    # Both jobs send in opposite directions.
    rows = [Collective(name, "c", timing=JobTiming(((0, 0.2),))) for name in "ab"]
    flows = [(i, 3 + i, TENTH, 0) for i in range(3)] + [(3 + i, i, TENTH, 1) for i in range(3)]
    fabric, traffic = clos(2, 2, 3), traffic_of(flows, rows)
    whole, cut = advised(fabric, traffic), advised(fabric, traffic, max_splits=4)
    assert whole.schedule is not None
    assert cut.schedule is not None
    assert whole.schedule.slowdown > 1.05
    assert cut.schedule.slowdown == pytest.approx(1.0, abs=1e-6)
    assert cut.assignment.n_rows > traffic.n_flows
    validate_assignment(fabric, traffic, cut.assignment)


@settings(max_examples=examples(10, 60), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_with_splits_a_schedule_is_no_worse_and_keeps_to_its_bound(seed: int) -> None:
    fabric, traffic = timed_instance(seed)
    whole, cut = (
        assign("fair", fabric, traffic, options=dataclasses.replace(ADVISE, rounds=2_000, max_splits=most))
        for most in (None, 8)
    )
    validate_assignment(fabric, traffic, cut.assignment)
    if whole.schedule is not None:
        assert cut.schedule is not None
        assert cut.schedule.bound - 1e-9 <= cut.schedule.slowdown <= whole.schedule.slowdown * (1 + 1e-6)


@pytest.mark.parametrize("shifts", ["off", "advise"])
def test_the_qps_of_a_connection_are_spread_beside_shifts(shifts: str) -> None:
    # Two jobs of two connections with two QPs over two uplinks: each uplink has a QP of each connection.
    qps = QueuePairs(2)
    rows = tuple(Collective(name, "c", timing=JobTiming(((0, 0.3),)), qps=qps) for name in "ab")
    ends = np.arange(4)
    traffic = Traffic(
        np.repeat(ends, 2),
        np.repeat(ends + 4, 2),
        np.full(8, TENTH // 2),
        np.repeat([0, 1], 4),
        np.tile(ends, 2),
        49152 + np.arange(8, dtype=np.int32),
        rows,
    )
    fabric = clos(2, 2, 4)
    result = assign("fair", fabric, traffic, options=dataclasses.replace(ADVISE, shifts=shifts))  # type: ignore[arg-type]
    validate_assignment(fabric, traffic, result.assignment)
    assert (np.sort(result.assignment.path.reshape(4, 2), axis=1) == [0, 1]).all()
    if shifts == "advise":
        assert result.schedule is not None
        assert result.schedule.slowdown == pytest.approx(1.0, abs=1e-6)


# -- jobs whose shared links make no cycle ---------------------------------------------------------------------------


@settings(max_examples=examples(8, 45), deadline=None)
@given(st.integers(3, 6), st.integers(0, 2**32 - 1))
def test_jobs_whose_shared_links_form_a_tree_take_turns_where_each_two_can(n_jobs: int, seed: int) -> None:
    # One spine: hosts of leaf 0, 1, ... send to leaf 1, 2, ...; job i shares one uplink with its parent in a tree.
    rng = np.random.default_rng(seed)
    parent = [int(rng.integers(0, i)) for i in range(1, n_jobs)]
    rows = [Collective("abcdef"[i], "c", timing=JobTiming(((0, 0.1),))) for i in range(n_jobs)]
    # For each pair its own leaf, from which both send, to a leaf of each.
    flows = []
    for pair, other in enumerate(parent):
        for side, job in enumerate((pair + 1, other)):
            flows.append((2 * pair + side, 2 * (n_jobs - 1) + 2 * (2 * pair + side), TENTH, job))
    flows.sort(key=lambda row: row[3])
    fabric = clos(1, 3 * (n_jobs - 1), 2)
    assert schedule_of(fabric, traffic_of(flows, rows)).slowdown == pytest.approx(1.0, abs=1e-4)
