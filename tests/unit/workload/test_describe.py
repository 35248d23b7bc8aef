"""Descriptions of jobs, compared with the jobs' flows."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given

from controller.model.files.clos import clos
from controller.workload.describe import describe
from controller.workload.expand import expand
from controller.workload.job_file import parse_job
from controller.workload.placement.placement import crossing_of, moved, place
from controller.workload.strategy.strategy_form import read_strategy
from tests.unit.workload.documents import PAIRED, jobs

DOCUMENT = {
    "name": "m",
    "model": "mixtral-8x7b",
    "parallelism": {"tp": 2, "pp": 2, "dp": 4, "ep": 4},
    "micro_batches": 2,
}
FABRIC = clos(2, 4, 4, nics_per_server=2)


@given(document=jobs())
def test_kinds_and_phases_add_up_to_what_is_on_the_network(document: dict[str, Any]) -> None:
    job = parse_job(document)
    said = describe(job, None, PAIRED)
    traffic = expand(PAIRED, job)
    crossing = crossing_of(PAIRED, job)
    assert said.total.flows == traffic.n_flows
    assert (said.total.network_bytes, said.total.cross_leaf_bytes) == crossing[:2]
    for parts in (said.kinds, said.phases):
        assert sum(part.collectives for part in parts) == len(traffic.collectives)
        assert sum(part.load.flows for part in parts) == traffic.n_flows
        assert sum(part.load.network_bytes or 0 for part in parts) == crossing.network
        assert sum(part.load.cross_leaf_bytes or 0 for part in parts) == crossing.cross_leaf
    share = said.total.cross_leaf_share
    assert share is None if not crossing.network else share == crossing.cross_leaf / crossing.network


@given(document=jobs())
def test_without_a_fabric_it_says_what_it_can(document: dict[str, Any]) -> None:
    job = parse_job(document)
    said = describe(job)
    assert said.leaves is None
    assert said.total.network_bytes is None
    assert said.total.flows >= expand(PAIRED, job).n_flows
    assert {kind.name for kind in said.kinds} == {
        re.sub(r"\d+", "*", row.name) for row in expand(PAIRED, job).collectives
    }


def test_the_groups_of_a_strategy_are_described_by_dimension_and_location() -> None:
    job = parse_job(DOCUMENT)
    placed = moved(job, place(FABRIC, job, "packed"))
    said = describe(placed, read_strategy(DOCUMENT, 16), FABRIC)
    assert said.strategy == (
        "mixtral-8x7b, tp 2 x cp 1 x dp 4 x pp 2, experts: etp 2 x ep 4 x edp 1 x pp 2, 2 micro-batches of 1"
    )
    groups = {row.dimension: row for row in said.groups}
    assert {name: (row.groups, row.size) for name, row in groups.items()} == {
        "tp": (8, 2),
        "cp": (16, 1),
        "dp": (4, 4),
        "pp": (8, 2),
        "ep": (4, 4),
        "etp": (8, 2),
        "edp": (16, 1),
    }
    assert groups["ep"].first == (0, 2, 4, 6)
    # Tensor-parallel pairs share a server, so nothing of theirs is on the network.
    assert groups["tp"].on_one_server == 8
    kinds = {kind.name: kind for kind in said.kinds}
    assert kinds["tp*.gather"].load.flows == 0
    assert kinds["ep*.dispatch"].collectives == 4
    assert [(phase.phase, phase.name) for phase in said.phases][:2] == [(0, "tensor gather"), (1, "tensor scatter")]
    assert said.leaves == 4


def test_groups_of_a_job_without_a_strategy_are_counted_once_each() -> None:
    rows = [
        {"name": f"c{i}", "op": "all_reduce", "ranks": ranks, "bytes": 10 + i, "phase": i}
        for i, ranks in enumerate([[0, 1], [0, 1], [2, 3], [0, 1, 2]])
    ]
    said = describe(parse_job({"name": "a", "hosts": ["h1", "h2", "h3", "h4"], "collectives": rows}))
    assert [(row.dimension, row.groups, row.first) for row in said.groups] == [
        ("all_reduce, 2", 2, (0, 1)),
        ("all_reduce, 3", 1, (0, 1, 2)),
    ]
    assert [(kind.name, kind.phase, kind.bytes, kind.largest) for kind in said.kinds] == [
        ("c*", phase, 10 + phase, 10 + phase) for phase in range(4)
    ]
