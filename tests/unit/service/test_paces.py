"""The running controller computes paces anew when jobs come, end or move, and when links fail."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from controller.core.ports.api import UNCONDITIONAL, Document
from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.routing.pacing.paces import wire_paces
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(2, 2, 3)
MTU = 1024


def put(there: World, name: str, src: str, dst: str, **times: Any) -> None:
    there.service.put_job(name, json.dumps({"flows": [flow(src, dst, 10**9)], **times}).encode(), UNCONDITIONAL, ANN)


def parsed(document: Document) -> dict[str, Any]:
    assert isinstance(document, bytes)
    read: dict[str, Any] = json.loads(document)
    return read


def paces(there: World) -> dict[str, float | None]:
    """The wire rate of each flow, by job, as hosts, jobs and the plan have it."""
    state = there.service.state
    if state.paces is not None:
        assert state.encoding is not None
        assert state.candidate is not None
        paths = Assignment(state.encoding.flow, state.encoding.path, state.encoding.share)
        anew = wire_paces(state.candidate.planned_on, state.traffic, paths)
        np.testing.assert_allclose(state.paces.wire_gbps, anew)
    by_job: dict[str, tuple[float | None, float | None]] = {}
    for host in FABRIC.host_names:
        for row in parsed(there.service.routes(host))["flows"]:
            (piece,) = row["pieces"]
            if piece["wire_gbps"] is not None:
                assert piece["wire_gbps"] == pytest.approx(piece["pace_gbps"] * (MTU + 82) / MTU)
            by_job[row["id"].split("/")[0]] = (piece["pace_gbps"], piece["wire_gbps"])
    plan = there.read(lambda service: service.plan())["plan"]
    if state.desired.mode == "planned":
        assert plan["mtu"] == MTU
        for row in plan["flows"]:
            (path,) = row["paths"]
            assert (path["pace_gbps"], path["wire_gbps"]) == by_job[row["job"]]
            (same,) = parsed(there.service.job(row["job"]).document)["flows"]
            assert same["paths"] == row["paths"]
    else:
        assert plan["mtu"] is None
    return {job: wire for job, (_, wire) in by_job.items()}


@pytest.mark.parametrize("headroom", [0.0, 0.2])
def test_paces_follow_jobs_links_and_modes(headroom: float) -> None:
    there = World(FABRIC, seen(FABRIC), mtu=MTU, headroom=headroom).planned()
    link = 100.0 * (1 - headroom)
    try:
        put(there, "a", "h1", "h4")
        assert paces(there) == {"a": None}
        put(there, "b", "h2", "h5")
        assert paces(there) == {"a": None, "b": None}
        put(there, "c", "h3", "h6")
        shared = paces(there)
        for host in ("h1", "h2", "h3"):
            (route,) = parsed(there.service.routes(host, 20e-6))["flows"]
            (piece,) = route["pieces"]
            pace = piece["pace_gbps"]
            # What is on its way in 20 us, and four packets that wait for an acknowledgement.
            window = None if pace is None else pytest.approx(pace * 2500 + 4 * MTU, abs=1)
            assert piece["window_bytes"] == window
        assert sorted(shared.values(), key=str) == [pytest.approx(link / 2), pytest.approx(link / 2), None]
        spine = there.service.state.fabric
        assert spine is not None
        there.show(seen(FABRIC.without_links(["spine2"])), lambda state: state.fabric is not spine)
        there.planned()
        assert paces(there) == {job: pytest.approx(link / 3) for job in "abc"}
        put(there, "b", "h2", "h5", compute_seconds=0.1)
        assert paces(there) == dict.fromkeys("abc")
        there.delete("b")
        assert paces(there) == {job: pytest.approx(link / 2) for job in "ac"}
        there.service.set_mode("ecmp", None, ANN)
        assert paces(there) == dict.fromkeys("ac")
        there.service.set_mode("planned", None, ANN)
        assert paces(there) == {job: pytest.approx(link / 2) for job in "ac"}
        there.service.set_mode("frozen", None, ANN)
        assert paces(there) == {job: pytest.approx(link / 2) for job in "ac"}
    finally:
        there.close()
