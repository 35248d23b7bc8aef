"""A running controller, real agents and Linux routers: plans reach kernels, and only what is confirmed is active."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.model.files.clos import clos
from controller.southbound.enforcement.registry import ENFORCEMENTS
from tests.rig.bench import Bench
from tests.rig.packet_stream import Stream
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_ipv6, with_routers

pytestmark = pytest.mark.switches

FABRIC = addressed(with_routers(clos(2, 2, 2)))
MIXED = with_ipv6(FABRIC, ["h1", "h3"])
"""The job is of hosts with IPv6 addresses."""
ON_ROUTERS = [name for name, each in ENFORCEMENTS.items() if each.by_hosts or each.router_export]
"""The enforcements that need no OpenFlow."""


@pytest.fixture
def world(bench: Bench, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RouterWorld]:
    # Probes would be counted with the packets.
    with router_world(bench, tmp_path, getattr(request, "param", FABRIC), "--probe-ms", "0", "--keep") as world:
        yield world


@pytest.mark.parametrize("world", [MIXED], indirect=True)
def test_a_pushed_job_reaches_kernels_and_is_active_only_when_its_hosts_have_confirmed(
    world: RouterWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.begin()
    eventually(lambda: world.waits_for() == ["h1", "h3"], "the plan waits for both hosts")
    health, epoch = world.get("/healthz"), world.get("/v1/plan")["computed"]["epoch"]
    # Without a job, the plan before needed no agent.
    assert health["status"] == "degraded"
    assert health["reasons"] == [f"plan {epoch} is not active yet: the agents of h1, h3 have not confirmed it"]
    assert health["agents"] == {"expected": 2, "heard": 0, "confirmed": 0}
    assert (health["slowest_job"]["speed"], world.get("/v1/jobs/pairs")["active"]) == (None, False)
    world.agents["h1"].start()
    eventually(lambda: world.waits_for() == ["h3"], "one host has confirmed")
    assert not world.active()
    world.agents["h3"].start()
    world.well()
    health = world.get("/healthz")
    assert health["agents"] == {"expected": 2, "heard": 2, "confirmed": 2}
    assert (health["switches"], health["slowest_job"]["speed"]) == ({"connected": 0, "expected": 0}, 1.0)
    assert world.get("/v1/jobs/pairs")["active"]
    assert world.taken() == world.planned()
    mixed = {"flows": [{"src": "h1", "dst": "h4", "bytes": 1}]}
    refused = world.controller.ask("PUT", "/v1/jobs/mixed", mixed)
    assert (refused.status, refused.body["value"]) == (422, MIXED.hosts[3].ip), refused.body

    monkeypatch.setenv("FAIRSPINE_URL", f"http://127.0.0.1:{world.controller.http_port}")

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        said = capsys.readouterr()
        return int(end.value.code or 0), " ".join((said.out + said.err).split())

    for command in ("status", "top --once"):
        code, text = run(*command.split())
        assert code == 0
        assert "ok mode planned, enforced by srv6 2 of 2 agents 1 job, 1 flow" in text
        assert "routers are not read: planned loads" in text
        assert "unknown" in text
    assert "leaf1 leaf router 0 of 2, 2 unknown 0 2" in run("fabric")[1]
    assert f"plan {epoch}, mode planned, srv6" in run("routes", "h1")[1]
    assert "4 hosts; 2 of 2 that send or receive planned flows hold the newest plan" in run("hosts")[1]
    # Real paths are not known; what packets carry is.
    code, text = run("trace", "--wide")
    assert code == 3
    (flow,) = world.get("/v1/trace")["flows"]
    spine = next(link for link in flow["planned"] if "->spine" in link).split("->")[1]
    (carried,) = world.get("/v1/hosts/h1/segments")["flows"]
    assert flow["segments"]["carrier"] == carried["carrier"]
    assert [each["node"] for each in flow["segments"]["ids"]] == [spine, "leaf2", "h3"]
    ids = " ".join(f"{each['id']}@{each['node']}" for each in flow["segments"]["ids"])
    assert "".join(f"{carried['carrier']} = {ids}".split()) in "".join(text.split())

    assert world.controller.ask("DELETE", "/v1/jobs/pairs").status == 204
    for other in ON_ROUTERS:
        if not ENFORCEMENTS[other].carries_ipv6:
            refused = world.controller.ask("PUT", "/v1/mode", {"enforcement": other})
            assert refused.status == 409
            why = f"hosts[0].ip: '{MIXED.hosts[0].ip}': h1 has an IPv6 address, and "
            assert refused.body["detail"].startswith(f"{other} enforcement: {why}"), refused.body


DEAD_SECONDS = float(os.environ.get("DEAD_SECONDS", "0"))
"""How long the controller is away besides (``make dead-controller``)."""
MODES = ({"mode": "ecmp"}, {"mode": "frozen"}, {"mode": "planned"})
FREE = {"name": "pairs", "flows": [{"src": "h1", "dst": "h3", "bytes": 10**9}]}
"""The job without a port, so that any enforcement may choose it."""


def set_mode(world: RouterWorld, change: dict[str, str]) -> None:
    """Change the mode or the enforcement, and wait until the controller has done it."""
    answer = world.controller.ask("PUT", "/v1/mode", change)
    assert answer.status == 200, answer.body
    eventually(lambda: world.get("/v1/mode").items() >= change.items(), "it is so", shown=lambda: world.get("/v1/mode"))


def test_no_packet_is_lost_by_drains_modes_enforcements_and_the_ends_of_controller_and_agents(
    world: RouterWorld,
) -> None:
    world.begin(FREE)
    for name in ("h1", "h3"):
        world.agents[name].start()
    world.well()
    before, (piece,) = world.planned(), world.get("/v1/routes?host=h1")["flows"][0]["pieces"]
    assert world.taken(port=piece["udp_src"]) == before
    stream = Stream(world.lab, 0, 2, piece["udp_src"])
    spine = piece["path"]
    drained = world.controller.ask("PUT", f"/v1/fabric/links/{spine}", {"drained": True})
    assert (drained.status, drained.body["outcome"]) == (200, "drained")
    world.well()
    after = world.planned()
    assert not before & after - {0, FABRIC.n_hosts + 2}
    for change in MODES:
        set_mode(world, change)
        eventually(lambda: world.get("/healthz")["status"] == "ok", "all is well", shown=lambda: world.get("/healthz"))
    for name in (*ON_ROUTERS, "srv6"):
        set_mode(world, {"enforcement": name})
    world.well()
    arrived = stream.received()
    world.controller.signal(signal.SIGKILL)
    world.controller.wait()
    eventually(lambda: stream.received() > arrived + 1000, "packets arrive without a controller")
    time.sleep(DEAD_SECONDS)
    world.controller.start()
    world.well()
    assert world.planned() == after
    for number in (signal.SIGKILL, signal.SIGTERM):
        for name in ("h1", "h3"):
            world.agents[name].end(number)
            world.agents[name].start()
            world.agents[name].wait_for_log("flows set")
        world.well()
    undrained = world.controller.ask("PUT", f"/v1/fabric/links/{spine}", {"drained": False})
    assert undrained.status == 200
    world.well()
    sent, received = stream.end()
    assert sent == received
    assert world.taken(port=piece["udp_src"]) == world.planned()
