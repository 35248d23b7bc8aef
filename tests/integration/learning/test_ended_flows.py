"""On real switches, the rules of a flow that nobody sends any more go after the silence, and no other rule changes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from controller.learning.life import LEAST_SILENCE
from controller.model.files.clos import clos
from controller.southbound.rules.rule_set import RuleSet
from tests.rig.bench import Bench
from tests.rig.both_kinds import Bridges, Setup
from tests.rig.checks.fakes import settled
from tests.rig.checks.reports import PERIOD, Report, planned
from tests.rig.controller import Controller
from tests.rig.programs import fairspine
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = clos(leaves=3, spines=2, hosts_per_leaf=1)
KNOWN, LONGEST = 10, 90.0
"""Iterations before a QP ends, and the most seconds that are told of afterwards."""


def only(body: dict[str, Any], qps: set[int]) -> dict[str, Any]:
    """Return a report without the sightings of other QPs."""
    rows = [i for i, qp in enumerate(body["qp"]) if qp in qps]
    return body | {name: [body[name][i] for i in rows] for name in ("qp", "at", "bytes")}


def gone(before: RuleSet, now: RuleSet) -> list[dict[str, Any]]:
    """Return the matches of rules that switches hold no more; they must hold no others in their place."""
    found = []
    for dpid, had in before.switches.items():
        has = now[dpid]
        assert has.rules.items() <= had.rules.items()
        assert has.groups.items() <= had.groups.items()
        found += [dict(had.rules[key].match) for key in had.rules.keys() - has.rules.keys()]
    return found


def links(controller: Controller) -> set[tuple[Any, ...]]:
    """Return the path of each piece of each flow."""
    return {
        (host.name, flow["dst"], piece["udp_src"], *piece["links"])
        for host in FABRIC.hosts
        for flow in controller.get(f"/v1/routes?host={host.name}").body["flows"]
        for piece in flow["pieces"]
    }


def learned(controller: Controller) -> str:
    done = fairspine("learned", "--url", f"http://127.0.0.1:{controller.http_port}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_qp_that_ends_takes_its_rule_along_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    setup = Setup(bench, tmp_path)
    controller, address = setup.controller(FABRIC, "--learning", "act", "--learning-wait-seconds", "5")
    lab = setup.switches("open_vswitch", FABRIC, address)
    assert isinstance(lab, Bridges)
    lab.wait_connected()
    settled(controller)
    wait_for_pings(lab)
    pushed = {"flows": [{"src": "h1", "dst": "h2", "bytes": 10**9}, {"src": "h3", "dst": "h1", "bytes": 10**9}]}
    assert controller.put("/v1/jobs/pushed", pushed).status == 201
    end = time.time()
    report = Report([0, 1, 2], end - KNOWN * PERIOD, KNOWN + int(LONGEST / PERIOD), 0)
    assert controller.post("/v1/sightings", report.between(0, end)).status == 200

    def flows() -> int:
        return sum(job["planned_flows"] for job in controller.get("/v1/learned").body["jobs"])

    controller.wait_for("the ring is planned", lambda: flows() == 3)
    settled(controller)
    before, paths = lab.held(), links(controller)
    told = end

    def go_on() -> RuleSet:
        """The others go on; nothing is told of the QP from h1 to h2 any more."""
        nonlocal told
        now = time.time()
        body = only(report.between(told, now), {1, 2})
        told = now
        if body["at"]:
            assert controller.post("/v1/sightings", body).status == 200
        return lab.held()

    while time.time() < end + LEAST_SILENCE - 2:
        assert go_on() == before
        time.sleep(0.5)
    eventually(lambda: go_on() != before, "the rule has gone", timeout=LONGEST - LEAST_SILENCE - 5)
    controller.wait_for("the plan is active", controller.plan_is_active)
    now = lab.held()
    (rule,) = gone(before, now)
    assert (rule["ipv4_src"], rule["ipv4_dst"], rule["udp_src"]) == (FABRIC.hosts[0].ip, FABRIC.hosts[1].ip, 49152)
    assert planned(controller) == {("h1", "h2"), ("h3", "h1"), ("h2", "h3")}
    assert len(controller.get("/v1/plan").body["plan"]["flows"]) == 4
    assert links(controller) == paths - {path for path in paths if path[:3] == ("h1", "h2", 49152)}
    (job,) = controller.get("/v1/learned").body["jobs"]
    assert (job["flows"], job["planned"], job["planned_flows"]) == (2, True, 2)
    assert " yes " in learned(controller)
    newest = controller.get("/v1/plans").body["plans"][0]
    assert (newest["moved"], "1 flow ended" in newest["cause"]) == (0, True), json.dumps(newest)
    setup.close()
