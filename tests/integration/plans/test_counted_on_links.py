"""Dual-ToR, planes of three layers, and pods with parallel cables, on real switches in every enforcement."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import load_fabric
from controller.model.files.pod_clos import pod_clos
from controller.southbound.enforcement.registry import rule_enforcements
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, routes, started_with_ring
from tests.rig.hosts.streams import check_counted, enforce
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

DUAL_TOR = load_fabric(ROOT / "examples" / "dual-tor.yaml")
PLANES_OF_PODS = pod_clos(2, 1, 1, 2, 2, planes=2)
PARALLEL = pod_clos(2, 2, 1, 2, 2, parallel=2)


@pytest.mark.parametrize("fabric", [DUAL_TOR, PLANES_OF_PODS, PARALLEL], ids=["dual-tor", "planes-of-pods", "parallel"])
def test_every_planned_flow_is_counted_on_its_links_and_on_no_other(
    bench: Bench, fabric: Fabric, tmp_path: Path
) -> None:
    lab, controller = started_with_ring(bench, fabric, tmp_path)
    for enforcement in rule_enforcements():
        enforce(controller, enforcement)
        told = routes(fabric, controller)
        assert sum(len(flow["pieces"]) for body in told.values() for flow in body["flows"]) == fabric.n_hosts
        check_counted(lab, fabric, controller, enforcement)


def test_a_stripe_whose_tor_has_lost_its_uplinks_keeps_its_other_port(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started_with_ring(bench, DUAL_TOR, tmp_path)

    def ports(nic: str) -> Counter[tuple[str, str]]:
        flows: list[Any] = active(controller)["flows"]
        assert active(controller)["unroutable"] == []
        return Counter((flow["src"], flow["dst"]) for flow in flows if flow["dst"].startswith(f"{nic}."))

    own = ports("h1")
    ((sender, _), _) = own
    source = sender.partition(".")[0]
    assert own == {(f"{source}.p1", "h1.p1"): 1, (f"{source}.p2", "h1.p2"): 1}
    for spine in ("spine1", "spine2"):
        lab.set_cable(f"leaf1-{spine}", up=False)
    eventually(
        lambda: ports("h1") == {(f"{source}.p1", "h1.p2"): 1, (f"{source}.p2", "h1.p2"): 1},
        "both ports of the sender send to the port that is left",
        shown=lambda: ports("h1"),
    )
    for spine in ("spine1", "spine2"):
        lab.set_cable(f"leaf1-{spine}", up=True)
    eventually(lambda: ports("h1") == own, "each stripe is on its own ports", shown=lambda: ports("h1"))
    wait_for_pings(lab)
