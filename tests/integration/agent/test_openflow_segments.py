"""A running controller, real agents, and Open vSwitch that reads segments: plans reach hosts, and no switch changes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.model.files.pod_clos import pod_clos
from tests.rig.bench import Bench
from tests.rig.carrier_world import CarrierWorld, carrier_world
from tests.rig.packet_stream import Stream
from tests.rig.waiting import eventually, standing

pytestmark = pytest.mark.switches

FABRIC = pod_clos(2, 1, 2, 1, 2, parallel=2)
"""Three layers, and two cables from each leaf to each aggregation switch."""
JOB = {"name": "pairs", "flows": [{"src": "h1", "dst": "h3", "bytes": 10**9}]}


@pytest.fixture
def world(bench: Bench, tmp_path: Path) -> Iterator[CarrierWorld]:
    with carrier_world(bench, tmp_path, FABRIC, "--probe-ms", "0", options=("--readback-seconds", "1")) as world:
        yield world


def test_a_new_plan_changes_no_switch_and_no_change_loses_a_packet(world: CarrierWorld) -> None:
    controller = world.controller
    controller.wait_for("it has a plan", lambda: controller.get("/v1/plan").status == 200)
    world.well()
    for agent in world.agents.values():
        agent.start()
    changes = standing(world.relay.changes)
    assert controller.ask("PUT", "/v1/jobs/pairs", JOB).status == 201
    world.well()
    port = world.port()
    assert world.taken(port) == world.planned()
    (flow,) = world.get("/v1/trace")["flows"]
    assert (flow["real"], flow["how"], flow["arrives"]) == (flow["planned"], "rules", True)
    assert world.relay.changes() == changes

    stream = Stream(world, 0, 2, port)
    # Another plan: its flows are new, and no switch hears of it.
    more = {**JOB, "flows": [*JOB["flows"], {"src": "h2", "dst": "h4", "bytes": 10**9}]}
    assert controller.ask("PUT", "/v1/jobs/pairs", more).status == 200
    world.well()
    assert controller.ask("PUT", "/v1/jobs/pairs", JOB).status == 200
    world.well()
    assert world.relay.changes() == changes

    before = world.planned()
    uplink = next(link for link in before if link.startswith("leaf1->"))
    drained = controller.ask("PUT", f"/v1/fabric/links/{uplink.replace('->', '-')}", {"drained": True})
    assert drained.status == 200
    world.well()
    assert uplink not in world.planned()
    world.mode(mode="ecmp")
    world.mode(mode="planned")
    for enforcement in ("per_flow", "srv6", "segment_routing", "source_port", "srv6"):
        world.mode(enforcement=enforcement)
    arrived = stream.received()
    eventually(lambda: stream.received() > arrived + 1000, "packets arrive")
    sent, received = stream.end()
    assert sent == received
    assert world.taken(world.port()) == world.planned()

    # Rules that somebody removes or changes come back.
    rules = world.switches.ofctl("dump-flows", "leaf1", "table=3").count("table=3")
    removed = time.monotonic()
    world.switches.ofctl("del-flows", "leaf1", "table=3,ipv6")

    def repaired() -> bool:
        ages = re.findall(r"duration=([0-9.]+)s, table=3", world.switches.ofctl("dump-flows", "leaf1", "table=3"))
        return len(ages) == rules and max(map(float, ages)) < time.monotonic() - removed

    eventually(repaired, "the rules are there again", shown=lambda: world.get("/healthz"))
    world.well()
    assert world.taken(world.port()) == world.planned()

    # Without a controller, and without a word to the host, the leaf takes another uplink for a dead one.
    port, uplink = world.port(), next(link for link in world.planned() if link.startswith("leaf1->"))
    dead = FABRIC.cables[FABRIC.cable_names.index(uplink.replace("->", "-"))]
    assert dead.lower_port is not None
    controller.kill()
    world.switches.set_port("leaf1", dead.lower_port, up=False)
    eventually(lambda: "LINK_DOWN" in world.switches.ofctl("dump-ports-desc", "leaf1"), "the switch knows")
    assert uplink not in world.taken(port)
