"""Planned QPs against hashed ones and spraying, in cells of a small scenario."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.plans.qps_cells import failures_of, groups_of, live_uplinks, planned_row, with_qps
from emulation.evaluation.cell import run_cell
from tests.unit.emulation.evaluation.small import document

UPLINKS = 4


def ring(name: str, hosts: range, seconds: float) -> dict[str, object]:
    """A job of one ring over hosts that are under different leaves, which computes before it sends."""
    names = [f"h{i % 4 * 4 + i // 4 + 1}" for i in hosts]
    calls = [{"name": "dp", "op": "all_reduce", "ranks": list(range(len(names))), "bytes": 10**8}]
    return {"job": {"name": name, "hosts": names, "collectives": calls}, "compute_seconds": seconds, "epochs": 6}


def test_in_no_cell_planned_qps_are_slower_than_hashed_ones_and_as_many_as_uplinks_are_sprayed(tmp_path: Path) -> None:
    rings = [ring("a", range(6), 0.01), ring("b", range(6, 11), 0.02), ring("c", range(11, 16), 0.015)]
    cases = [*document()["cases"], {"jobs": rings}]
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(document(cases=cases, failed_spines=[0, 1, 2], epochs=3)))
    cells = with_qps(path, [1, 4, 6], seeds=2, epochs=None).cells()
    groups = groups_of(cells, [run_cell(cell)[0] for cell in cells])
    uplinks = {(cell.scenario, cell.case.qps.count, cell.failure.name): live_uplinks(cell) for cell in cells}
    assert {(failure, uplinks[group]) for group in groups for failure in [group[2]]} == {
        ("none", UPLINKS),
        ("1 spine", UPLINKS - 1),
        ("2 spines", UPLINKS - 2),
    }
    assert [each for group, cases in groups.items() for each in failures_of(group, cases, uplinks[group])] == []
    by_plans = groups_of(cells, [planned_row(cell) for cell in cells])
    assert [each for group, cases in by_plans.items() for each in failures_of(group, cases, uplinks[group])] == []
    assert all(len(cases) == 2 for cases in groups.values())
    assert any(of["e_ecmp"] > of["fair"] * 1.1 for cases in groups.values() for of in cases.values())


def test_a_cell_in_which_planning_is_slower_is_named() -> None:
    of = {"ecmp": 1.2, "e_ecmp": 1.0, "fair": 1.1, "spray": 1.0}
    group = ("small", 4, "1 spine")
    assert failures_of(group, {"rings": of}, 3) == ["small, 4 QPs, rings, failed: 1 spine: fair 1.1000, e_ecmp 1.0000"]
    assert "small, 4 QPs, failed: 1 spine: 10.0% slower than spraying" in failures_of(group, {"rings": of}, 2)
    assert failures_of(group, {"rings": of | {"e_ecmp": 1.1, "spray": 1.1}}, 2) == []
