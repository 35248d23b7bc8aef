"""TCP connections of two jobs, beside a RoCEv2 job of the same hosts, on Open vSwitch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, routes, started, uplink_packets
from tests.rig.controller import Controller
from tests.rig.hosts.streams import enforce
from tests.rig.waiting import READY_SECONDS, eventually

pytestmark = pytest.mark.switches

FABRIC = clos(4, 2, 2)
LISTENING, OTHER = 5001, 5002
JOBS: dict[str, Any] = {
    # Whatever TCP connection its host opens to h3, but those of the other job.
    "one": {"protocol": "tcp", "flows": [{"src": "h1", "dst": "h3", "bytes": 10**6}]},
    "two": {
        "flows": [
            {"src": src, "dst": dst, "bytes": 10**6, "protocol": "tcp", "dst_port": LISTENING}
            for src, dst in (("h1", "h3"), ("h2", "h4"))
        ]
    },
    "three": {"flows": [{"src": "h1", "dst": "h3", "bytes": 10**6}]},
}
CONNECTIONS = {
    "one/all/0": ("h1", "h3", OTHER),
    "two/all/0": ("h1", "h3", LISTENING),
    "two/all/1": ("h2", "h4", LISTENING),
}
SIZE = 3_000_000
PACKETS = SIZE // 4500
"""Packets of a connection at least: those of the MTU. Discovery and ARP are the only others, far fewer."""

SERVE = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
connection, _ = server.accept()
size = 0
while part := connection.recv(1 << 16):
    size += len(part)
print(size)
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    connection.sendall(bytes(int(sys.argv[3])))
"""


@pytest.fixture
def running(bench: Bench, tmp_path: Path) -> tuple[Lab, Controller]:
    lab, controller = started(bench, FABRIC, tmp_path)
    for name, job in JOBS.items():
        assert controller.put(f"/v1/jobs/{name}", job).status == 201
    active(controller)
    return lab, controller


def transfer(lab: Lab, src: str, dst: str, port: int) -> None:
    """Send ``SIZE`` bytes over a TCP connection, by ordinary sockets."""
    with lab.popen(dst, [sys.executable, "-S", "-c", SERVE, str(port)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        address = FABRIC.hosts[FABRIC.host_index[dst]].ip
        sender = [sys.executable, "-S", "-c", SEND, address, str(port), str(SIZE)]
        assert lab.run(src, sender, timeout=READY_SECONDS).returncode == 0
        assert server.stdout.readline() == f"{SIZE}\n"


@pytest.mark.parametrize("enforcement", ["per_flow", "segment_routing"])
def test_each_connection_takes_the_planned_uplink_of_its_flow_and_no_other(
    running: tuple[Lab, Controller], enforcement: str
) -> None:
    lab, controller = running
    enforce(controller, enforcement)
    flows = {flow["id"]: flow for body in routes(FABRIC, controller).values() for flow in body["flows"]}
    assert flows["two/all/0"]["protocol"] == "tcp"
    assert (flows["two/all/0"]["src_port"], flows["two/all/0"]["dst_port"]) == (None, LISTENING)
    assert "protocol" not in flows["three/all/0"]
    uplink = {name: flow["pieces"][0]["links"][1] for name, flow in flows.items()}
    # Four equal flows and four uplinks: where one is counted, no other flow is planned.
    assert len(set(uplink.values())) == 4
    for name, connection in CONNECTIONS.items():
        before = uplink_packets(lab, FABRIC)
        transfer(lab, *connection)

        def packets(before: dict[str, int] = before) -> dict[str, int]:
            after = uplink_packets(lab, FABRIC)
            return {link: after[link] - before[link] for link in after if link.startswith("leaf1->")}

        eventually(lambda packets=packets, name=name: packets()[uplink[name]] >= PACKETS, f"{name} is counted")  # type: ignore[misc]
        elsewhere = {link: count for link, count in packets().items() if link != uplink[name]}
        assert max(elsewhere.values()) < PACKETS // 10, elsewhere
    # Switches hold the rules as they were sent, and packets are traced along them.
    controller.wait_for("all is well", controller.is_well)
    traced = {flow["id"]: flow for flow in controller.get("/v1/trace").body["flows"]}
    assert {name: flow["real"][1] for name, flow in traced.items()} == uplink
    assert {(flow["how"], flow["differs"], flow["arrives"]) for flow in traced.values()} == {("rules", False, True)}


def test_what_switches_or_hosts_cannot_tell_apart_is_refused_and_changes_nothing(
    running: tuple[Lab, Controller],
) -> None:
    _, controller = running

    def revisions() -> dict[str, str]:
        return {row["name"]: row["revision"] for row in controller.get("/v1/jobs").body["jobs"]}

    before = revisions()
    shared = {"protocol": "tcp", "flows": [{"src": "h1", "dst": "h3", "bytes": 1, "dst_port": LISTENING}]}
    answer = controller.put("/v1/jobs/four", shared)
    assert (answer.status, answer.body["field"], answer.body["value"]) == (422, "flows[0].dst_port", LISTENING)
    assert "two/all/0 from h1 to h3 already has this port" in answer.body["detail"]
    answer = controller.put("/v1/mode", {"enforcement": "source_port"})
    assert answer.status == 409
    assert "the protocol of one/all/0 is tcp" in answer.body["detail"]
    assert controller.get("/v1/mode").body["enforcement"] == "per_flow"
    assert revisions() == before
