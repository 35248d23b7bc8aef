"""Compile the kernels of planner and simulator: at installation, and before the first measured plan of a process."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from controller.model.clos import clos
from controller.model.fabric import Fabric
from controller.model.traffic import Collective, Traffic
from controller.routing import PreviousPlan, Result, assign, warm_up
from emulation.fluid.movers import Allocation
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import LinkChange, Simulation, simulate


@cache
def warm() -> None:
    """Compile or load every kernel, once per process, so that no reported planning time includes it.

    Simulates small jobs: whole and split flows, each allocation, links that fail and return. Numba caches the compiled
    code on disk (see ``controller.routing.warm_up``).
    """
    warm_up()
    pair = np.array([0, 1], dtype=np.int32)
    size = np.full(2, 10**9, dtype=np.int64)
    traffic = Traffic(pair, pair + 2, size, pair * 0, pair, pair + 50000, (Collective("j", "c"),))
    fabric = clos(2, 2, 2)
    changes = (LinkChange(0.01, ("spine1", "spine2")), LinkChange(0.02, ("spine1", "spine2"), up=True))
    for name in ("fair", "spray"):
        for allocation in Allocation:
            simulate(
                Simulation(
                    fabric,
                    [SimulatedJob("j", traffic, one_step_each(traffic))],
                    partial(_planned, name),
                    allocation=allocation,
                    changes=changes,
                    bins=0.01,
                )
            )


def _planned(policy: str, fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
    return assign(policy, fabric, traffic)
