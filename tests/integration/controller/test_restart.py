"""Controllers that are killed and started again on real switches: what was pushed is there, and no rule is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.model.files.clos import clos
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, started
from tests.rig.checks.restarts import JOB, came_back, check_rules, dumps, packets, switches
from tests.rig.checks.rule_text import held
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches


def test_a_killed_controller_comes_back_with_its_jobs_drains_and_plan_and_writes_no_rule(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(3, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    assert controller.put("/v1/jobs/two", {"flows": [{"src": "h1", "dst": "h4", "bytes": 10**6}]}).status == 201
    drained = controller.put("/v1/fabric/links/spine3", {"drained": True})
    assert (drained.status, drained.body["still_used"]) == (200, [])
    plan = active(controller)
    # One cable stays down over the restart.
    lab.set_cable("leaf1-spine1", up=False)
    controller.wait_for("it is seen", lambda: controller.get("/healthz").body["status"] == "degraded")
    plan = active(controller)
    epoch = controller.get("/v1/plan").body["computed"]["epoch"]
    jobs, rules, counted = controller.get("/v1/jobs").body, standing(lambda: dumps(lab, fabric)), packets(lab, fabric)
    with lab.pinging() as pings:
        controller.kill()
        eventually(lambda: min(pings.sent.values(), default=0) > 10, "hosts ping each other without a controller")
        controller.start()
        came_back(controller)
        sent = min(pings.sent.values())
        eventually(lambda: min(pings.sent.values()) > sent + 10, "and with the next one")
    assert pings.unanswered == []
    check_rules(lab, fabric, rules)
    # A rule that is written again counts from zero.
    eventually(
        lambda: all(packets(lab, fabric)[name] > counted[name] for name in switches(fabric)),
        "every switch has counted more",
    )
    body = controller.get("/v1/plan").body
    assert body["computed"]["epoch"] == epoch
    assert {flow["id"]: flow["paths"] for flow in body["plan"]["flows"]} == {
        flow["id"]: flow["paths"] for flow in plan["flows"]
    }
    assert controller.get("/v1/jobs").body == jobs
    assert controller.get("/v1/fabric/links/spine3").body["drained"]
    assert "changes for epoch" not in controller.log.read_text().split("HTTP listens")[-1]
    lab.set_cable("leaf1-spine1", up=True)
    controller.wait_for("it is back", controller.is_well)
    assert controller.delete("/v1/jobs/one").status == 204


def test_discovery_alone_comes_back_with_its_job_on_the_same_paths(bench: Bench) -> None:
    fabric = clos(2, 2, 2)
    lab = bench.lab(fabric)
    controller = bench.controller("controller.app")
    lab.wait_connected()
    wait_for_pings(lab)
    ip = {host.name: host.ip for host in fabric.hosts}
    flows = [{"src": ip[a], "dst": ip[b], "bytes": 10**6} for a, b in (("h1", "h3"), ("h4", "h2"), ("h1", "h4"))]
    assert controller.put("/v1/jobs/one", {"flows": flows}).status == 201
    plan = active(controller)
    rules = standing(lambda: {name: held(lab, name) for name in switches(fabric)})
    controller.kill()
    controller.start()
    controller.wait_for(
        "it is planned again", lambda: controller.plan_is_active() and flows_of(controller) == len(flows)
    )
    eventually(lambda: {name: held(lab, name) for name in switches(fabric)} == rules, "the same rules")
    again = active(controller)
    assert {flow["id"]: flow["paths"] for flow in again["flows"]} == {
        flow["id"]: flow["paths"] for flow in plan["flows"]
    }


def flows_of(controller: Controller) -> int:
    answer = controller.get("/v1/plan")
    return len(answer.body["plan"]["flows"]) if answer.status == 200 else 0
