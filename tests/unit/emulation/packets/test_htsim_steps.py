"""Connection matrices with steps: htsim starts every transfer, after those that it waits for."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.job import CollectiveCall, Job
from controller.workload.importers.base import Source
from controller.workload.importers.htsim.connections import Connections, read_connections
from controller.workload.importers.htsim.phases import rounds_of
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.packets.htsim_steps import write_steps
from tests.unit.emulation.packets.runs import ring, simulated
from tests.unit.laws import examples

FABRIC = clos(2, 4, 4)


def read(text: str) -> Connections:
    """Read a matrix back as htsim does."""
    return read_connections(Source("x.cm", lambda: io.BytesIO(text.encode())))


@settings(max_examples=examples(10, 60))
@given(seed=st.integers(0, 10**6), ranks=st.integers(2, 8), size=st.integers(1, 10**7))
def test_a_ring_is_sent_step_by_step_and_each_step_waits_for_the_one_before(seed: int, ranks: int, size: int) -> None:
    hosts = np.random.default_rng(seed).permutation(np.array(FABRIC.host_names))[:ranks].tolist()
    jobs = simulated(FABRIC, [ring("a", hosts, size)])
    matrix = read("\n".join(write_steps(FABRIC, jobs)))
    rounds = rounds_of(matrix).tolist()
    steps = 2 * (ranks - 1)
    assert np.bincount(rounds).tolist() == [ranks] * steps
    schedule = jobs[0].schedule
    assert sum(matrix.size) == int(np.ceil(schedule.bytes).sum()) * steps
    # A host's step starts when it has received the step before.
    fires = {(matrix.dst[i], rounds[i]): matrix.recv_done[i] for i in range(len(matrix))}
    for i in range(len(matrix)):
        if rounds[i]:
            assert matrix.trigger[i] == fires[matrix.src[i], rounds[i] - 1]


@pytest.mark.parametrize("algorithm", ["halving_doubling", "direct"])
def test_rounds_and_phases_start_by_barriers(algorithm: str) -> None:
    ranks = tuple(range(8))
    calls = (
        CollectiveCall("first", "all_reduce", ranks, 80_000, algorithm),  # type: ignore[arg-type]
        CollectiveCall("second", "all_to_all", ranks, 56_000, phase=1),
    )
    job = Job("a", hosts=FABRIC.host_names[:8], collectives=calls)
    jobs = simulated(FABRIC, [job, ring("b", FABRIC.host_names[8:], 8_000)])
    matrix = read("\n".join(write_steps(FABRIC, jobs)))
    rounds = np.array(rounds_of(matrix))
    own = np.array([node < 8 for node in matrix.src])
    first = 6 if algorithm == "halving_doubling" else 2
    assert rounds[own].max() == first
    assert (rounds[own] == first).sum() == 8 * 7
    assert rounds[~own].max() == 2 * 7 - 1


@pytest.mark.parametrize("algorithm", ["tree", "chain"])
def test_an_edge_of_a_tree_waits_for_the_edges_that_deliver_its_data(algorithm: str) -> None:
    op = "all_reduce" if algorithm == "tree" else "broadcast"
    call = CollectiveCall("c", op, tuple(range(8)), 800, algorithm)  # type: ignore[arg-type]
    jobs = simulated(FABRIC, [Job("a", hosts=FABRIC.host_names[:8], collectives=(call,))])
    matrix = read("\n".join(write_steps(FABRIC, jobs)))
    rounds = rounds_of(matrix)
    assert len(matrix) == jobs[0].traffic.n_flows
    received = {(matrix.dst[i], rounds[i]) for i in range(len(matrix))}
    for i in range(len(matrix)):
        if rounds[i]:
            assert (matrix.src[i], rounds[i] - 1) in received


def test_what_triggers_cannot_express_is_refused() -> None:
    call = CollectiveCall("c", "broadcast", tuple(range(8)), 800, "chain")
    job = Job("a", hosts=FABRIC.host_names[:8], collectives=(call,))
    with pytest.raises(InputError, match="job a: its steps wait for each other as triggers of htsim cannot express"):
        list(write_steps(FABRIC, simulated_jobs(FABRIC, [TimedJob(job, pieces=2)])))


def test_a_transfer_above_htsims_limit_is_refused() -> None:
    jobs = simulated(FABRIC, [ring("a", FABRIC.host_names[:2], 2**33)])
    with pytest.raises(InputError, match="htsim's 2147483647 bytes"):
        list(write_steps(FABRIC, jobs))
    assert list(write_steps(FABRIC, jobs, 0.25))
