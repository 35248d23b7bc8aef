"""The traffic of jobs on a fabric is on live planes as soon as it is made, and parts of it are those of the jobs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.planning.live_traffic import live_jobs, live_traffic
from controller.planning.plane_drain import PortsAside, on_planes_in_use
from controller.routing.problem.demand import Demand, on_healthy
from controller.routing.problem.live_planes import on_live_planes
from controller.workload.expand import JobTraffic, combine, expand
from controller.workload.job_file import parse_job
from tests.unit.strategies import plane_fabrics


@st.composite
def cases(draw: st.DrawFn) -> tuple[Fabric, list[JobTraffic]]:
    fabric = draw(plane_fabrics())
    nics = list(fabric.nic_names)
    jobs: list[JobTraffic] = []
    for number in range(draw(st.integers(1, 2))):
        flows = [
            {"src": src, "dst": dst, "bytes": draw(st.integers(1, 10**6))}
            for src, dst in draw(
                st.lists(st.permutations(nics).map(lambda two: tuple(two[:2])), min_size=1, max_size=4)
            )
        ]
        jobs.append(expand(fabric, parse_job({"name": f"job{number}", "flows": flows}), jobs))
    return fabric, jobs


@given(cases())
def test_traffic_of_jobs_is_on_live_planes(case: tuple[Fabric, list[JobTraffic]]) -> None:
    fabric, jobs = case
    traffic = live_traffic(fabric, jobs)
    assert on_live_planes(fabric, traffic) is traffic
    assert traffic.version == on_live_planes(fabric, combine(jobs)).version
    aside = PortsAside((0,))
    assert live_traffic(fabric, jobs, aside).version == on_planes_in_use(fabric, combine(jobs), aside).version


@given(cases())
def test_the_jobs_of_a_traffic_have_its_ports(case: tuple[Fabric, list[JobTraffic]]) -> None:
    fabric, jobs = case
    traffic = live_traffic(fabric, jobs)
    assert combine(live_jobs(fabric, jobs)).version == traffic.version


@given(cases())
def test_without_failures_each_stripe_is_in_its_own_plane(case: tuple[Fabric, list[JobTraffic]]) -> None:
    fabric, jobs = case
    demand = Demand.of(fabric, live_traffic(fabric, jobs))
    healthy = demand.without_failures()
    assert healthy.traffic.version == live_traffic(fabric.healthy(), jobs).version
    assert healthy.without_failures() is healthy
    assert np.array_equal(healthy.ideal_seconds, on_healthy(fabric, combine(jobs)).ideal_seconds, equal_nan=True)
