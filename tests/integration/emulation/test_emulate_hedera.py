"""``fairspine emulate --policies hedera-...``: flows that nobody pushed are found and placed while they send."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.experiments.hedera.hedera_loop import JOB
from tests.rig.emulate import emulated, request

pytestmark = pytest.mark.switches


# How flows are placed and how switches are told are apart, so both placements are tried in one enforcement only.
@pytest.mark.parametrize(
    ("enforcement", "policies"),
    [("per_flow", ["ecmp", "hedera-first_fit", "hedera-annealing"]), ("segment_routing", ["ecmp", "hedera-first_fit"])],
    ids=["per_flow", "segment_routing"],
)
def test_large_flows_are_placed_apart_while_they_send(tmp_path: Path, enforcement: str, policies: list[str]) -> None:
    wanted = request(tmp_path, policies=tuple(policies), seconds=4.0, enforcement=enforcement)
    status, values = emulated(wanted)
    assert status == 0
    assert [run["policy"] for run in values["runs"]] == policies
    assert values["runs"][0]["placements"] == []
    for run in values["runs"][1:]:
        assert [(row["job"], row["checked"]) for row in run["collectives"]] == [("a", True), ("b", True)]
        # Switches were asked after each placement by which uplink packets of each flow leave.
        assert run["off_plan"] == []
        most = max(one["flows"] for one in run["placements"])
        assert 0 < most <= 4
        if most == 4:
            assert [link["flows"] for link in run["links"] if link["id"].startswith("leaf")] == [1, 1, 1, 1]
            assert run["min_speed"] == pytest.approx(1.0)
        carried = sum(link["bytes"] for link in run["links"] if link["id"].startswith("leaf"))
        assert carried >= sum(row["bytes"] for row in run["collectives"])
        # Nobody is faster than alone on the fabric; the simulated value is the prediction.
        for row in run["jobs"]:
            assert row["predicted"] > 0.9 * values["runs"][0]["jobs"][0]["predicted"] / 2
            assert min(row["iterations"]) > 0
    assert JOB in (wanted.folder / "logs" / "controller.log").read_text()
