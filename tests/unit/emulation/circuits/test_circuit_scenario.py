"""Scenarios on optical fabrics: their grids, their rows, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.model.errors import InputError
from emulation.circuits.scenario import FAT_TREE, IDEAL, is_on_circuits, load_circuit_scenario, with_dead_nics
from emulation.evaluation.report import write_report
from emulation.evaluation.standings import standings_of
from tests.unit.laws import examples

CALLS = [
    {"name": "dp", "op": "all_reduce", "ranks": list(range(6)), "bytes": 6000},
    {"name": "mp", "op": "all_to_all", "ranks": list(range(6)), "bytes": 6000},
]
JOB = {"name": "a", "hosts": [f"h{i + 1}" for i in range(6)], "collectives": CALLS}
OPTICAL = {"optical": {"servers": 6, "nics": 3}}


def scenario_file(tmp_path: Path, **fields: Any) -> Path:
    """A scenario of one case."""
    file = tmp_path / "circuits.json"
    case = {"name": "one", "jobs": JOB}
    file.write_text(json.dumps({"fabric": OPTICAL, "cases": [case], "effort": 0.02, **fields}))
    return file


def test_circuits_are_between_the_ideal_switch_and_what_fewer_nics_allow(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, policies=["totient", "search", "search+split"], failed_nics=[0, 1], seeds=[0, 1])
    scenario = load_circuit_scenario(file)
    assert scenario.notes == ("totient needs all NICs, and is left out where some are dead",)
    rows = [cell.row() for cell in scenario.cells]
    assert {row["failure"] for row in rows if row["policy"] == "totient"} == {"none"}
    means = {(each.policy, each.failure): each.ratio or 0.0 for each in standings_of(rows)}
    assert is_on_circuits(file)
    assert means[IDEAL, "none"] == 1
    assert means[FAT_TREE, "none"] == pytest.approx(3.2)
    # A server with two of its three NICs sends its bytes in three halves of the time.
    assert means[IDEAL, "1 NIC"] == pytest.approx(1.5)
    for policy in ("search", "search+split"):
        assert 1 <= means[policy, "none"] < means[policy, "1 NIC"]
        assert means[policy, "1 NIC"] >= means[IDEAL, "1 NIC"] * (1 - 1e-6)
    assert {row["seed"] for row in rows if row["policy"] == "search"} == {0, 1}
    page = write_report(tmp_path / "report", rows)
    assert "search+split" in page.read_text()


def test_the_example_is_such_a_scenario() -> None:
    file = Path(__file__).parents[4] / "examples" / "optical" / "circuits.yaml"
    assert is_on_circuits(file)
    assert load_circuit_scenario(file).cells


@settings(deadline=None, max_examples=examples(15, 90))
@given(count=st.integers(0, 12), seed=st.integers(0, 1000))
def test_dead_nics_are_as_many_as_asked_for_and_leave_each_server_one(count: int, seed: int) -> None:
    fabric = with_dead_nics(parse_optical_fabric(OPTICAL), count, seed)
    assert fabric.dead.sum() == count
    assert (fabric.dead.sum(axis=1) < fabric.nics).all()
    np.testing.assert_array_equal(fabric.dead, with_dead_nics(parse_optical_fabric(OPTICAL), count, seed).dead)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"policies": ["fair"]}, "policies[0]: 'fair': on circuits there are search"),
        ({"failed_nics": [13]}, "failed_nics[0]: 13: each of 6 servers keeps one of 3 NICs"),
        ({"cases": []}, "cases: "),
        ({"failed_links": 2}, "failed_links: 2: unknown key"),
        ({"cases": [{"name": "x", "jobs": JOB}, {"name": "x", "jobs": JOB}]}, "cases[1].name: 'x': a case before"),
        ({"cases": [{"name": "x", "jobs": "no.json"}]}, "no.json: cannot be read"),
        (
            {"cases": [{"name": "x", "jobs": {**JOB, "hosts": [f"x{i}" for i in range(6)]}}]},
            "hosts[0]: 'x0': no server",
        ),
    ],
)
def test_scenarios_that_cannot_be_simulated_are_refused_in_one_line(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError) as refused:
        load_circuit_scenario(scenario_file(tmp_path, **fields))
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
