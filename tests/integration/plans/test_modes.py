"""The three ways to enforce plans on a running controller: no packet is lost between them, nor over a restart."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.southbound.enforcement.registry import rule_enforcements
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.drains import enforced
from tests.rig.checks.jobs import active, routes, uplink_packets
from tests.rig.checks.restarts import came_back, check_rules, dumps
from tests.rig.controller import Controller
from tests.rig.hosts.streams import counting, enforce, streaming
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = clos(3, 2, 2)
# From h1 go four flows over three paths: one of them is split (``ethereal``); from h4 a single one, which is, too.
JOB = {
    "flows": [
        *({"src": "h1", "dst": dst, "bytes": 10**6, "collective": str(n)} for n, dst in enumerate(["h3", "h4"] * 2)),
        {"src": "h4", "dst": "h2", "bytes": 10**6},
    ]
}
PACKETS = 100


@pytest.fixture
def running(bench: Bench, tmp_path: Path) -> tuple[Lab, Controller]:
    """With a job whose flows are planned, some of them split."""
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    lab = bench.lab(FABRIC)
    controller = bench.controller("--fabric", str(path), "--policy", "ethereal", "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    assert controller.put("/v1/jobs/one", JOB).status == 201
    active(controller)
    return lab, controller


def test_no_ping_and_no_packet_of_a_running_flow_is_lost_between_the_modes(running: tuple[Lab, Controller]) -> None:
    lab, controller = running
    told = routes(FABRIC, controller)
    with counting(lab, FABRIC) as received, lab.pinging(interval=0.01) as pings, streaming(lab, told) as sent:
        for enforcement in ("segment_routing", "source_port", "per_flow", "source_port", "segment_routing"):
            enforce(controller, enforcement)
            time.sleep(0.2)
        # Both at once, and from one way without a plan to another one.
        enforce(controller, "source_port", "ecmp")
        enforce(controller, "per_flow", "planned")
        # Hosts that have read their routes meanwhile send from other ports; nothing changes for the others.
        enforce(controller, "source_port")
        with streaming(lab, routes(FABRIC, controller)) as more:
            enforce(controller, "segment_routing")
            enforce(controller, "per_flow")
        eventually(lambda: sum(pings.sent.values()) > 500, "many pings were sent")
    assert pings.unanswered == []
    assert min(*sent, *more) > 20
    assert sum(received.values()) == sum(sent) + sum(more)


def test_every_piece_of_every_flow_is_counted_on_its_path_in_every_mode(running: tuple[Lab, Controller]) -> None:
    lab, controller = running
    for enforcement in rule_enforcements():
        enforce(controller, enforcement)
        told = routes(FABRIC, controller)
        pieces = [piece for body in told.values() for flow in body["flows"] for piece in flow["pieces"]]
        assert {len(piece["labels"]) for piece in pieces} == {2 if enforcement == "segment_routing" else 0}
        flows = [flow for body in told.values() for flow in body["flows"]]
        assert [len(flow["pieces"]) for flow in flows].count(3) == 2
        expected = Counter(piece["links"][1] for piece in pieces)
        before = uplinks(lab)
        with counting(lab, FABRIC) as received, streaming(lab, told, PACKETS):
            pass
        assert sum(received.values()) == PACKETS * len(pieces)

        def strays(before: Counter[str] = before, expected: Counter[str] = expected) -> dict[str, int]:
            after = uplinks(lab)
            extra = {link: after[link] - before[link] - PACKETS * expected[link] for link in after}
            # Discovery and ARP are the only others, fewer than any piece has.
            return {link: count for link, count in extra.items() if not 0 <= count < PACKETS // 2}

        eventually(lambda strays=strays: not strays(), f"{enforcement}: pieces are on their paths", shown=strays)  # type: ignore[misc]


def uplinks(lab: Lab) -> Counter[str]:
    return uplink_packets(lab, FABRIC)


def test_a_restart_writes_no_rule_in_the_other_modes_either(running: tuple[Lab, Controller]) -> None:
    lab, controller = running
    for enforcement in rule_enforcements()[1:]:
        enforce(controller, enforcement)
        rules = standing(lambda: dumps(lab, FABRIC))
        told = routes(FABRIC, controller)
        controller.kill()
        controller.start()
        came_back(controller)
        assert controller.get("/v1/mode").body["enforcement"] == enforcement
        check_rules(lab, FABRIC, rules)
        assert routes(FABRIC, controller) == told
    # Frozen, the next one is wanted, and what switches hold is still told and made again.
    answer = controller.put("/v1/mode", {"mode": "frozen"})
    frozen = answer.body["epoch"]
    controller.wait_for("it is active", lambda: enforced(controller) == frozen)
    rules = standing(lambda: dumps(lab, FABRIC))
    assert controller.put("/v1/mode", {"enforcement": "segment_routing"}).status == 200
    assert controller.delete("/v1/jobs/one").status == 204
    assert controller.put("/v1/jobs/one", JOB).status == 201
    told = routes(FABRIC, controller)
    assert {body["enforcement"] for body in told.values()} == {"source_port"}
    controller.kill()
    controller.start()
    controller.wait_for("it knows what is held", lambda: enforced(controller) == frozen)
    check_rules(lab, FABRIC, rules)
    # A switch that comes back empty gets them again.
    lab.kill_switch("leaf1")
    lab.start_switch("leaf1")
    without_cookie = {row[:4] for row in rules["leaf1"]}
    eventually(lambda: {row[:4] for row in dumps(lab, FABRIC)["leaf1"]} == without_cookie, "it holds them again")
    assert controller.put("/v1/mode", {"mode": "planned"}).body["enforcement"] == "segment_routing"
    came_back(controller)
