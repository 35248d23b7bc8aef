"""Chakra's traces as graphs of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.workload.exporters.chakra import chakra_files
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.chakra import read
from controller.workload.importers.streams import open_sources
from controller.workload.job_file import parse_job
from emulation.fluid.dag import ideal_switch, run
from tests.unit.workload.importers.traces.small_traces import (
    ALL_REDUCE,
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    at,
    et,
    node,
    sources,
)

GRAPH = ImportRequest(graph=True)


def seconds(imported: Imported, gbps: float = 100.0) -> float:
    assert imported.dag is not None
    return run(imported.dag, ideal_switch(imported.dag, gbps)).seconds


def test_a_collective_begins_when_the_last_rank_has_computed() -> None:
    def trace(micros: int) -> bytes:
        reduce = node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=12_500_000, is_cpu_op=False)
        return et(at(1, node(COMPUTE), micros=micros), at(2, reduce, 1), at(3, node(COMPUTE), 2, micros=500))

    imported = read(sources([trace(2000), trace(5000)]), GRAPH)
    # A ring of two sends all bytes each way once: 1 ms at 100 Gbit/s.
    assert seconds(imported) == pytest.approx(5e-3 + 1e-3 + 0.5e-3)
    assert read(sources([trace(2000), trace(5000)]), ImportRequest()).dag is None


def test_runs_of_a_collective_are_matched_in_their_order_and_computing_overlaps() -> None:
    def reduce() -> Any:
        return node(COLLECTIVE, comm_type=ALL_REDUCE, comm_size=12_500_000, is_cpu_op=False)

    rows = [
        at(1, node(COMPUTE), micros=1000),
        at(2, reduce(), 1),
        at(3, node(COMPUTE), 1, micros=4000),
        at(4, reduce(), 3),
    ]
    # The first run (1 ms) is over while the second layer is computed (4 ms).
    assert seconds(read(sources([et(*rows), et(*rows)]), GRAPH)) == pytest.approx(1e-3 + 4e-3 + 1e-3)


def test_sends_and_receives_wait_for_each_other() -> None:
    send = et(at(1, node(COMPUTE), micros=3000), at(2, node(SEND, comm_size=12_500_000, comm_dst=1, comm_tag=5), 1))
    take = et(at(1, node(RECEIVE, comm_size=12_500_000, comm_src=0, comm_tag=5)), at(2, node(COMPUTE), 1, micros=2000))
    imported = read(sources([send, take]), GRAPH)
    assert seconds(imported) == pytest.approx(3e-3 + 1e-3 + 2e-3)
    assert imported.warnings == ()
    lost = read(sources([send, et(at(1, node(COMPUTE), micros=1))]), GRAPH)
    assert "has no matching receive" in lost.warnings[0]


def test_a_job_that_was_written_keeps_its_phases() -> None:
    hosts = [f"h{i}" for i in range(4)]
    calls = [
        {"name": f"c{i}", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 50_000_000, "phase": i} for i in range(2)
    ]
    job = parse_job({"name": "j", "hosts": hosts, "collectives": calls})
    files = [content for name, content in chakra_files(job) if name.endswith(".et")]
    # 2 (4 - 1) / 4 of 50 MB on one link of 100 Gbit/s: 6 ms for each phase.
    assert seconds(read(sources(files), GRAPH)) == pytest.approx(12e-3)


def test_a_public_ring_takes_as_long_as_its_steps(shared_data: Path) -> None:
    files = [shared_data / f"astra-sim/custom_allreduce.{rank}.et" for rank in range(8)]
    imported = read(open_sources(files), GRAPH)
    assert imported.dag is not None
    total = int(imported.dag.bytes.sum())
    # Every rank sends and computes as much as every other, one thing at a time.
    computed = float(imported.dag.seconds.sum()) / 8
    assert seconds(imported, 8.0) == pytest.approx(total / 8 * 8e-9 / 8.0 + computed, rel=1e-6)
