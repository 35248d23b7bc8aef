"""The simulator against SimGrid: another program, another language, another way to work out the same rates."""

from __future__ import annotations

import os

import numpy as np
import pytest

from benchmarks.simulation.against_simgrid import ask, is_installed, largest_deviation
from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import Collective, Traffic
from controller.routing import Result, assign
from emulation.fluid.movers import Allocation
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import Simulation, simulate
from tests.rig.http.client import PATIENCE_SECONDS
from tests.unit.routing.instances import random_fabric
from tests.unit.routing.pod_fabrics import fat_tree


@pytest.fixture(scope="module", autouse=True)
def simgrid() -> None:
    """Debian's python3-simgrid, which ``make setup-test`` installs."""
    if is_installed():
        return
    if os.environ.get("CI") == "true":
        pytest.fail("python3-simgrid is missing")
    pytest.skip("python3-simgrid is missing (make setup-test)")


@pytest.mark.parametrize("seed", range(12))
def test_every_flow_ends_when_simgrid_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    compare(random_fabric(rng, symmetric=seed % 2 == 0, most=6).healthy(), seed, rng)


@pytest.mark.parametrize("seed", range(6))
def test_every_flow_ends_when_simgrid_says_on_a_fat_tree_of_eight_ports(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = fat_tree(8)
    down = [switch.name for switch in rng.choice(np.array(fabric.switches[fabric.n_leaves :]), seed, replace=False)]
    compare(fabric.without_links(down), seed, rng, most=300)


@pytest.mark.parametrize("seed", range(3))
def test_every_flow_ends_when_simgrid_says_between_ports_of_planes_of_three_layers(seed: int) -> None:
    compare(pod_clos(2, 2, 2, 2, 2, planes=2, dual_tor=seed == 1), seed, np.random.default_rng(seed))


def compare(fabric: Fabric, seed: int, rng: np.random.Generator, most: int = 60) -> None:
    """Simulate drawn flows, and let SimGrid simulate them."""
    n = int(rng.integers(2, most))
    ends = np.array([rng.choice(fabric.n_hosts, 2, replace=False) for _ in range(n)], dtype=np.int32)
    # Every third instance has a flow a collective; the others have flows that wait for each other, run after run.
    collective = np.arange(n) if seed % 3 == 0 else np.sort(rng.integers(0, 1 + n // 4, n))
    repeat = np.ones(n, dtype=np.int64) if seed % 3 == 0 else rng.integers(1, 5, n)
    size = rng.integers(10**7, 10**9, n) * 12
    number = np.arange(n, dtype=np.int32)
    path = assign("ecmp", fabric, _traffic(ends, size, number), seed=seed).assignment.path
    reached = np.flatnonzero(path != UNROUTABLE)
    traffic = _traffic(ends[reached], size[reached], np.unique(collective[reached], return_inverse=True)[1])
    present = len(traffic.collectives)
    schedule = one_step_each(traffic, repeat[:present])
    schedule.delay[:] = rng.choice([0.0, 0.1, 0.25, 0.4], present)
    job = SimulatedJob("j", traffic, schedule, compute_seconds=0.05, epochs=1 + seed % 3, start=0.2)
    paths = path[reached]
    results = simulate(Simulation(fabric, [job], lambda *_: Result(Assignment.single(paths)), Allocation.FLOW))
    assert largest_deviation(results, ask(fabric, [job], paths, timeout=PATIENCE_SECONDS)) < 1e-6


def _traffic(ends: np.ndarray, size: np.ndarray, collective: np.ndarray) -> Traffic:  # type: ignore[type-arg]
    number = np.arange(len(ends), dtype=np.int32)
    table = tuple(Collective("j", f"c{k}") for k in range(int(collective.max()) + 1))
    return Traffic(ends[:, 0], ends[:, 1], size, collective.astype(np.int32), number, 49152 + number, table)
