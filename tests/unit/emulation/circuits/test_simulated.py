"""Laws of planned circuits on the fluid simulator: what it carries is what the plan says, and it is never faster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.importers.base import GraphRing
from controller.workload.importers.dags import DagBuilder
from controller.workload.job_file import parse_job
from emulation.circuits.graphs import on_circuits
from emulation.circuits.network import CircuitNetwork, loads_of
from emulation.circuits.simulated import simulated
from emulation.fluid.dag import run
from tests.unit.circuits.drawn import drawn_job, optical, optical_fabrics, planned
from tests.unit.laws import examples


@settings(deadline=None, max_examples=examples(8, 45))
@given(fabric=optical_fabrics(), seed=st.integers(0, 10**6), phases=st.integers(1, 3), paths=st.integers(1, 3))
def test_circuits_carry_the_bytes_of_the_plan_in_no_less_time(
    fabric: OpticalFabric, seed: int, phases: int, paths: int
) -> None:
    try:
        job = drawn_job(seed, list(fabric.servers), phases=phases)
        plans = planned(fabric, job, seed=seed, paths=paths).shards
    except InputError:
        assert fabric.dead.any()
        return
    for plan in plans:
        outcome = simulated(plan, fabric.gbps)
        # Parts have whole bytes.
        rounding = 1e-8 * plan.shard.demand.n**2
        np.testing.assert_allclose(loads_of(plan, outcome.gbit), plan.loads.sum(axis=0) * 8e-9, atol=rounding)
        assert outcome.seconds >= plan.seconds - rounding / fabric.gbps


def test_where_one_circuit_is_the_bottleneck_of_all_the_time_is_that_of_the_plan() -> None:
    job = parse_job({"name": "a", "flows": [{"src": "h1", "dst": f"h{i}", "bytes": 10**8} for i in (2, 3, 4)]})
    (plan,) = planned(optical(servers=4, nics=1), job).shards
    assert simulated(plan, 100.0).seconds == pytest.approx(plan.seconds) == pytest.approx(0.024)


def graph(n: int, size: int, seed: int) -> tuple[DagBuilder, GraphRing, Job]:
    """A ring all-reduce of all ranks step by step, then a message from each of some ranks, and the job of both."""
    build = DagBuilder()
    part = size // n
    last: list[int] = []
    for _ in range(2 * (n - 1)):
        now = [build.message(i, (i + 1) % n, part) for i in range(n)]
        for i, before in enumerate(last):
            build.edge(before, now[i])
            build.edge(before, now[(i + 1) % n])
        last = now
    ring = GraphRing(0, len(build), tuple(range(n)))
    flows = []
    for src in np.random.default_rng(seed).permutation(n)[: n // 2].tolist():
        message = build.message(src, (src + 1) % n, size)
        flows.append({"src": f"h{src + 1}", "dst": f"h{(src + 1) % n + 1}", "bytes": size})
        for before in last:
            build.edge(before, message)
    call = {"name": "r", "op": "all_reduce", "ranks": list(range(n)), "bytes": part * n}
    hosts = [f"h{i + 1}" for i in range(n)]
    return build, ring, parse_job({"name": "a", "hosts": hosts, "collectives": [call], "flows": flows})


@settings(deadline=None, max_examples=10)
@given(
    n=st.integers(3, 7),
    nics=st.integers(1, 2),
    seed=st.integers(0, 10**6),
    duplex=st.booleans(),
    paths=st.integers(1, 2),
)
def test_graphs_send_their_rings_and_messages_as_the_plan_says(
    n: int, nics: int, seed: int, duplex: bool, paths: int
) -> None:
    # An odd number of servers has no duplex circuits between all.
    n += n % 2 if duplex else 0
    fabric = optical(servers=n, nics=2 if duplex else nics, duplex=duplex)
    build, ring, job = graph(n, 10**6 * n, seed)
    (plan,) = planned(fabric, job, seed=seed, paths=paths).shards
    cut = on_circuits(build.dag(n), (ring,), job, plan, fabric.servers)
    outcome = run(cut, CircuitNetwork(plan).ways(fabric.gbps))
    expected = _loads(plan)
    np.testing.assert_allclose(loads_of(plan, outcome.gbit), expected, atol=1e-8 * n * n * 4)
    assert outcome.seconds >= expected.max() / fabric.gbps * (1 - 1e-6)
    # The messages begin when the all-reduce has ended.
    assert outcome.end[ring.first : ring.end].max() < outcome.end[ring.end : len(build)].min()


def _loads(plan: ShardPlan) -> np.ndarray:
    total: np.ndarray = plan.loads.sum(axis=0) * 8e-9
    return total
