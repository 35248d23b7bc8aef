"""A real controller that nobody pushes jobs to plans them all the same, as well as if they had been pushed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.southbound.forwarding.base import compile_base
from tests.documented import ROOT
from tests.rig.both_kinds import Setup
from tests.rig.checks.fakes import settled, started
from tests.rig.checks.sightings import sightings
from tests.rig.controller import Controller

EXAMPLES = ROOT / "examples"


def plan(controller: Controller) -> dict[str, Any]:
    body: dict[str, Any] = controller.get("/v1/plan").body["plan"]
    return body


def test_learned_jobs_are_planned_as_well_as_pushed_ones_and_only_on_request(setup: Setup) -> None:
    fabric = clos(4, 4, 4)
    fakes, controller = started(setup, fabric)
    documents = {name: json.loads((EXAMPLES / f"{name}.json").read_text()) for name in ("gpt3-a", "llama-b")}
    for name, document in documents.items():
        assert controller.put(f"/v1/jobs/{name}", document).status == 201
    settled(controller)
    pushed = plan(controller)
    for name in documents:
        assert controller.delete(f"/v1/jobs/{name}").status == 204
    settled(controller)
    assert fakes.held() == compile_base(fabric)
    by_job = {name: [flow for flow in pushed["flows"] if flow["job"] == name] for name in documents}
    for flows in by_job.values():
        assert controller.post("/v1/sightings", sightings(flows, time.time())).status == 200
    controller.wait_for("both are learned", lambda: len(controller.get("/v1/learned").body["jobs"]) == 2)
    controller.wait_for(
        "it is known what they gain",
        lambda: all(job["planned_speed"] for job in controller.get("/v1/learned").body["jobs"]),
    )
    for job in controller.get("/v1/learned").body["jobs"]:
        assert not job["planned"]
        assert job["hashed_speed"] < job["planned_speed"]
    assert fakes.held() == compile_base(fabric)

    assert controller.put("/v1/learning", {"learning": "act"}).body["learning"] == "act"
    # What was seen before is seen again, as long as the jobs run.
    for flows in by_job.values():
        assert controller.post("/v1/sightings", sightings(flows, time.time())).status == 200
    controller.wait_for(
        "both are planned", lambda: all(job["planned"] for job in controller.get("/v1/learned").body["jobs"])
    )
    settled(controller)
    found = plan(controller)
    assert found["min_speed"] == pytest.approx(pushed["min_speed"], rel=0.03)
    edges = {(flow["src"], flow["dst"], flow["udp_src"]) for flow in pushed["flows"]}
    assert {(flow["src"], flow["dst"], flow["udp_src"]) for flow in found["flows"]} == edges
    assert fakes.held() != compile_base(fabric)
    assert controller.get("/v1/jobs").body["jobs"] == []

    assert controller.put("/v1/learning", {"learning": "off"}).status == 200
    settled(controller)
    assert fakes.held() == compile_base(fabric)
    assert controller.get("/v1/learned").body["jobs"] == []
    assert controller.post("/v1/sightings", sightings(flows, time.time())).status == 409
