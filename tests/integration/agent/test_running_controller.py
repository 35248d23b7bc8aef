"""A running controller, real agents and Linux routers: plans reach kernels, and only what is confirmed is active."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.model.files.clos import clos
from tests.rig.bench import Bench
from tests.rig.packet_stream import Stream
from tests.rig.router_world import PORT, RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_ipv6, with_routers

pytestmark = pytest.mark.switches

FABRIC = with_ipv6(with_routers(clos(2, 2, 2)), ["h1", "h3"])
"""The job is of hosts with IPv6 addresses."""


@pytest.fixture
def world(bench: Bench, tmp_path: Path) -> Iterator[RouterWorld]:
    # Probes would be counted with the packets.
    with router_world(bench, tmp_path, FABRIC, "--probe-ms", "0") as world:
        yield world


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


def test_no_packet_is_lost_by_a_drain_the_end_of_the_controller_and_that_of_an_agent(world: RouterWorld) -> None:
    world.begin()
    for name in ("h1", "h3"):
        world.agents[name].start()
    world.well()
    mixed = {"flows": [{"src": "h1", "dst": "h4", "bytes": 1}]}
    refused = world.controller.ask("PUT", "/v1/jobs/mixed", mixed)
    assert (refused.status, refused.body["value"]) == (422, FABRIC.hosts[3].ip), refused.body
    before = world.planned()
    assert world.taken() == before
    stream = Stream(world.lab, 0, 2, PORT)
    spine = world.get("/v1/routes?host=h1")["flows"][0]["pieces"][0]["path"]
    drained = world.controller.ask("PUT", f"/v1/fabric/links/{spine}", {"drained": True})
    assert (drained.status, drained.body["outcome"]) == (200, "drained")
    world.well()
    after = world.planned()
    assert not before & after - {0, FABRIC.n_hosts + 2}
    arrived = stream.received()
    world.controller.signal(signal.SIGKILL)
    world.controller.wait()
    eventually(lambda: stream.received() > arrived + 1000, "packets arrive without a controller")
    world.controller.start()
    world.well()
    assert world.planned() == after
    world.agents["h1"].end(signal.SIGKILL)
    world.agents["h1"].start()
    world.agents["h1"].wait_for_log("flows set")
    world.well()
    sent, received = stream.end()
    assert sent == received
    assert world.taken() == after
