"""Drains and modes on real switches: what carries traffic, what does not, and that nothing is lost on the way."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.drains import enforced
from tests.rig.checks.jobs import active, check_paths, holds_base_rules_only, routes, started
from tests.rig.checks.restarts import JOB, came_back, check_rules, dumps, switches
from tests.rig.checks.rule_text import held
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches


def carried(lab: Lab, spine: str) -> int:
    """Bytes that a spine has received."""
    return sum(counters.rx_bytes for counters in lab.port_counters(spine).values())


def growth(lab: Lab, spine: str) -> int:
    """Return the bytes that a spine receives in some time."""
    before = carried(lab, spine)
    time.sleep(1.5)
    return carried(lab, spine) - before


def test_a_drained_spine_carries_nothing_any_more_and_no_packet_is_lost_on_either_way(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    active(controller)
    with lab.pinging(interval=0.005) as pings:
        for spine in ("spine1", "spine2"):
            assert controller.put(f"/v1/fabric/links/{spine}", {"drained": True}).body["still_used"] == []
            active(controller)
            # Discovery packets go on: tens of bytes a second; the pings are tens of thousands.
            eventually(lambda spine=spine: growth(lab, spine) < 5_000, f"{spine} carries nothing any more")  # type: ignore[misc]
            used = {link for flow in active(controller)["flows"] for path in flow["paths"] for link in path["links"]}
            assert not any(spine in link for link in used)
            assert controller.put(f"/v1/fabric/links/{spine}", {"drained": False}).status == 200
            active(controller)
        eventually(lambda: sum(pings.sent.values()) > 1000, "many pings were sent")
    assert pings.unanswered == []
    last = [controller.put(f"/v1/fabric/links/{spine}", {"drained": True}) for spine in ("spine1", "spine2")]
    assert set(last[1].body["still_used"]) == {"leaf1-spine2", "leaf2-spine2"}
    wait_for_pings(lab)


def test_ecmp_takes_the_plan_off_every_switch_and_planned_puts_it_back_without_a_loss(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    plan = active(controller)
    with lab.pinging(interval=0.005) as pings:
        assert controller.put("/v1/mode", {"mode": "ecmp"}).body["mode"] == "ecmp"
        active(controller)
        eventually(lambda: holds_base_rules_only(lab, fabric), "no rule of a plan is left")
        pieces = [p for body in routes(fabric, controller).values() for f in body["flows"] for p in f["pieces"]]
        assert pieces
        assert {piece["path"] for piece in pieces} == {None}
        assert not controller.get("/v1/jobs/one").body["active"]
        assert controller.put("/v1/mode", {"mode": "planned"}).status == 200
        again = active(controller)
    assert pings.unanswered == []
    assert [flow["paths"] for flow in again["flows"]] == [flow["paths"] for flow in plan["flows"]]
    check_paths(lab, fabric, controller)


def test_frozen_switches_keep_what_they_hold_through_changes_failures_and_a_restart(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    active(controller)
    assert controller.put("/v1/mode", {"mode": "frozen"}).status == 200
    frozen = controller.get("/v1/mode").body["epoch"]
    controller.wait_for("it is active", lambda: enforced(controller) == frozen)
    cookies = standing(lambda: dumps(lab, fabric))
    rules = {name: held(lab, name) for name in switches(fabric)}
    assert controller.put("/v1/jobs/two", {"flows": [{"src": "h1", "dst": "h3", "bytes": 5}]}).status == 201
    assert controller.put("/v1/fabric/links/spine1", {"drained": True}).status == 200
    lab.set_cable("leaf2-spine2", up=False)
    controller.wait_for("it is seen", lambda: controller.get("/healthz").body["status"] == "degraded")
    controller.kill()
    controller.start()
    controller.wait_for("it knows what is held", lambda: enforced(controller) == frozen)
    check_rules(lab, fabric, cookies)
    assert {job["name"] for job in controller.get("/v1/jobs").body["jobs"]} == {"one", "two"}
    assert controller.get("/v1/mode").body["mode"] == "frozen"
    assert controller.post(f"/v1/plans/{frozen}:rollback", {}).status == 409
    # A switch that comes back empty gets the frozen rules.
    lab.set_cable("leaf2-spine2", up=True)
    lab.kill_switch("leaf1")
    lab.start_switch("leaf1")
    eventually(lambda: held(lab, "leaf1") == rules["leaf1"], "it holds what was frozen")
    assert controller.put("/v1/mode", {"mode": "planned"}).status == 200
    came_back(controller)
    assert {flow["job"] for flow in active(controller)["flows"]} == {"one", "two"}


def test_a_rollback_puts_flows_back_where_they_were_and_history_says_so(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    before = active(controller)
    epoch = controller.get("/v1/plan").body["computed"]["epoch"]
    assert controller.put("/v1/fabric/links/spine1", {"drained": True}).status == 200
    active(controller)
    assert controller.put("/v1/fabric/links/spine1", {"drained": False}).status == 200
    active(controller)
    preview = controller.post("/v1/plans:preview", {"drain": ["spine2"]})
    assert (preview.status, preview.body["still_used"]) == (200, [])
    answer = controller.post(f"/v1/plans/{epoch}:rollback", {})
    assert (answer.status, answer.body["rollback_of"]) == (200, epoch)
    again = check_paths(lab, fabric, controller)
    assert [flow["paths"] for flow in again["flows"]] == [flow["paths"] for flow in before["flows"]]
    # A request is planned once more if the network's state changed while it was saved, as on a busy machine.
    causes = [cause for cause, _ in groupby(plan["cause"] for plan in controller.get("/v1/plans").body["plans"])]
    assert causes[:4] == [f"rollback to plan {epoch}", "spine1 undrained", "spine1 drained", "job one pushed"]
