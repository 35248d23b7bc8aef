"""Short forms of jobs and runs of the simulator."""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing import Options, PreviousPlan, Result, assign
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import Simulation, simulate

GB = 10**9


def by(policy: str, **options: int) -> object:
    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(policy, fabric, traffic, previous=previous, options=Options(**options))  # type: ignore[arg-type]

    return plan


def run(fabric: Fabric, *jobs: SimulatedJob, planner: object = None, **more: object) -> Results:
    return simulate(Simulation(fabric, jobs, planner or by("fair"), **more))  # type: ignore[arg-type]


def job(traffic: Traffic, name: str = "j", **more: object) -> SimulatedJob:
    repeat = more.pop("repeat", None)
    return SimulatedJob(name, traffic, one_step_each(traffic, repeat), **more)  # type: ignore[arg-type]
