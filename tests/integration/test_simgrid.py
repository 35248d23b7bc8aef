"""The simulator against SimGrid: another program, another language, another way to work out the same rates."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import Collective, Traffic
from controller.routing import assign
from emulation.fluid.movers import Allocation
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.routing.instances import random_fabric

PYTHON = "/usr/bin/python3"
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simgrid_flows.py"


@pytest.fixture(scope="module", autouse=True)
def simgrid() -> None:
    """Debian's python3-simgrid, which ``make setup-test`` installs."""
    found = subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True, check=False).returncode == 0
    if not found and os.environ.get("CI") == "true":
        pytest.fail("python3-simgrid is missing")
    if not found:
        pytest.skip("python3-simgrid is missing (make setup-test)")


def ends_of_simgrid(fabric: Fabric, traffic: Traffic, path: np.ndarray, start: np.ndarray) -> list[float]:  # type: ignore[type-arg]
    flows = []
    for f in range(traffic.n_flows):
        src, dst = int(traffic.src[f]), int(traffic.dst[f])
        between = []
        if path[f] >= 0:
            a, b = fabric.host_leaf[src], fabric.host_leaf[dst]
            between = [int(fabric.up_link[a, path[f]]), int(fabric.down_link[b, path[f]])]
        links = [src, *between, fabric.n_hosts + dst]
        flows.append({"start": float(start[f]), "bytes": int(traffic.bytes[f]), "links": links})
    case = json.dumps({"gbps": fabric.link_gbps.tolist(), "flows": flows})
    done = subprocess.run([PYTHON, str(SCRIPT)], input=case, capture_output=True, text=True, timeout=60, check=True)
    ended: list[float] = json.loads(done.stdout)["ended"]
    return ended


@pytest.mark.parametrize("seed", range(12))
def test_every_flow_ends_when_simgrid_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, symmetric=seed % 2 == 0, most=6).healthy()
    n = int(rng.integers(2, 60))
    ends = np.array([rng.choice(fabric.n_hosts, 2, replace=False) for _ in range(n)], dtype=np.int32)
    size = rng.integers(10**8, 10**10, n)
    table = tuple(Collective("j", f"c{f}") for f in range(n))
    number = np.arange(n, dtype=np.int32)
    traffic = Traffic(ends[:, 0], ends[:, 1], size, number, number * 0, 49152 + number, table)
    start = rng.choice([0.0, 0.1, 0.25, 0.4], n)
    plan = assign("ecmp", fabric, traffic, seed=seed).assignment
    reached = np.flatnonzero(plan.path != UNROUTABLE)
    traffic = Traffic(
        traffic.src[reached], traffic.dst[reached], traffic.bytes[reached], number[: len(reached)],
        number[: len(reached)] * 0, traffic.udp_src[reached], table[: len(reached)],
    )  # fmt: skip
    path, start = plan.path[reached], start[reached]
    schedule = one_step_each(traffic)
    schedule.delay[:] = start
    job = SimulatedJob("j", traffic, schedule)
    results = simulate(Simulation(fabric, [job], lambda *_: Assignment.single(path), Allocation.FLOW))
    ours = np.zeros(traffic.n_flows)
    ours[results.flows.owner] = results.flows.ended
    np.testing.assert_allclose(ours, ends_of_simgrid(fabric, traffic, path, start), rtol=1e-6)
