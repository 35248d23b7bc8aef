"""``fairspine emulate`` on Linux routers: ECMP of the kernels, and plans that agents of hosts follow."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from tests.rig.checks.counted_links import assert_links_carried_their_flows
from tests.rig.emulate import emulated, request
from tests.rig.routers.answering_routers import addressed

pytestmark = pytest.mark.switches


def test_every_flow_is_counted_on_its_path_under_ecmp_of_kernels_and_under_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies, seeds = ("ecmp", "fair"), (1, 2)
    wanted = request(tmp_path, routers=True, policies=policies, seeds=seeds, seconds=1.0, qps=2, name="small")
    status, values = emulated(wanted)
    said = capsys.readouterr().err
    assert status == 0, said
    assert "4 hosts on Linux routers ..." in said
    assert (tmp_path / "out" / "small.png").read_bytes().startswith(b"\x89PNG")
    assert values["failures"] == []
    assert [(run["policy"], run["seed"]) for run in values["runs"]] == [("ecmp", 1), ("ecmp", 2), ("fair", 1)]
    for run in values["runs"]:
        assert run["off_plan"] == []
        assert [(row["job"], row["checked"]) for row in run["collectives"]] == [("a", True), ("b", True)]
        # Two QPs of each of four connections.
        assert len(run["flows"]) == 8
        assert_links_carried_their_flows(run, 1 / 4)
        for row in run["jobs"]:
            # No packet is faster than its link; the buffers of the shapers let a few through at once.
            assert min(row["iterations"]) >= 0.9
    ports = [{flow["udp_src"] for flow in run["flows"]} for run in values["runs"]]
    assert ports[0] == ports[1] == ports[2]
    planned = values["runs"][-1]
    assert [link["flows"] for link in planned["links"]] == [2] * 8
    assert planned["min_speed"] == pytest.approx(1.0)
    # Packets of plans are in carriers.
    hashed, carried_one = (run["flows"][0] for run in (values["runs"][0], planned))
    assert carried_one["bytes"] - hashed["bytes"] == 40 * carried_one["packets"]


def test_flows_from_ports_that_agents_have_probed_are_counted_on_their_paths_in_both_planes(tmp_path: Path) -> None:
    wanted = request(tmp_path, routers=True, policies=("fair",), seconds=1.0, name="small", enforcement="probed_port")
    wanted.fabric.write_text(yaml.safe_dump(fabric_document(addressed(clos(2, 2, 2, planes=2)))))
    status, values = emulated(wanted)
    assert status == 0
    (run,) = values["runs"]
    assert run["off_plan"] == []
    assert all(row["checked"] for row in run["collectives"])
    assert len(run["flows"]) == 8
    assert_links_carried_their_flows(run, 1 / 4)
    assert [link["flows"] for link in run["links"]] == [1] * 16
