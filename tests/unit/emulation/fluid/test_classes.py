"""Classes of priority in the flow simulator, and the estimate beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.priority import SHARE, shares
from controller.model.units import GBIT
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import plan_times
from controller.workload.job_file import parse_job
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.movers import Allocation
from emulation.fluid.schedule import joined
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.emulation.packets.runs import by_policy, on_path
from tests.unit.laws import examples

ONE_LINK = clos(1, 2, 4)
GBPS = float(ONE_LINK.link_gbps[0])


def timed(
    name: str, host: int, compute: float, send: float, priority: int, epochs: int, start: float = 0.0
) -> TimedJob:
    """Return a job that computes and sends over the one uplink by turns, for these seconds if it is alone."""
    flow = {"src": f"h{host}", "dst": f"h{host + 4}", "bytes": round(send * GBPS / GBIT)}
    job = parse_job({"name": name, "flows": [flow], "compute_seconds": compute, "class": priority})
    return TimedJob(job, epochs=epochs, start=start)


def iterations(jobs: list[TimedJob], allocation: Allocation = Allocation.FLOW) -> dict[str, float]:
    """Return the mean seconds of an iteration of each job."""
    results = simulate(Simulation(ONE_LINK, simulated_jobs(ONE_LINK, jobs), by_policy("fair"), allocation=allocation))
    return {job.job.name: (results.went[job.job.name] - job.start) / job.epochs for job in jobs}


@pytest.mark.parametrize("allocation", [each for each in Allocation if each is not Allocation.HOSTS])
def test_two_equal_jobs_find_their_gap(allocation: Allocation) -> None:
    took = iterations([timed("a", 1, 0.1, 0.1, 1, 40), timed("b", 2, 0.1, 0.1, 0, 40, start=0.05)], allocation)
    assert took["a"] <= 0.2 * 1.001
    assert took["b"] <= 0.2 * 1.01
    if allocation is not Allocation.PLANNED:
        fair = iterations([timed("a", 1, 0.1, 0.1, 0, 40), timed("b", 2, 0.1, 0.1, 0, 40, start=0.05)], allocation)
        assert min(fair.values()) > 0.2 * 1.2


def test_a_full_higher_class_leaves_the_lower_one_its_floor() -> None:
    jobs = simulated_jobs(ONE_LINK, [timed("a", 1, 0, 10, 1, 1), timed("b", 2, 0, 10, 0, 1)])
    results = simulate(Simulation(ONE_LINK, jobs, on_path(0)))
    assert results.went == pytest.approx({"a": 10 * (1 + 1 / SHARE), "b": 20})


@settings(max_examples=examples(8, 60))
@given(
    compute=st.lists(st.floats(0.05, 0.3), min_size=2, max_size=2),
    send=st.lists(st.floats(0.02, 0.1), min_size=2, max_size=2),
    classes=st.permutations([0, 2]),
)
def test_the_higher_class_is_as_fast_as_alone_in_estimate_and_simulation(
    compute: list[float], send: list[float], classes: list[int]
) -> None:
    jobs = [timed(f"j{i}", i + 1, compute[i], send[i], classes[i], 30, start=0.01 * i) for i in range(2)]
    high = classes.index(2)
    alone = compute[high] + send[high]
    assert iterations(jobs)[f"j{high}"] == pytest.approx(alone, rel=0.002)
    traffic = joined(simulated_jobs(ONE_LINK, jobs))[0]
    plan = by_policy("fair")(ONE_LINK, traffic, None)
    times = plan_times(Demand.of(ONE_LINK, traffic), plan.assignment)
    assert times is not None
    assert times.jobs[high].iteration_seconds == pytest.approx(alone, rel=0.002)


def test_collectives_of_a_phase_with_unlike_classes_are_stages_of_their_own() -> None:
    flows = [
        {"src": f"h{i + 1}", "dst": f"h{i + 5}", "bytes": round(0.1 * GBPS / GBIT), "collective": "xy"[i]}
        for i in range(2)
    ]
    job = parse_job({"name": "a", "flows": flows, "compute_seconds": 0.1, "classes": {"x": 1}})
    traffic = joined(simulated_jobs(ONE_LINK, [TimedJob(job)]))[0]
    times = plan_times(Demand.of(ONE_LINK, traffic), by_policy("fair")(ONE_LINK, traffic, None).assignment)
    assert times is not None
    seconds = {row.name: row.seconds for row in times.jobs[0].collectives}
    assert seconds["x"] == pytest.approx(0.1 * (1 + 1 / SHARE))
    assert times.jobs[0].iteration_seconds == pytest.approx(0.3)
    assert seconds["y"] == pytest.approx(0.2)


def test_shares_grow_by_one_factor() -> None:
    assert np.allclose(np.diff(np.log(shares(np.arange(4, dtype=np.int32)))), np.log(SHARE))
