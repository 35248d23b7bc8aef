"""Port agents check plans that routers carry out by a static configuration, which the controller does not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.southbound.port_classes.class_policies import router_policies
from controller.southbound.port_classes.formats import POLICY_FORMATS
from controller.southbound.port_classes.next_hops import of_cables
from controller.southbound.srv6.router_configuration import DEFAULT_CABLES
from tests.rig.bench import Bench
from tests.rig.host_agent import PortAgent
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRIC = addressed(clos(2, 2, 2))
NAMES = FABRIC.host_names
OPTIONS = (
    *("--enforcement", "source_port", "--probe-burst", "50", "--probe-rate", "10000"),
    *("--probe-router-rate", "1000000", "--probe-seconds", "0.5"),
)


def ports_of(world: RouterWorld) -> dict[str, dict[str, Any]]:
    return {row["host"]: row["ports"] or {} for row in world.get("/v1/hosts")["hosts"]}


def test_a_plan_by_static_policies_is_active_when_hosts_have_checked_it_and_not_when_they_see_other_paths(
    bench: Bench, tmp_path: Path
) -> None:
    chosen = POLICY_FORMATS["iproute2"]
    hop = of_cables(FABRIC, str(DEFAULT_CABLES))
    scripts = {each.name: chosen.write(each) for each in router_policies(FABRIC, chosen.interface, hop)}
    with router_world(bench, tmp_path, FABRIC, agent=PortAgent, controller_options=OPTIONS) as world:
        unlimited(world.lab)
        eventually(lambda: answers(world.lab, NAMES[0], NAMES[-1]), "hosts reach each other")
        world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
        rows = [{"src": name, "dst": NAMES[(n + 2) % 4], "bytes": 10**9} for n, name in enumerate(NAMES)]
        assert world.controller.ask("PUT", "/v1/jobs/shifts", {"name": "shifts", "flows": rows}).status == 201

        # Nobody checks: nothing is wrong, and nothing is claimed.
        health = world.get("/healthz")
        assert (health["status"], health["active_epoch"]) == ("ok", None)
        assert any("no plan is known to hold there" in line for line in health["degraded_service"])

        # The routers only hash: by chance, ports may be right, but hardly all of them.
        def hash_by_chance() -> bool:
            flows = planned(world)
            return {flow: frozenset(links) for flow, links in world.lab.lab.routed(flows).items()} != flows

        seed = 1
        while not hash_by_chance():
            world.lab.lab.hash_by(seed := seed + 1)
        for agent in world.agents.values():
            agent.start()
        eventually(
            lambda: any("do not take their planned paths" in reason for reason in world.get("/healthz")["reasons"]),
            "it is told that flows take other paths",
            shown=lambda: (world.get("/healthz"), world.get("/v1/hosts")),
        )
        assert "drifted" in {row.get("state") for row in ports_of(world).values()}
        assert not world.active()

        for router, script in scripts.items():
            world.lab.run(router, "sh", "-e", "-c", script)
        world.well()
        assert {row.get("state") for row in ports_of(world).values()} == {"active"}
        traced = world.get("/v1/trace")["flows"]
        assert {(flow["how"], flow["differs"]) for flow in traced} == {("probes", False)}
        assert [flow["real"] for flow in traced] == [flow["planned"] for flow in traced]
        flows = planned(world)
        assert {flow: frozenset(links) for flow, links in world.lab.lab.routed(flows).items()} == flows

        # A leaf loses its policies.
        for line in world.lab.run("leaf1", "ip", "rule", "show").splitlines():
            if "sport" in line:
                world.lab.run("leaf1", "ip", "rule", "del", "priority", line.split(":")[0])
        if hash_by_chance():
            eventually(
                lambda: any("do not take their planned paths" in reason for reason in world.get("/healthz")["reasons"]),
                "it is told that flows take other paths",
                shown=lambda: (world.get("/healthz"), world.get("/v1/hosts")),
            )
            assert not world.active()
        world.lab.run("leaf1", "sh", "-e", "-c", scripts["leaf1"])
        world.well()


def planned(world: RouterWorld) -> dict[tuple[str, str, int], frozenset[int]]:
    """The flows of /v1/routes, with their links."""
    index = FABRIC.link_index
    return {
        (host, flow["dst"], piece["udp_src"]): frozenset(index[link] for link in piece["links"])
        for host in NAMES
        for flow in world.get(f"/v1/routes?host={host}")["flows"]
        for piece in flow["pieces"]
    }
