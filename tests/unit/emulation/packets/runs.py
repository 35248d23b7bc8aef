"""Runs of the packet engine on small fabrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.job import CollectiveCall, Job
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result, assign
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import LinkChange, Planner
from emulation.packets.engine import PacketResults, run_packets
from emulation.packets.input_file import PacketSpread, write_input
from emulation.packets.live_plan import LivePlan
from emulation.packets.settings import PacketSettings


def by_policy(name: str, seed: int = 0) -> Planner:
    """Return a planner."""

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign(name, fabric, traffic, seed=seed, previous=previous)

    return plan


def on_path(number: int) -> Planner:
    """Return a planner that takes one path for all flows between leaves."""

    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        local = fabric.host_leaf[traffic.src] == fabric.host_leaf[traffic.dst]
        return Result(Assignment.single(np.where(local, -1, number).astype(np.int32)))

    return plan


def sends(name: str, src: str, dst: str, size: int) -> Job:
    """Return a job of one transfer."""
    return Job(name, hosts=(src, dst), collectives=(CollectiveCall("c", "send_recv", (0, 1), size),))


def ring(name: str, hosts: Sequence[str], size: int) -> Job:
    """Return a job of one all-reduce on a ring."""
    return Job(
        name,
        hosts=tuple(hosts),
        collectives=(CollectiveCall("c", "all_reduce", tuple(range(len(hosts))), size, "ring"),),
    )


def simulated(
    fabric: Fabric, jobs: Sequence[Job], *, compute: float = 0.0, epochs: int = 1
) -> tuple[SimulatedJob, ...]:
    """Return the jobs in the form of the simulators."""
    return simulated_jobs(fabric, [TimedJob(job, compute, epochs) for job in jobs])


class _OnePace(LivePlan):
    """Asks hosts to keep one pace for every flow."""

    pace_gbps = 0.0

    def answer(self, cause: str, seconds: float, present: Sequence[int]) -> list[str]:
        """Return the rows of the plan with this pace."""
        lines = super().answer(cause, seconds, present)
        return [*lines, *(f"pace {line.split()[1]} {line.split()[2]} {self.pace_gbps * 1e9!r}" for line in lines)]


def packets(
    fabric: Fabric,
    jobs: Sequence[SimulatedJob],
    planner: Planner | None = None,
    *,
    settings: PacketSettings | None = None,
    spread: PacketSpread = PacketSpread.PINNED,
    paced: bool = False,
    pace_gbps: float = 0.0,
    changes: Sequence[LinkChange] = (),
    seed: int = 0,
    at_end: bool = False,
) -> PacketResults:
    """Simulate jobs on packets: by plans, or sprayed where there is no planner. ``pace_gbps``: of every flow."""
    settings = settings or PacketSettings(record_transfers=True)
    plan = LivePlan(fabric, jobs, planner, paced, spread, changes, at_end=at_end)
    if pace_gbps:
        plan = _OnePace(fabric, jobs, planner, paced, spread, changes)
        plan.pace_gbps = pace_gbps
    text = write_input(fabric, jobs, settings, spread=spread, changes=changes, seed=seed, until=1.0)
    return run_packets(text, plan, core=settings.core)
