"""Report of an experiment: standings, failures, table, numbers, picture."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emulation.experiments import picture, table
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.results import document
from tests.unit.emulation.experiments.made import outcome_of, ring, scenario_of

JOBS = [ring("gpt", ["h1", "h4", "h2", "h5"]), ring("llama", ["h3", "h6"])]
CLOS = "{spines: 3, leaves: 2, hosts_per_leaf: 3}"
TIMES = {"ecmp": {"gpt": 10.0, "llama": 9.0}, "greedy": {"gpt": 5.0, "llama": 9.5}}


@pytest.fixture
def scenario(tmp_path: Path) -> EmulatedScenario:
    return scenario_of(tmp_path, CLOS, JOBS, policies=("ecmp", "greedy"), seeds=(1, 2))


def test_a_row_a_job_and_policy_with_the_gain_against_the_mean_of_the_first_policys_draws(
    scenario: EmulatedScenario,
) -> None:
    rows = outcome_of(scenario, TIMES).standings()
    assert [(row.job, row.policy) for row in rows] == [
        ("gpt", "ecmp"),
        ("gpt", "greedy"),
        ("llama", "ecmp"),
        ("llama", "greedy"),
    ]
    assert rows[0].seconds == pytest.approx((10.0, 10.01))
    assert [row.speed_up for row in rows] == pytest.approx([1.0, 10.005 / 5.02, 1.0, 9.005 / 9.52])
    for row in rows:
        assert row.bound == pytest.approx(1.0)
        assert all(0 < speed <= 1 + 1e-9 for speed in row.min_speed)
    assert rows[1].busiest == (1,)
    assert max(rows[0].busiest) >= 1


def test_only_what_is_wrong_is_a_failure(scenario: EmulatedScenario, tmp_path: Path) -> None:
    assert outcome_of(scenario, TIMES).failures() == []
    wrong = outcome_of(scenario, TIMES, wrong=("rank 0: element 7",))
    assert len(wrong.failures()) == 2 * len(wrong.runs)
    assert "gpt/dp0: wrong result: rank 0: element 7" in wrong.failures()[0]
    strict = scenario_of(tmp_path, CLOS, JOBS, policies=("ecmp", "greedy"), seeds=(1, 2), expect_faster=True)
    (line,) = outcome_of(strict, TIMES).failures()
    assert line.startswith("llama was not faster under greedy than under ecmp")
    slower = {policy: {job: 100 * value for job, value in times.items()} for policy, times in TIMES.items()}
    assert len(outcome_of(scenario, slower).notes()) == 1


def test_the_numbers_are_json_and_hold_every_flow_and_link_of_every_run(scenario: EmulatedScenario) -> None:
    values = json.loads(json.dumps(document(outcome_of(scenario, TIMES))))
    assert [row["policy"] for row in values["runs"]] == ["ecmp", "ecmp", "greedy"]
    assert values["scale"]["rate"] == pytest.approx(0.15e-3)
    for row in values["runs"]:
        ids = sorted(flow for unit in row["flows"] for flow in unit["ids"])
        assert ids == [*(f"gpt/dp0/{i}" for i in range(4)), "llama/dp0/0", "llama/dp0/1"]
        assert len(row["links"]) == 12
        assert sum(link["flows"] for link in row["links"]) == 2 * len(ids)
        for link in row["links"]:
            assert link["busy_seconds"] == pytest.approx(link["bytes"] * 8 / 15e6)


def test_the_table_fits_and_says_mean_and_spread(
    scenario: EmulatedScenario, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = outcome_of(scenario, TIMES)
    table.print_outcome(outcome)
    said = capsys.readouterr().out
    assert "10.01 s (10.00 to 10.01)" in said or "10.00 s (10.00 to 10.01)" in said
    assert "6 of 6 collectives correct" in said
    assert "mismatches: 0" in said
    assert table.cells(outcome.standings()[1], repeat_job=False)[0] == ""
    assert Console(width=200).measure(said).maximum <= 160


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize(
    ("clos", "policies"),
    [
        (CLOS, ("ecmp", "greedy")),
        (CLOS, ("greedy",)),
        ("{spines: 2, leaves: 3, hosts_per_leaf: 2, parallel: 2}", ("ecmp", "random", "greedy")),
        ("{spines: 12, leaves: 2, hosts_per_leaf: 3}", ("ecmp", "greedy")),
    ],
)
def test_the_picture_is_of_the_same_size_whatever_the_fabric(
    tmp_path: Path, clos: str, policies: tuple[str, ...]
) -> None:
    scenario = scenario_of(tmp_path, clos, JOBS, policies=policies, seeds=(1, 2))
    times: dict[str, Any] = {**TIMES, "random": TIMES["ecmp"]}
    path = tmp_path / "picture.png"
    picture.draw(outcome_of(scenario, times), path)
    assert png_size(path) == (int(picture.WIDTH * picture.DPI), int(picture.HEIGHT * picture.DPI))
    assert 10_000 < path.stat().st_size < 200_000
