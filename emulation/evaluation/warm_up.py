"""Compile the kernels of planner and simulator: at installation, and before the first measured plan of a process."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Iterable
from functools import cache, partial

import numpy as np

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing import PreviousPlan, Result, assign, warm_up
from controller.routing.warm_up import warm_up_plans
from controller.routing.warm_up_instances import KINDS, FabricKind
from emulation.fluid.adaptive import Adaptive
from emulation.fluid.movers import Allocation
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import LinkChange, Simulation, simulate


def warm(forms: Iterable[FabricKind] = KINDS) -> None:
    """Compile or load kernels, once per process, so that no reported planning time includes it.

    Simulates small jobs: whole and split flows, each allocation, links that fail and return. Numba caches the compiled
    code on disk (see ``controller.routing.warm_up``).

    Args:
        forms: of the fabrics on which is planned. To load the kernels of one takes about a second, of all about five.
    """
    warm_up(forms)
    simulate_small_jobs()


def compile_in_parallel() -> None:
    """Do what ``warm`` does, on two processors if nothing is compiled yet.

    Numba compiles on one processor at a time in a process. A second process compiles the simulator and the kernels of
    jobs with a timing meanwhile; this one then loads them from the cache on disk, and compiles what may be missing.
    """
    beside = multiprocessing.get_context("spawn").Process(target=_compile_second_half, daemon=True)
    beside.start()
    try:
        warm_up_plans(timed=False)
        beside.join()
    finally:
        beside.terminate()
    warm()


def _compile_second_half() -> None:
    """Compile what the first process leaves, in silence: that one tells of compiling, errors and Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("fairspine").setLevel(logging.ERROR)
    simulate_small_jobs()
    warm_up_plans(timed=True)


@cache
def simulate_small_jobs() -> None:
    """Reach every kernel of the simulator, once per process."""
    pair = np.array([0, 1], dtype=np.int32)
    size = np.full(2, 10**9, dtype=np.int64)
    traffic = Traffic(pair, pair + 2, size, pair * 0, pair, pair + 50000, (Collective("j", "c"),))
    fabric = clos(2, 2, 2)
    changes = (LinkChange(0.01, ("spine1", "spine2")), LinkChange(0.02, ("spine1", "spine2"), up=True))
    jobs = [SimulatedJob("j", traffic, one_step_each(traffic))]
    for name in ("fair", "spray"):
        for allocation in Allocation:
            planner = partial(_planned, name)
            simulate(Simulation(fabric, jobs, planner, allocation=allocation, changes=changes, bins=0.01))
    simulate(Simulation(fabric, jobs, planner, changes=changes, adaptive=Adaptive("least_loaded")))


def _planned(policy: str, fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
    return assign(policy, fabric, traffic)
