"""Drawn cases of the benchmark of plans on packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.simulation.packet_draws import CLASSES, drawn
from benchmarks.simulation.packets import results_of, seeds_of, table_of, write_scenarios
from emulation.evaluation.scenario import load_scenario, parse_scenario
from emulation.packets.input_file import PacketSpread
from emulation.packets.referee import check
from emulation.packets.settings import PacketSettings


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_a_seed_are_one_case_that_packets_can_be_simulated_of(name: str) -> None:
    first, second = drawn(name, 101), drawn(name, 102)
    assert first == drawn(name, 101)
    assert first["cases"] != second["cases"]
    for document in (first, second):
        check(parse_scenario(document, Path()))


def test_drawn_cases_can_be_written_as_scenarios(tmp_path: Path) -> None:
    write_scenarios(tmp_path, [("planes", 7)])
    read = load_scenario(tmp_path / "planes-7.yaml")
    assert [job.name for job in read.cases[0].jobs] == [
        job.name for job in parse_scenario(drawn("planes", 7), Path()).cases[0].jobs
    ]


def test_a_case_is_run_and_has_a_row_for_each_contender() -> None:
    made = results_of(("planes", 102), PacketSettings(), sprayings=[PacketSpread.ROUND_ROBIN])
    assert made == results_of(("planes", 102), PacketSettings(), sprayings=[PacketSpread.ROUND_ROBIN])
    assert [each.contender for each in made] == ["fair", "fair+paced", "spray round robin"]
    assert [each.over_spraying for each in made if each.sprays] == [1.0]
    # Plans with paces are as fast on packets as the fluid model says.
    assert abs(made[1].deviation) < 0.02
    assert table_of(made).row_count == 3


def test_seeds_are_ranges_and_numbers() -> None:
    assert seeds_of("3,101-103") == [3, 101, 102, 103]
