"""A real controller that plans a learned job writes nothing while that goes on unchanged, and follows a new order."""

from __future__ import annotations

import time
from datetime import datetime

from controller.model.files.clos import clos
from controller.southbound.forwarding.base import compile_base
from tests.rig.both_kinds import Setup
from tests.rig.checks.fakes import sent, settled, started
from tests.rig.checks.reports import ANOTHER, FIRST, PERIOD, UNCHANGED, Report, planned
from tests.rig.controller import Controller

AT_ONCE = 10
"""Iterations that are reported together."""


def tell(controller: Controller, report: Report, begin: float, end: float) -> None:
    """Report what was sent in some time, and wait until the controller has looked at it."""
    body = report.between(begin, end)
    assert controller.post("/v1/sightings", body).status == 200

    def looked() -> bool:
        seen = [datetime.fromisoformat(job["seen"]).timestamp() for job in controller.get("/v1/learned").body["jobs"]]
        return any(abs(at - max(body["at"])) < PERIOD for at in seen)

    controller.wait_for("it has looked", looked)


def named(report: Report) -> set[tuple[str, str]]:
    return {(f"h{a + 1}", f"h{b + 1}") for a, b in report.pairs}


def test_a_hundred_varying_iterations_send_no_flow_mod_and_another_order_is_planned_after_four(setup: Setup) -> None:
    fabric = clos(4, 4, 4)
    fakes, controller = started(setup, fabric, "--learning", "act", "--learning-wait-seconds", "0")
    # All of it is reported ahead of its time, as by a host whose clock is up to a minute fast. A job is forgotten 30 s
    # after its last sighting, so a busy machine has a minute and a half.
    begin = time.time()
    report = Report(list(range(16)), begin, FIRST + UNCHANGED, 0)
    until = begin + FIRST * PERIOD
    tell(controller, report, begin, until)
    controller.wait_for("it is planned", lambda: planned(controller) == named(report))
    settled(controller)
    held, epoch = fakes.held(), controller.get("/v1/plan").body["computed"]["epoch"]
    assert held != compile_base(fabric)
    fakes.forget_messages()
    while until < report.end:
        since, until = until, until + AT_ONCE * PERIOD
        tell(controller, report, since, until)
    (job,) = controller.get("/v1/learned").body["jobs"]
    assert job["planned"]
    assert sent(fakes) == 0
    assert fakes.held() == held
    assert controller.get("/v1/plan").body["computed"]["epoch"] == epoch

    other = Report([*range(0, 16, 2), *range(1, 16, 2)], report.end, ANOTHER, 100)
    tell(controller, other, report.end, other.end + PERIOD)
    # The rules of flows that have ended may stay for half a minute.
    controller.wait_for("the new order is planned", lambda: planned(controller) >= named(other))
    (job,) = controller.get("/v1/learned").body["jobs"]
    flows = controller.get(f"/v1/learned/{job['name']}").body["job"]["flows"]
    assert {(flow["src"], flow["dst"]) for flow in flows} == named(other)
    settled(controller)
    assert sent(fakes) > 0
