from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.job import CollectiveCall, Job
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result, assign
from controller.workload.collectives import ALGORITHMS
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.laws import examples

CASES = [(op, algorithm) for op, algorithms in ALGORITHMS.items() for algorithm in algorithms]

WIDE = clos(16, 16, 1)
"""Every host has a leaf of its own and every leaf as many spines as there are hosts: only NICs are shared."""


def job_of(
    *calls: CollectiveCall, fabric: Fabric = WIDE, n: int = 16, pieces: int = 1, epochs: int = 1
) -> SimulatedJob:
    job = Job("j", hosts=fabric.host_names[:n], collectives=calls)
    return simulated_jobs(fabric, [TimedJob(job, epochs=epochs, pieces=pieces)])[0]


def seconds(made: SimulatedJob, fabric: Fabric = WIDE) -> float:
    def plan(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return assign("spray", fabric, traffic)

    results = simulate(Simulation(fabric, [made], plan))
    assert not results.stalled
    return results.epochs[0].seconds


@settings(max_examples=examples(100, 600), deadline=None)
@given(
    case=st.sampled_from(CASES),
    n=st.integers(2, 16),
    size=st.integers(1, 10**9),
    pieces=st.integers(1, 4),
    channels=st.sampled_from([None, 1, 3]),
    nics=st.sampled_from([1, 4]),
)
def test_the_steps_of_any_collective_move_exactly_the_bytes_of_its_flows_and_come_to_an_end(
    case: tuple, n: int, size: int, pieces: int, channels: int | None, nics: int
) -> None:
    op, algorithm = case
    n = 2 if op == "send_recv" else n
    fabric = clos(2, 4, 4, nics_per_server=nics)
    call = CollectiveCall("c", op, tuple(range(n)), size, algorithm, channels=channels)
    made = job_of(call, fabric=fabric, n=n, pieces=pieces)
    schedule, traffic = made.schedule, made.traffic
    moved = np.bincount(
        schedule.flow, weights=schedule.bytes * schedule.repeat[schedule.group], minlength=traffic.n_flows
    )
    np.testing.assert_allclose(moved, traffic.bytes, rtol=1e-12)
    assert (np.diff(schedule.group) >= 0).all()
    assert (schedule.bytes > 0).all()
    if traffic.n_flows:
        assert seconds(made, fabric) > 0


BYTES = 16 * 10**8
WHOLE = BYTES * 8e-11
"""Seconds for all bytes over one NIC of 100 Gbit/s."""


@pytest.mark.parametrize(
    ("op", "algorithm", "n", "pieces", "wanted"),
    [
        ("all_reduce", "ring", 16, 1, 2 * 15 / 16),
        ("all_gather", "ring", 16, 1, 15 / 16),
        ("reduce_scatter", "ring", 16, 1, 15 / 16),
        ("all_reduce", "direct", 16, 1, 2 * 15 / 16),
        ("all_to_all", "direct", 16, 1, 15 / 16),
        # 1/2 + 1/4 + 1/8 + 1/16, there and back.
        ("all_reduce", "halving_doubling", 16, 1, 2 * 15 / 16),
        # Two of six are folded in and out, four halve and double.
        ("all_reduce", "halving_doubling", 6, 1, 2 + 2 * 3 / 4),
        # ceil(log2 n) steps of everything, one after the other.
        ("broadcast", "tree", 16, 1, 4),
        ("reduce", "tree", 16, 1, 4),
        ("broadcast", "tree", 11, 1, 4),
        ("broadcast", "chain", 16, 1, 15),
        ("reduce", "chain", 16, 1, 15),
        # A pipeline of n - 1 edges and p pieces takes n - 2 + p pieces' time.
        ("broadcast", "chain", 16, 100, (14 + 100) / 100),
        ("send_recv", "direct", 2, 1, 1),
    ],
)
def test_a_collective_that_is_alone_takes_the_time_of_the_textbooks(
    op: str, algorithm: str, n: int, pieces: int, wanted: float
) -> None:
    call = CollectiveCall("c", op, tuple(range(n)), BYTES, algorithm)  # type: ignore[arg-type]
    assert seconds(job_of(call, n=n, pieces=pieces)) == pytest.approx(wanted * WHOLE)


def test_two_trees_pass_half_of_the_data_each_up_and_down_again() -> None:
    # Two servers: in either tree the one sends the other half of the bytes and is sent the sum; both trees at once.
    call = CollectiveCall("c", "all_reduce", (0, 1), BYTES, "tree")
    assert seconds(job_of(call, n=2)) == pytest.approx(WHOLE)


def test_passing_on_in_pieces_makes_trees_faster() -> None:
    call = CollectiveCall("c", "all_reduce", tuple(range(16)), BYTES, "tree")
    whole, cut = (seconds(job_of(call, pieces=pieces)) for pieces in (1, 16))
    assert cut < 0.7 * whole


def test_phases_come_one_after_the_other_and_what_is_in_one_phase_at_once() -> None:
    def ring(name: str, ranks: range, phase: int) -> CollectiveCall:
        return CollectiveCall(name, "all_reduce", tuple(ranks), BYTES, "ring", phase=phase)

    one = job_of(ring("a", range(4), 0), ring("b", range(4, 8), 0), ring("c", range(8), 3))
    assert seconds(one) == pytest.approx((1.5 + 1.75) * WHOLE)


def test_a_collective_to_which_flows_are_added_is_one_step() -> None:
    from controller.model.job import FlowList

    call = CollectiveCall("c", "all_reduce", (0, 1), BYTES, "ring")
    flows = FlowList(("h3",), ("h4",), np.array([BYTES]), ("c",), np.zeros(1, dtype=np.int32))
    job = Job("j", hosts=("h1", "h2"), collectives=(call,), flows=flows)
    made = simulated_jobs(WIDE, [TimedJob(job)])[0]
    assert made.schedule.repeat.tolist() == [1]
    assert seconds(made) == pytest.approx(WHOLE)


@settings(max_examples=examples(50, 300), deadline=None)
@given(
    case=st.sampled_from(CASES),
    n=st.integers(2, 9),
    size=st.integers(10**6, 10**9),
    qps=st.integers(1, 5),
    mode=st.sampled_from(["split", "round_robin"]),
    channels=st.sampled_from([None, 3]),
)
def test_qps_of_one_path_take_as_long_as_their_connection(
    case: tuple, n: int, size: int, qps: int, mode: str, channels: int | None
) -> None:
    """Each leaf has a path of its own for each host: nothing but NICs is shared, so shares of bytes do not matter."""
    op, algorithm = case
    n = 2 if op == "send_recv" else n
    call = CollectiveCall("c", op, tuple(range(n)), size, algorithm, channels=channels)
    job = Job("j", hosts=WIDE.host_names[:n], collectives=(call,))
    one, many = (
        simulated_jobs(WIDE, [TimedJob(job)], default)[0]
        for default in (QueuePairs(1), QueuePairs(qps, mode))  # type: ignore[arg-type]
    )
    moved = np.bincount(
        many.schedule.flow,
        weights=many.schedule.bytes * many.schedule.repeat[many.schedule.group],
        minlength=many.traffic.n_flows,
    )
    np.testing.assert_allclose(moved, many.traffic.bytes, rtol=1e-12)
    assert many.schedule.n_groups == one.schedule.n_groups
    assert seconds(many) == pytest.approx(seconds(one), rel=1e-6)
