"""The same steps on fake switches and on Open vSwitch: after each, switches hold the compiled rules."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.enforcement.registry import rule_enforcements
from tests.rig.both_kinds import Setup
from tests.rig.checks.expected_rules import differences, expected
from tests.rig.waiting import eventually, wait_for_pings

KINDS = ["fake", pytest.param("open_vswitch", marks=pytest.mark.switches)]

RING = {
    "hosts": ["h1", "h3", "h2", "h4"],
    "collectives": [
        {"name": "c", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 10**9},
        {"name": "d", "op": "all_to_all", "ranks": [0, 1, 2, 3], "bytes": 10**9},
    ],
}


class Story:
    """A controller and its switches, and what has been done to them."""

    def __init__(self, setup: Setup, kind: str, fabric: Fabric) -> None:
        self.fabric = fabric
        self.enforcement: str = DEFAULT_ENFORCEMENT
        self.down: set[str] = set()
        self.drained: set[str] = set()
        self.controller, address = setup.controller(fabric)
        self.switches = setup.switches(kind, fabric, address)
        self.switches.wait_connected()
        self.settled("at first")

    def settled(self, what: str) -> None:
        """The newest plan is active, no cable is missed that should be there, and switches hold what they should."""

        def seen() -> bool:
            answer = self.controller.get("/v1/links")
            if answer.status != 200:
                return False
            down = {link["id"] for link in answer.body["links"] if not link["up"]}
            return (
                down == {link for link, up in zip(now.link_ids, now.link_up.tolist(), strict=True) if not up}
                and self.controller.plan_is_active()
            )

        now = self.fabric.without_links(self.down)
        self.controller.wait_for(f"{what}: it is seen and planned", seen)

        def wrong() -> dict[int, str]:
            return differences(
                self.switches.held(), expected(self.controller, now, self.enforcement, drained=self.drained)
            )

        eventually(lambda: not wrong(), f"{what}: switches hold what the compiler says", shown=wrong)
        wait_for_pings(self.switches)

    def enforce(self, enforcement: str) -> None:
        assert self.controller.put("/v1/mode", {"enforcement": enforcement}).status == 200
        self.enforcement = enforcement
        self.settled(f"enforcement by {enforcement}")

    def set_cable(self, name: str, up: bool) -> None:
        self.switches.set_cable(name, up)
        self.down ^= {name}
        self.settled(f"{name} {'up' if up else 'down'}")

    def drain(self, name: str, drained: bool) -> None:
        assert self.controller.put(f"/v1/fabric/links/{name}", {"drained": drained}).status == 200
        self.drained ^= {name}
        self.settled(f"{name} {'drained' if drained else 'undrained'}")

    def paths(self) -> dict[str, Any]:
        plan = self.controller.get("/v1/plan").body["plan"]
        return {flow["id"]: flow["paths"] for flow in plan["flows"]}


@pytest.mark.parametrize("kind", KINDS)
def test_switches_hold_what_the_compiler_says_through_jobs_drains_modes_failures_and_restarts(
    setup: Setup, kind: str
) -> None:
    story = Story(setup, kind, clos(2, 2, 2))
    assert story.controller.put("/v1/jobs/one", RING).status == 201
    story.settled("a job is pushed")
    for enforcement in (*rule_enforcements()[1:], DEFAULT_ENFORCEMENT):
        story.enforce(enforcement)
        story.drain("spine1", True)
        assert not any("spine1" in link for paths in story.paths().values() for path in paths for link in path["links"])
        story.drain("spine1", False)
        story.set_cable("leaf1-spine2", False)
        story.set_cable("leaf1-spine2", True)
    before = story.paths()
    story.controller.kill()
    story.controller.start()
    story.settled("the controller was killed and started")
    assert story.paths() == before
    story.switches.kill_switch("spine1")
    story.controller.wait_for("it is missed", lambda: "spine1" in str(story.controller.get("/healthz").body["reasons"]))
    story.switches.start_switch("spine1")
    story.settled("a spine was restarted")
    story.switches.restart_switches()
    story.settled("all switches were restarted")
    assert story.controller.delete("/v1/jobs/one").status == 204
    story.settled("the job is removed")
