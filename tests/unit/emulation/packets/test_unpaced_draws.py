"""Drawn cases by which the fluid model of hosts without paces is judged on packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.simulation.unpaced import NAMES, deviations_of, scenario_of, table_of_deviations
from emulation.evaluation.scenario import parse_scenario
from emulation.packets.referee import check


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_and_a_seed_are_one_case_that_packets_can_be_simulated_of(name: str) -> None:
    first, second = scenario_of(name, 101), scenario_of(name, 102)
    assert first == scenario_of(name, 101)
    assert first["cases"] != second["cases"]
    for document in (first, second):
        check(parse_scenario(document, Path()))


def test_a_case_is_run_and_has_a_deviation_for_each_policy_without_paces() -> None:
    made = deviations_of(("rings-of-7-dead-spine", 101))
    assert made == deviations_of(("rings-of-7-dead-spine", 101))
    assert [each.policy for each in made] == ["fair", "fair+split"]
    assert all(abs(each.deviation) < 0.1 for each in made)
    assert table_of_deviations(made).row_count == 2


def test_short_steps_of_rings_take_as_long_as_on_packets() -> None:
    # Latency delays only hosts that wait for it: with all of it added, these were off by -7 %.
    made = [deviations_of(("short-rings-2to1", seed))[0].deviation for seed in (101, 103)]
    assert abs(sum(made) / len(made)) < 0.05
