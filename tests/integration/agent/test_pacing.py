"""Flows keep their paces on the kernel of a host: rates of arrivals, adoption, removal, and what others have set."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.model.files.clos import clos
from tests.rig.host_agent import HostAgent, PlanServer
from tests.rig.host_plans import host_plan
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

PACED, FREE = 50001, 50002
PACE_GBPS = 0.01
WITHIN = 0.05
PAYLOAD, PACKETS, AT_ONCE = 4096, 400, 40
WIRE = PAYLOAD + 8 + 20 + 40 + 14 + 24
"""Bytes of a packet on the link: UDP, IPv4, the outer IPv6 header, Ethernet, and what the kernel does not count."""

SEND = """
import socket, sys
src, dst, port, count, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind((src, port))
    for number in range(count):
        sender.sendto(number.to_bytes(4, "big") + bytes(size - 4), (dst, 4791))
"""

RECEIVE = """
import json, socket, struct, sys
dst, count = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
    receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
    receiver.setsockopt(socket.SOL_SOCKET, 35, 1)
    receiver.bind((dst, 4791))
    receiver.settimeout(60)
    print("ready", flush=True)
    seen = []
    while len(seen) < count:
        data, control, _, _ = receiver.recvmsg(9000, 1024)
        seconds, nanoseconds = struct.unpack("qq", control[0][2])
        seen.append((int.from_bytes(data[:4], "big"), seconds + nanoseconds / 1e9))
    print(json.dumps(seen))
"""
"""Reads when the kernel received each packet."""

LINK = """
import json, socket, sys
device, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as link:
    link.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
    link.bind((device, 3))
    link.settimeout(60)
    print("ready", flush=True)
    seen = []
    while len(seen) < count:
        frame, address = link.recvfrom(1 << 16)
        if address[2] == socket.PACKET_OUTGOING and len(frame) > size:
            seen.append(int.from_bytes(frame[-size:][:4], "big"))
    print(json.dumps(seen))
"""
"""Reads packets as a host puts them on its link. At the receiver, packets that two processors have sent can change
places: each processor of this machine has a queue of its own for what comes by a veth.
"""


class World(NamedTuple):
    lab: RouterLab
    agent: HostAgent
    server: PlanServer

    def plan(self, epoch: int, paces: dict[int, float]) -> None:
        """Hand out a plan of two flows, over one path, with paces by port."""
        path = self.lab.fabric.live_paths(0, 1).tolist()[0]
        document = host_plan(self.lab, 0, [(1, port, path) for port in (PACED, FREE)], epoch, probes=False)
        for row in document["flows"]:
            row["wire_gbps"] = row["pace_gbps"] = paces.get(row["src_port"])
        self.server.plan(document)

    def paced(self, epoch: int, count: int) -> dict[str, Any]:
        """Wait until the agent says that it paces so many flows."""
        return self.server.wait_for_report(
            f"{count} flows are paced in epoch {epoch}",
            lambda each: each["epoch"] == epoch and each["pacing"]["paced"] == count,
        )

    def shown(self, *command: str) -> str:
        return self.lab.run("h1", *command)

    @property
    def device(self) -> str:
        """The interface of the sender."""
        return self.lab.interface("h1")

    @property
    def disciplines(self) -> list[tuple[str, str]]:
        rows = json.loads(self.shown("tc", "-j", "qdisc", "show", "dev", self.device))
        return [(row["kind"], row["handle"]) for row in rows]

    @property
    def tables(self) -> str:
        return self.shown("nft", "list", "tables")

    def arrivals(self, port: int, count: int = PACKETS) -> list[tuple[int, float]]:
        """Send packets of a flow as fast as the host takes them; return numbers and times of those that arrive."""
        sender, receiver = self.lab.fabric.hosts[:2]
        program = [sys.executable, "-c", RECEIVE, receiver.ip, str(count)]
        with subprocess.Popen(self.lab.inside(receiver.name, *program), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            self.lab.run(
                sender.name, sys.executable, "-c", SEND, sender.ip, receiver.ip, *map(str, (port, count, PAYLOAD))
            )
            rows: list[tuple[int, float]] = json.loads(process.stdout.read())
        return rows

    def gbps(self, port: int) -> float:
        """Rate on the link, without the packets that may be sent at once."""
        times = [at for _, at in self.arrivals(port)][AT_ONCE:]
        return 8e-9 * WIRE * (len(times) - 1) / (times[-1] - times[0])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        lab = stack.enter_context(RouterLab(clos(2, 2, 1), tmp_path))
        server = stack.enter_context(PlanServer(lab, "h1"))
        agent = HostAgent(lab, "h1", tmp_path / "agent", "--probe-ms", "0")
        stack.callback(agent.close)
        yield World(lab, agent, server)


def ready(world: World, paces: dict[int, float]) -> None:
    """Start the agent, and wait until packets arrive."""
    world.plan(1, paces)
    world.agent.start()
    world.paced(1, len(paces))
    # The first packets find the neighbours.
    eventually(lambda: _reaches(world), "packets arrive")


def keeps(world: World, port: int, gbps: float) -> None:
    """Wait until a flow has this rate: a sender that gets no processor for long leaves the link idle."""
    seen: list[float] = []

    def kept() -> bool:
        seen.append(world.gbps(port))
        return seen[-1] == pytest.approx(gbps, rel=WITHIN)

    eventually(kept, f"the flow has {gbps} Gbit/s", shown=lambda: seen)


def exceeds(world: World, port: int, gbps: float) -> None:
    """Wait until a flow has more than this rate."""
    seen: list[float] = []

    def faster() -> bool:
        seen.append(world.gbps(port))
        return seen[-1] > gbps

    eventually(faster, f"the flow has more than {gbps} Gbit/s", shown=lambda: seen)


def _reaches(world: World) -> bool:
    """Return whether packets get onto the link of the receiver."""
    fabric = world.lab.fabric
    before = world.lab.sent()[fabric.n_hosts + 1]
    sender, receiver = fabric.hosts[:2]
    world.lab.run("h1", sys.executable, "-c", SEND, sender.ip, receiver.ip, str(FREE), "20", "100")
    return world.lab.sent()[fabric.n_hosts + 1] >= before + 20


def test_a_paced_flow_keeps_its_rate_another_one_does_not_and_a_new_plan_changes_it(world: World) -> None:
    ready(world, {PACED: PACE_GBPS})
    keeps(world, PACED, PACE_GBPS)
    exceeds(world, FREE, 2 * PACE_GBPS)
    world.plan(2, {PACED: 2 * PACE_GBPS, FREE: PACE_GBPS})
    world.paced(2, 2)
    keeps(world, PACED, 2 * PACE_GBPS)
    keeps(world, FREE, PACE_GBPS)
    world.plan(3, {})
    world.paced(3, 0)
    exceeds(world, PACED, 4 * PACE_GBPS)
    assert world.shown("tc", "class", "show", "dev", world.device) == ""
    assert "fairspine_pacing" not in world.tables


@contextmanager
def left_in_order(world: World, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Send packets, and yield their sender once some wait; all leave in order."""
    sender, receiver = world.lab.fabric.hosts[:2]
    program = [sys.executable, "-c", LINK, world.device, str(count), str(PAYLOAD)]
    with subprocess.Popen(world.lab.inside("h1", *program), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        send = [sys.executable, "-c", SEND, sender.ip, receiver.ip, *map(str, (PACED, count, PAYLOAD))]
        with subprocess.Popen(world.lab.inside("h1", *send)) as sending:
            eventually(lambda: _waiting(world) > 0, "packets wait in the class")
            yield sending
        numbers = json.loads(process.stdout.read())
    assert numbers == list(range(count))


@pytest.mark.parametrize("packet_seconds", [0.03, 1.2], ids=["short", "longer-than-a-change-waits"])
def test_packets_that_wait_when_a_pace_ends_leave_in_order(world: World, packet_seconds: float) -> None:
    ready(world, {PACED: 8e-9 * WIRE / packet_seconds})
    # The sender's socket does not hold all of them, so it sends the others after those that wait.
    with left_in_order(world, PACKETS):
        world.plan(2, {})
        world.paced(2, 0)
    eventually(lambda: world.shown("tc", "class", "show", "dev", world.device) == "", "the class is removed")
    eventually(lambda: "fairspine_pacing" not in world.tables, "the table is removed")


def test_packets_that_wait_when_an_agent_ends_leave_in_order(world: World) -> None:
    ready(world, {PACED: 8e-9 * WIRE / 1.2})
    # The kernel loses packets that are sent while the discipline changes: the socket holds all of these.
    with left_in_order(world, 20) as sending:
        assert sending.wait() == 0
        assert world.agent.end() == 0
    assert world.disciplines == [("noqueue", "0:")]
    assert "fairspine" not in world.tables


def _waiting(world: World) -> int:
    shown = world.shown("tc", "-s", "class", "show", "dev", world.device)
    return sum(int(line.split()[2].removesuffix("p")) for line in shown.splitlines() if "backlog" in line)


def test_a_killed_agent_leaves_paces_the_next_one_adopts_them_and_a_clean_stop_removes_them(world: World) -> None:
    ready(world, {PACED: PACE_GBPS})
    world.agent.end(signal.SIGKILL)
    classes = world.shown("tc", "class", "show", "dev", world.device)
    assert "10Mbit" in classes
    world.server.refusal = 503
    world.agent.start()
    world.agent.wait_for_log("flows set")
    assert world.shown("tc", "class", "show", "dev", world.device) == classes
    keeps(world, PACED, PACE_GBPS)
    world.agent.end()
    assert world.disciplines == [("noqueue", "0:")]
    assert "fairspine" not in world.tables


def test_what_others_remove_is_set_again_and_what_others_have_set_stays(world: World) -> None:
    ready(world, {PACED: PACE_GBPS})
    world.shown("tc", "qdisc", "del", "dev", world.device, "root")
    world.shown("nft", "delete", "table", "inet", "fairspine_pacing")
    eventually(lambda: world.disciplines == [("htb", "fa00:")], "the discipline is back")
    keeps(world, PACED, PACE_GBPS)
    limit = ["rate", "100mbit", "burst", "20k", "latency", "1s"]
    world.shown("tc", "qdisc", "replace", "dev", world.device, "root", "handle", "5:", "tbf", *limit)
    report = world.paced(1, 0)
    assert report["pacing"]["planned"] == 1
    assert report["pacing"]["reason"] == f"{world.device} has a queueing discipline that others have set (tbf)"
    assert world.agent.end() == 0
    assert world.disciplines == [("tbf", "5:")]


def test_pacing_can_be_switched_off(world: World) -> None:
    world.plan(1, {PACED: PACE_GBPS})
    world.agent.start("--pacing", "off")
    report = world.paced(1, 0)
    assert report["pacing"] == {"planned": 1, "paced": 0, "dropped": 0, "reason": "--pacing off"}
    assert world.disciplines == [("noqueue", "0:")]
    assert world.agent.end() == 0
    tables = world.tables
    done = subprocess.run(world.agent.command("--pacing", "fq"), capture_output=True, text=True)
    assert done.returncode == 2
    assert "--pacing: is auto, htb, off, and not 'fq'" in done.stderr
    assert world.tables == tables
