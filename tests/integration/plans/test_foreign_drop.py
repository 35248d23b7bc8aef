"""A rule of another program drops a planned flow on real switches: whatever shows a speed or a state says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.model.files.clos import clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.enforcement.registry import rule_enforcements
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, started
from tests.rig.checks.traces import fresh, traced
from tests.rig.controller import Controller
from tests.rig.page.browser import Browser
from tests.rig.page.dashboard import flows
from tests.rig.programs import fairspine
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2)
COOKIE = "0x77"
ABOVE = 40_000  # all priorities of planned flows and of base rules, and below those of discovery


def told(controller: Controller) -> dict[str, Any]:
    """What every document says of job a, and of the slowest job."""
    health, jobs = controller.get("/v1/health"), controller.get("/v1/jobs")
    assert (health.status, jobs.status) == (200, 200)
    rows = {row["name"]: row for row in jobs.body["jobs"]}
    alone = controller.get("/v1/jobs/a")
    samples = {
        (sample.name, sample.labels.get("job", "")): sample.value
        for family in text_string_to_metric_families(controller.get("/metrics").body)
        for sample in family.samples
    }
    return {
        "slowest": (health.body["slowest_job"]["job"], health.body["slowest_job"]["speed"]),
        "listed": (rows["a"]["speed"], rows["a"]["active"]),
        "alone": alone.body["speed"],
        "metric": samples.get(("fairspine_job_speed_ratio", "a")),
        "slowest_metric": samples.get(("fairspine_slowest_job_speed_ratio", "")),
        "other": (rows["b"]["speed"], rows["b"]["active"]),
    }


STOPPED = {
    "slowest": ("a", 0.0),
    "listed": (0.0, False),
    "alone": 0.0,
    "metric": 0.0,
    "slowest_metric": 0.0,
    "other": (1.0, True),
}
WELL = {
    "slowest": ("a", 1.0),
    "listed": (1.0, True),
    "alone": 1.0,
    "metric": 1.0,
    "slowest_metric": 1.0,
    "other": (1.0, True),
}


def command(controller: Controller, *arguments: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{controller.http_port}"
    done = fairspine(*arguments, "--url", url, "--format", "json")
    return done.returncode, json.loads(done.stdout)


def page_says(page: Browser) -> tuple[str, str, str | None]:
    """The tile of the slowest job, and the speed and the mark of job a."""
    row = "#jobs tr[data-key=a] td:nth-child"
    mark = page.run(f"return document.querySelector('{row}(9)')?.dataset.state ?? null")
    return page.text("#tile-speed"), page.text(f"{row}(2)"), mark


def strange_rules(lab: Lab, flow: dict[str, Any], enforcement: str) -> dict[str, str]:
    """Rules of a stranger that drop a planned flow, by switch: of its packets at its leaf, and of all that come from
    that leaf at the spine."""
    ip = {host.name: host.ip for host in lab.fabric.hosts}
    leaf, spine = flow["planned"][1].split("->")
    cable = next(each for each in FABRIC.cables if (each.lower, each.upper) == (leaf, spine))
    behind = f"in_port={cable.upper_port}" + (
        ",mpls" if enforcement == "segment_routing" else f",udp,nw_src={ip['h1']}"
    )
    return {
        leaf: f"udp,nw_src={ip[flow['src']]},nw_dst={ip[flow['dst']]},tp_src={flow['udp_src']},tp_dst={ROCE_PORT}",
        spine: behind,
    }


def test_a_rule_of_a_stranger_that_drops_a_planned_flow_shows_everywhere_until_it_goes(
    bench: Bench, tmp_path: Path, page: Browser
) -> None:
    lab, controller = started(bench, FABRIC, tmp_path, "--readback-seconds", "0.5")
    assert controller.put("/v1/jobs/a", flows(("h1", "h3"))).status == 201
    # Between two other hosts, so that nothing of a stops it; its flow is the only one on the other spine.
    assert controller.put("/v1/jobs/b", flows(("h4", "h2"))).status == 201
    active(controller)
    page.size(1440, 1000)
    page.open(controller.http_port)
    page.until("#jobs tr[data-key=a]", "jobs are there")
    for enforcement in rule_enforcements():
        assert controller.put("/v1/mode", {"enforcement": enforcement}).status == 200
        active(controller)
        eventually(lambda: told(controller) == WELL, "all is well", shown=lambda: told(controller))
        body = fresh(controller, lambda body: not any(f["differs"] for f in body["flows"]), "flows are where planned")
        (flow,) = (flow for flow in body["flows"] if flow["job"] == "a")
        for switch, match in strange_rules(lab, flow, enforcement).items():
            lab.ofctl("add-flow", switch, f"cookie={COOKIE},priority={ABOVE},{match},actions=drop")
            eventually(lambda: told(controller) == STOPPED, f"{enforcement}: a stands", shown=lambda: told(controller))
            body = fresh(
                controller,
                lambda body, switch=switch: any(
                    f"{switch}: " in f["why"] and COOKIE in f["why"] for f in body["flows"]
                ),
                f"{enforcement}: the trace names the rule on {switch}",
            )
            (lost,) = (flow for flow in body["flows"] if flow["job"] == "a")
            assert (lost["real"], lost["differs"]) == (None, True)
            assert "matches it before the rules of fairspine" in lost["why"]
            reasons = controller.get("/v1/health").body["reasons"]
            assert [reason for reason in reasons if reason.startswith(f"{switch}: a rule not installed by fairspine")]
            code, status = command(controller, "status")
            assert (code, status["health"]["slowest_job"]["speed"]) == (1, 0.0)
            code, trace = command(controller, "trace", "--differs")
            assert (code, [flow["job"] for flow in trace["flows"]]) == (1, ["a"])
            page.until(
                lambda: page_says(page) == ("0.000", "0.000", "waiting"), f"the page shows it: {page_says(page)}"
            )
            page.until(lambda: COOKIE in page.text("#reasons"), "the page says why")
            # A new plan does not hide it: the stranger's rule is where it was.
            assert told(controller) == STOPPED
            lab.ofctl("del-flows", switch, f"cookie={COOKIE}/-1")
            eventually(lambda: told(controller) == WELL, f"{enforcement}: a sends", shown=lambda: told(controller))
            fresh(controller, lambda body: not any(f["why"] for f in body["flows"]), "the trace says so")
            page.until(lambda: page_says(page) == ("1.000", "1.000", "fine"), f"the page shows it: {page_says(page)}")
            assert command(controller, "status")[0] == 0
    assert traced(controller)["enforcement"] == rule_enforcements()[-1]
