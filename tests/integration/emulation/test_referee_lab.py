"""The lab as an engine of the referee: plans of a scenario on real switches, beside the fluid model."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.evaluation.scenario import parse_scenario
from emulation.experiments.command import serve
from emulation.experiments.lab_bouts import LabEngine, lab_standings
from emulation.experiments.request import load
from tests.rig.forks import forks

pytestmark = pytest.mark.switches

SCENARIO = {
    "name": "small",
    "fabric": {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 2}},
    "cases": [{"name": "pairs", "collective": {"algorithms": "ring", "bytes": 10**6, "groups": 2, "each_a_job": True}}],
    "policies": ["fair", "spray"],
    "epochs": 1,
}


def test_each_policy_is_measured_with_windows_in_place_of_paces_and_without(tmp_path: Path) -> None:
    lab = LabEngine(parse_scenario(SCENARIO, tmp_path), tmp_path / "lab", 1.0, pace_window=1.0)
    assert any("spray" in note for note in lab.notes)
    bouts = lab.bouts(lambda one: serve(load(one), "none", forks().popen))
    assert [bout.policy for bout in bouts] == ["fair", "fair+windows"]
    for bout in bouts:
        assert len(bout.jobs) == 2
        for times in bout.jobs:
            # Headers and the ramp of rates come on top; a machine without processor time takes longer, never less.
            assert times.measured > 0.9 * times.ideal
        assert bout.sent > 0
    rows = lab_standings("small", bouts, 0.15)
    assert [row.policy for row in rows] == ["fair, on the lab", "fair+windows, on the lab"]
