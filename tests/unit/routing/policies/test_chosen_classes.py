"""Classes of priority that ``fair`` chooses: guards, brute force, and the flow simulator."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric, FloatArray
from controller.model.files.clos import clos
from controller.model.plan import Plan
from controller.model.priority import JobClass
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.planning.kept_paths import plan_from_paths
from controller.planning.make_plan import make_plan
from controller.routing import Options, PreviousPlan, Result, assign
from controller.routing.options_text import parse_options
from controller.routing.policies.chosen_classes import LEAST_GAIN
from controller.routing.policies.shifts import grids_of
from controller.routing.problem.demand import Demand
from controller.routing.times.expected import mean_slowdown
from controller.routing.times.flow_estimate import MOST_STEPS, UNSHIFTED_DRAWS, lasting_seconds, scheduled_seconds
from controller.routing.times.stages import Stages
from controller.routing.times.starving import any_starves
from controller.store.codec import pack_paths, unpack_paths
from controller.workload.job_file import parse_job
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import SimulatedJob, joined
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.laws import examples

ONE_LINK = clos(1, 2, 6)
TWO_SPINES = clos(2, 2, 6)

TIMES = st.tuples(st.floats(0.05, 0.3), st.floats(0.02, 0.12))
"""Seconds of computing and of sending in an iteration alone."""


def jobs_of(fabric: Fabric, times: list[tuple[float, float]], stated: dict[int, int] | None = None) -> list[TimedJob]:
    """Return jobs that each compute and send one flow to the other leaf, for these seconds if they are alone."""
    gbps = float(fabric.link_gbps[0])
    return [
        TimedJob(
            parse_job(
                {
                    "name": f"j{n}",
                    "flows": [{"src": f"h{n + 1}", "dst": f"h{n + 7}", "bytes": round(send * gbps / GBIT)}],
                    "compute_seconds": compute,
                    "class": (stated or {}).get(n, 0),
                }
            )
        )
        for n, (compute, send) in enumerate(times)
    ]


def simulated(fabric: Fabric, times: list[tuple[float, float]]) -> tuple[Traffic, list[SimulatedJob]]:
    jobs = list(simulated_jobs(fabric, jobs_of(fabric, times)))
    return joined(jobs)[0], jobs


def planned(fabric: Fabric, traffic: Traffic, options: Options, previous: PreviousPlan | None = None) -> Plan:
    return make_plan(fabric, traffic, policy="fair", options=options, previous=previous, clock=lambda: 0.0)


def estimate(fabric: Fabric, traffic: Traffic, plan: Plan) -> tuple[Stages, FloatArray]:
    """Return the stages with the classes of a plan, and the seconds of an iteration of each job in long draws."""
    stages = Stages.of(Demand.of(fabric, traffic.with_classes(plan.classes)))
    return stages, lasting_seconds(stages, plan.assignment)


@settings(max_examples=examples(6, 80), deadline=None)
@given(
    times=st.lists(TIMES, min_size=2, max_size=4),
    fabric=st.sampled_from([ONE_LINK, TWO_SPINES]),
    classes=st.integers(2, 4),
    loss=st.sampled_from([0.0, 0.02]),
    starts=st.sampled_from([1, 2]),
)
def test_chosen_classes_gain_and_keep_to_the_guards(
    times: list[tuple[float, float]], fabric: Fabric, classes: int, loss: float, starts: int
) -> None:
    traffic, jobs = simulated(fabric, times)
    options = Options(classes=classes, class_loss=loss, starts=starts)
    before, after = planned(fabric, traffic, Options()), planned(fabric, traffic, options)
    assert planned(fabric, traffic, options).classes == after.classes
    if not after.classes:
        assert np.array_equal(after.assignment.path, before.assignment.path)
        return
    stages, seconds = estimate(fabric, traffic, after)
    _, fair = estimate(fabric, traffic, before)
    assert {row.priority for row in after.classes} <= set(range(classes))
    assert after.starved == ()
    assert not any_starves(stages, after.assignment)
    assert (seconds <= fair * (1 + loss) * (1 + 2 * TOLERANCE)).all()
    assert mean_slowdown(stages, seconds) <= mean_slowdown(stages, fair) * (1 - LEAST_GAIN)
    # In the flow simulator from the same phases: jobs of equal periods keep these under fair sharing.
    phases = stages.alone - np.random.default_rng(0).random((UNSHIFTED_DRAWS, len(jobs))) * stages.alone
    ratio = in_simulation(fabric, jobs, options, phases) / in_simulation(fabric, jobs, Options(), phases)
    assert (ratio <= 1 + loss + 0.05).all()


def in_simulation(
    fabric: Fabric, jobs: list[SimulatedJob], options: Options, phases: FloatArray | None = None
) -> FloatArray:
    """Return the mean seconds of an iteration [J] in the flow simulator, over begins [D, J] of jobs of one plan.

    ``phases``: those begins; ``None``: random ones.
    """
    made = assign("fair", fabric, joined(jobs)[0], options=options)
    names = [job.name for job in jobs]

    def of_present(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        present = [names.index(traffic.collectives[k].job) for k in traffic.collective.tolist()]
        there = {names[number] for number in present}
        paths = made.assignment.path[present]
        return Result(Assignment.single(paths), classes=tuple(row for row in made.classes if row.job in there))

    took = []
    for begins in np.random.default_rng(0).random((3, len(jobs))) * 0.4 if phases is None else phases:
        late = [replace(job, epochs=10**6, start=float(at)) for job, at in zip(jobs, begins, strict=True)]
        results = simulate(Simulation(fabric, late, of_present, triggers=frozenset({"arrival"}), until=12.0))
        took.append([np.mean([e.before + e.seconds for e in results.epochs if e.job == name]) for name in names])
    mean: FloatArray = np.mean(took, axis=0)
    return mean


@settings(max_examples=examples(5, 60), deadline=None)
@given(times=st.lists(TIMES, min_size=2, max_size=3), loss=st.sampled_from([0.0, 0.05]))
def test_on_one_path_classes_are_within_a_hundredth_of_the_best_of_all(
    times: list[tuple[float, float]], loss: float
) -> None:
    traffic, _ = simulated(ONE_LINK, times)
    before, after = (
        planned(ONE_LINK, traffic, options) for options in (Options(), Options(classes=3, class_loss=loss))
    )
    stages, fair = estimate(ONE_LINK, traffic, before)
    best = mean_slowdown(stages, fair)
    for every in itertools.product(range(3), repeat=len(times)):
        if set(every) != set(range(max(every) + 1)):
            # Classes with gaps between them have another floor.
            continue
        other = stages.classified(np.array(every, dtype=np.int32))
        seconds = lasting_seconds(other, before.assignment)
        if not any_starves(other, before.assignment) and (seconds <= fair * (1 + loss) * (1 + TOLERANCE)).all():
            best = min(best, mean_slowdown(stages, seconds))
    reached = mean_slowdown(*estimate(ONE_LINK, traffic, after))
    # Short draws say which are judged by long ones.
    assert best * (1 - TOLERANCE) <= reached <= best * 1.01


def test_two_equal_jobs_on_one_link_find_their_gap() -> None:
    traffic, jobs = simulated(ONE_LINK, [(0.1, 0.1)] * 2)
    plan = planned(ONE_LINK, traffic, Options(classes=2))
    assert sorted(row.priority for row in plan.classes) == [0, 1]
    assert plan.times is not None
    # That of short draws, in which the lower job is pushed once.
    assert plan.times.slowdown <= 1.05
    assert (in_simulation(ONE_LINK, jobs, Options(classes=2)) <= 0.2 * 1.02).all()
    assert in_simulation(ONE_LINK, jobs, Options()).mean() >= 0.2 * 1.1


def test_jobs_that_state_a_class_keep_it() -> None:
    jobs = list(simulated_jobs(ONE_LINK, jobs_of(ONE_LINK, [(0.1, 0.1)] * 2, {1: 2})))
    traffic = joined(jobs)[0]
    plan = planned(ONE_LINK, traffic, Options(classes=4))
    assert [row.job for row in plan.classes] in ([], ["j0"])
    assert [row.priority for row in traffic.with_classes(plan.classes).collectives][1] == 2


def test_jobs_that_share_a_five_tuple_get_no_class() -> None:
    traffic, _ = simulated(ONE_LINK, [(0.1, 0.1)] * 2)
    same = replace(traffic, src=traffic.src[[0, 0]], dst=traffic.dst[[0, 0]], udp_src=traffic.udp_src[[0, 0]])
    assert planned(ONE_LINK, same, Options(classes=4)).classes == ()


def test_a_new_plan_keeps_classes_and_one_from_earlier_paths_has_them() -> None:
    traffic, _ = simulated(ONE_LINK, [(0.1, 0.1)] * 2)
    # Not the order that a search from nothing chooses, and as good as that.
    first = planned(ONE_LINK, traffic, Options(classes=4)).classes
    other = tuple(JobClass(row.job, 1 - row.priority) for row in first)
    made = planned(ONE_LINK, traffic, Options())
    before = PreviousPlan.of(ONE_LINK, traffic, made.assignment, None, other)
    assert planned(ONE_LINK, traffic, Options(classes=4), before).classes == other
    stored = unpack_paths(pack_paths(before))
    assert stored.classes == other
    kept = plan_from_paths(ONE_LINK, traffic, [stored], policy="fair", status="kept", clock=lambda: 0.0)
    assert kept.classes == other
    again = planned(ONE_LINK, traffic, Options(classes=4), before).times
    assert kept.times == again is not None


@pytest.mark.parametrize(
    ("option", "value"), [("classes", "5"), ("classes", "0"), ("class_loss", "-1"), ("starts", "0"), ("starts", "17")]
)
def test_other_values_are_refused_by_their_names(option: str, value: str) -> None:
    with pytest.raises(InputError, match=f"option {option}"):
        parse_options([f"{option}={value}"])


@settings(max_examples=examples(4, 40), deadline=None)
@given(times=st.lists(TIMES, min_size=3, max_size=4), fabric=st.sampled_from([ONE_LINK, TWO_SPINES]))
def test_with_shifts_no_job_gets_slower_than_with_shifts_alone(
    times: list[tuple[float, float]], fabric: Fabric
) -> None:
    traffic, _ = simulated(fabric, times)
    before, after = (
        planned(fabric, traffic, Options(shifts="advise", rounds=20_000, classes=classes)) for classes in (1, 4)
    )
    assert before.schedule is not None
    assert after.schedule is not None
    if not after.classes:
        assert after.schedule == before.schedule
        return
    assert after.starved == ()
    if not before.schedule.jobs:
        return
    demand = Demand.of(fabric, traffic)
    grids = grids_of(demand, before.schedule, is_fresh=True)
    assert grids is not None
    seconds = []
    for plan in (before, after):
        stages = Stages.of(Demand.of(fabric, traffic.with_classes(plan.classes)))
        seconds.append(scheduled_seconds(stages, plan.assignment, *grids, MOST_STEPS)[0])
    assert (seconds[1] <= seconds[0] * (1 + 2 * TOLERANCE)).all()
    assert seconds[1].sum() < seconds[0].sum()
    own = [{row.job: (row.shift_seconds, row.hold) for row in made.jobs} for made in (before.schedule, after.schedule)]
    assert own[0] == own[1]
