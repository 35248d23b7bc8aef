"""A running controller, real agents and Linux routers: plans reach kernels, and only what is confirmed is active."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from controller.cli.main import main
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.port_numbers import ROCE_PORT
from emulation.controller_process import controller_command
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.host_agent import HostAgent
from tests.rig.packet_stream import Stream
from tests.rig.real_controller import free_ports
from tests.rig.relay import Relay
from tests.rig.router_lab import RouterLab
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

pytestmark = pytest.mark.switches

FABRIC = with_routers(clos(2, 2, 2))
PORT = 50001
PACKETS = 200
JOB = {"name": "pairs", "flows": [{"src": "h1", "dst": "h3", "bytes": 10**9, "udp_src": PORT}]}
SEND = """
import socket, sys
src, dst, port, dst_port, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind((src, port))
    for _ in range(count):
        sender.sendto(b"x" * 100, (dst, dst_port))
"""


class World(NamedTuple):
    """Routers with hosts, a controller, and an agent for each host (none of which runs yet)."""

    lab: RouterLab
    controller: Controller
    agents: dict[str, HostAgent]

    def get(self, target: str) -> Any:
        return self.controller.ask("GET", target).body

    def active(self) -> bool:
        """Whether the newest plan is active: all agents that it needs have confirmed it."""
        plan = self.get("/v1/plan")
        newest, active = plan.get("computed"), plan.get("active")
        return bool(newest and active and newest["epoch"] == active["epoch"])

    def planned(self) -> set[int]:
        """The links of the job's flow."""
        (flow,) = self.get("/v1/plan")["plan"]["flows"]
        return {FABRIC.link_index[link] for link in flow["paths"][0]["links"]}

    def taken(self) -> set[int]:
        """The links that packets of the flow take, once the receiver's leaf knows where the receiver is."""
        links: set[int] = set()

        def arrive() -> bool:
            before = self.lab.sent()
            self.lab.run(
                "h1", sys.executable, "-c", SEND, "10.0.1.1", self.ip("h3"), *map(str, (PORT, ROCE_PORT, PACKETS))
            )
            now = enumerate(zip(self.lab.sent(), before, strict=True))
            links.clear()
            links.update(link for link, (last, first) in now if last - first >= PACKETS)
            return FABRIC.n_hosts + FABRIC.host_index["h3"] in links

        eventually(arrive, "packets arrive", shown=lambda: links)
        return links

    def ip(self, host: str) -> str:
        return FABRIC.hosts[FABRIC.host_index[host]].ip


@pytest.fixture
def world(bench: Bench, tmp_path: Path) -> Iterator[World]:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(FABRIC)))
    openflow, port = free_ports(2)
    options = ("--fabric", str(file), "--enforcement", "srv6")
    command = controller_command(*options, openflow_port=openflow, http_port=port)
    with ExitStack() as stack:
        lab = stack.enter_context(RouterLab(FABRIC, tmp_path))
        for name in FABRIC.host_names:
            stack.enter_context(Relay(lab.namespace(name), port))
        controller = bench.controller(*command[1:], http_port=port)
        # Probes would be counted with the packets.
        agents = {name: HostAgent(lab, name, tmp_path / name, "--probe-ms", "0") for name in FABRIC.host_names}
        for agent in agents.values():
            stack.callback(agent.close)
        yield World(lab, controller, agents)


def waits_for(world: World) -> list[str]:
    return sorted(world.get("/v1/plan")["waits_for"])


def begin(world: World) -> None:
    """Push the job."""
    controller = world.controller
    controller.wait_for("it has a plan", lambda: controller.get("/v1/plan").status == 200)
    assert controller.ask("PUT", "/v1/jobs/pairs", JOB).status == 201


def well(world: World) -> None:
    """Wait until the newest plan is active, and all is well."""
    eventually(world.active, "the plan is active", shown=lambda: world.get("/healthz"))
    eventually(lambda: world.get("/healthz")["status"] == "ok", "all is well", shown=lambda: world.get("/healthz"))


def test_a_pushed_job_reaches_kernels_and_is_active_only_when_its_hosts_have_confirmed(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(world)
    eventually(lambda: waits_for(world) == ["h1", "h3"], "the plan waits for both hosts")
    health, epoch = world.get("/healthz"), world.get("/v1/plan")["computed"]["epoch"]
    # Without a job, the plan before needed no agent.
    assert health["status"] == "degraded"
    assert health["reasons"] == [f"plan {epoch} is not active yet: the agents of h1, h3 have not confirmed it"]
    assert health["agents"] == {"expected": 2, "heard": 0, "confirmed": 0}
    assert (health["slowest_job"]["speed"], world.get("/v1/jobs/pairs")["active"]) == (None, False)
    world.agents["h1"].start()
    eventually(lambda: waits_for(world) == ["h3"], "one host has confirmed")
    assert not world.active()
    world.agents["h3"].start()
    well(world)
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
    assert run("trace")[0] == 3


def test_no_packet_is_lost_by_a_drain_the_end_of_the_controller_and_that_of_an_agent(world: World) -> None:
    begin(world)
    for name in ("h1", "h3"):
        world.agents[name].start()
    well(world)
    before = world.planned()
    assert world.taken() == before
    stream = Stream(world.lab, 0, 2, PORT)
    spine = world.get("/v1/routes?host=h1")["flows"][0]["pieces"][0]["path"]
    drained = world.controller.ask("PUT", f"/v1/fabric/links/{spine}", {"drained": True})
    assert (drained.status, drained.body["outcome"]) == (200, "drained")
    well(world)
    after = world.planned()
    assert not before & after - {0, FABRIC.n_hosts + 2}
    arrived = stream.received()
    world.controller.signal(signal.SIGKILL)
    world.controller.wait()
    eventually(lambda: stream.received() > arrived + 1000, "packets arrive without a controller")
    world.controller.start()
    well(world)
    assert world.planned() == after
    world.agents["h1"].end(signal.SIGKILL)
    world.agents["h1"].start()
    confirmed = world.agents["h1"].log.read_text().count("flows set")
    eventually(lambda: world.agents["h1"].log.read_text().count("flows set") > confirmed, "the agent follows the plan")
    well(world)
    sent, received = stream.end()
    assert sent == received
    assert world.taken() == after
