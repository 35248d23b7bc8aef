"""Programs that connect over Linux routers by libfairspine-tcp: their connections take the planned paths both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.linux.socket_paces import payload_rate
from agent.linux.tcp_connections import UNLIMITED
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.host_agent import PortAgent
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

BYTES = 400_000
"""Of a connection, each way; a link carries far less of other packets meanwhile."""
PORT = 29500
CONTROLLER = (
    *("--enforcement", "probed_port", "--probe-burst", "50", "--probe-rate", "10000"),
    *("--probe-router-rate", "1000000", "--probe-seconds", "0.5"),
)

LISTEN = f"""
import socket, sys, threading
def serve(connection):
    left = {BYTES}
    while left:
        left -= len(connection.recv(65536))
    connection.sendall(b"x" * {BYTES})
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
listener = socket.create_server((sys.argv[1], {PORT}))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]]).start()
"""
CONNECT = f"""
import json, socket, sys
how, own, peer = sys.argv[1:]
one = socket.socket(socket.AF_INET6 if how == "mapped" else socket.AF_INET)
if how == "bound":
    one.bind((own, 0))
elif how == "anywhere":
    one.bind(("", 0))
elif how == "nonblocking":
    one.setblocking(False)
elif how == "fixed":
    one.bind((own, 40123))
elif how == "mapped":
    own, peer = "::ffff:" + own, "::ffff:" + peer
try:
    one.connect((peer, {PORT}))
except BlockingIOError:
    one.settimeout(60)
    import select
    select.select([], [one], [])
one.sendall(b"x" * {BYTES})
left = {BYTES}
while left:
    left -= len(one.recv(65536))
ip, port = one.getsockname()[:2]
print(json.dumps([ip.removeprefix("::ffff:"), port]))
"""
ASK = """
import socket, sys
for own in sys.argv[1:]:
    one = socket.socket()
    one.bind((own, 0))
    port = one.getsockname()[1]
    assert port, own
    one.listen()
    assert one.getsockname()[1] == port
    other = socket.socket()
    other.bind((own, 0))
    other.listen()
    assert other.getsockname()[1] not in (0, port)
print("all have ports")
"""
KEEP = f"""
import socket, sys
one = socket.create_connection((sys.argv[1], {PORT}))
for _ in sys.stdin:
    rate = one.getsockopt(socket.SOL_SOCKET, 47, 8)
    print(int.from_bytes(rate, "little"), one.getsockopt(socket.IPPROTO_IP, 14), flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tcp")
    subprocess.run(["make", "-s", "-C", str(ROOT / "tcp"), f"OUT={folder}"], check=True)
    return folder / "libfairspine-tcp.so"


class Programs:
    """Programs of hosts that connect to others."""

    def __init__(self, world: RouterWorld, library: Path) -> None:
        self.world, self.library = world, library
        self.fabric: Fabric = world.lab.fabric

    def python(self, host: str, *arguments: str) -> list[str]:
        preload = ["env", f"LD_PRELOAD={self.library}"]
        return self.world.lab.inside(host, *preload, sys.executable, "-c", *arguments)

    def listen(self, host: str) -> subprocess.Popen[str]:
        listener = subprocess.Popen(self.python(host, LISTEN, self.world.ip(host)), stdout=subprocess.PIPE, text=True)
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        return listener

    def connect(self, how: str, src: str, dst: str) -> tuple[int, set[int], str]:
        """Connect and send both ways; return the port, the links that carried it, and what the library said."""
        before = self.world.lab.lab.sent()
        command = self.python(src, CONNECT, how, self.world.ip(src), self.world.ip(dst))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        address, port = json.loads(done.stdout)
        assert address == self.world.ip(src)
        ends = {self.fabric.n_hosts + self.fabric.host_index[name] for name in (src, dst)}
        links: set[int] = set()

        def arrived() -> bool:
            now = enumerate(zip(self.world.lab.lab.sent(), before, strict=True))
            links.clear()
            links.update(link for link, (last, first) in now if last - first >= BYTES)
            return ends <= links

        eventually(arrived, "all bytes are counted", shown=lambda: links)
        return port, links, done.stderr

    def planned(self) -> set[int]:
        """The links of all flows of the plan."""
        flows = self.world.get("/v1/plan")["plan"]["flows"]
        return {self.fabric.link_index[link] for flow in flows for path in flow["paths"] for link in path["links"]}


def job(*pairs: tuple[str, str]) -> dict[str, Any]:
    flows = [{"src": src, "dst": dst, "bytes": 10**9} for src, dst in pairs]
    return {"name": "pairs", "protocol": "tcp", "flows": flows}


@pytest.mark.parametrize("fabric", [clos(2, 4, 1), pod_clos(2, 1, 2, 2, 1)], ids=["two layers", "three layers"])
def test_connections_take_their_paths_both_ways_and_programs_run_without_agents(
    fabric: Fabric, bench: Bench, tmp_path: Path, library: Path
) -> None:
    place = addressed(fabric)
    src, dst = place.host_names[0], place.host_names[-1]
    with router_world(bench, tmp_path, place, agent=PortAgent, controller_options=CONTROLLER) as world:
        unlimited(world.lab)
        eventually(lambda: answers(world.lab, src, dst), "hosts reach each other")
        world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
        assert world.controller.ask("PUT", "/v1/jobs/pairs", job((src, dst), (dst, src))).status == 201
        here = Programs(world, library)
        with here.listen(dst) as listener:
            try:
                _, _, said = here.connect("plain", src, dst)
                assert "@fairspine-tcp: Connection refused; no agent chooses ports" in said
                assert said.count("\n") == 1
                for agent in world.agents.values():
                    agent.start("--tcp", "@fairspine-tcp")
                world.well()
                used = set()
                for how in ("plain", "bound", "anywhere", "nonblocking", "mapped"):
                    port, links, said = here.connect(how, src, dst)
                    assert links == here.planned()
                    assert f"the first one: {port}, to {world.ip(dst)}" in said
                    used.add(port)
                assert len(used) == 5
                # A port that a program has chosen stays.
                assert here.connect("fixed", src, dst)[0] == 40123
                # The other host's agent has to say which ports lead back.
                world.agents[dst].end()
                _, _, said = here.connect("plain", src, dst)
                assert f"the agent of {world.ip(dst)} does not say which ports lead back" in said
            finally:
                listener.kill()
        asked = here.python(src, ASK, world.ip(src), "", "127.0.0.1")
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "all have ports\n"


def test_running_connections_keep_paces_and_a_job_whose_tcp_ports_are_stated_is_refused_in_one_line(
    bench: Bench, tmp_path: Path, library: Path
) -> None:
    place = addressed(clos(1, 2, 2))
    with router_world(bench, tmp_path, place, agent=PortAgent, controller_options=CONTROLLER) as world:
        world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
        unlimited(world.lab)
        eventually(lambda: answers(world.lab, "h1", "h3"), "hosts reach each other")
        with (
            Programs(world, library).listen("h3") as listener,
            # Without the library: it connects before there is a plan.
            subprocess.Popen(
                world.lab.inside("h1", sys.executable, "-c", KEEP, world.ip("h3")),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            ) as program,
        ):
            assert program.stdin
            assert program.stdout
            asks, says = program.stdin, program.stdout

            def rate() -> tuple[int, int]:
                asks.write("\n")
                most, mtu = map(int, says.readline().split())
                return most, mtu

            try:
                assert rate()[0] == UNLIMITED
                world.agents["h1"].start("--tcp", "@fairspine-tcp")
                # Both flows have half of the link between their leaves, and then one has all of it.
                assert world.controller.ask("PUT", "/v1/jobs/pairs", job(("h1", "h3"), ("h2", "h4"))).status == 201
                eventually(
                    lambda: (now := rate())[0] == payload_rate(50e9, now[1]), "the connection is paced", shown=rate
                )
                assert world.controller.ask("PUT", "/v1/jobs/pairs", job(("h1", "h3"))).status == 200
                eventually(lambda: rate()[0] == UNLIMITED, "its pace is lifted", shown=rate)
            finally:
                program.kill()
                listener.kill()
        stated = job(("h1", "h2"))
        stated["flows"][0]["dst_port"] = PORT
        answer = world.controller.ask("PUT", "/v1/jobs/pairs", stated)
        assert answer.status == 422, answer.body
        assert "probed_port enforcement" in json.dumps(answer.body)
        udp = {**job(("h1", "h2")), "protocol": "udp"}
        assert "for RoCEv2 and TCP alone" in json.dumps(world.controller.ask("PUT", "/v1/jobs/pairs", udp).body)
