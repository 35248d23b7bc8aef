"""The agent on a host of Linux routers: packets take planned paths, and go on through failures and restarts."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.linux.bpf_egress import BpfEgress
from agent.linux.bpf_kernel import PROGRAM
from agent.linux.bpf_objects import maps_of
from agent.plans.host_plan import SLOTS
from controller.model.files.clos import clos
from controller.model.priority import DSCP
from controller.southbound.srv6.host_document import WeightedPath
from emulation.netns import in_netns_of, socket_in_netns_of
from tests.documented import ROOT
from tests.rig.host_agent import HostAgent, PlanServer
from tests.rig.host_plans import host_plan
from tests.rig.packet_stream import Stream
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

PACKETS, MANY, MOST_ARRIVE = 20, 1000, 0.8
ARRIVE_SECONDS = 2.0
"""Patience for packets on their way: a busy machine forwards after the sender has ended, and some are lost."""
PORTS = (50001, 50002)
ETH_P_ALL = 3
SEND = """
import socket, sys
src, dst, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind((src, port))
    for _ in range(count):
        sender.sendto(b"x" * 100, (dst, 4791))
"""
"""A program that sends datagrams."""


class World(NamedTuple):
    steering: str
    lab: RouterLab
    agent: HostAgent
    server: PlanServer
    src: int
    dst: int

    @property
    def paths(self) -> list[int]:
        leaves = self.lab.fabric.host_leaf
        return self.lab.fabric.live_paths(int(leaves[self.src]), int(leaves[self.dst])).tolist()

    @property
    def interface(self) -> str:
        (end,) = self.lab.lab.wiring.ends("h1")
        return end.interface

    def slots(self) -> int:
        """The number of slots of sets of paths that the kernel holds."""
        if self.steering == "nft":
            return self.lab.run("h1", "nft", "list", "map", "inet", "fairspine_agent", "slots").count(" : ") - 1
        number = self.attached()
        assert number is not None
        return sum(1 for _ in maps_of(number)["slots"].read())

    def attached(self) -> int | None:
        """The id of the eBPF program at the host."""
        return in_netns_of(self.lab.lab.host("h1").pid, lambda: self._egress().program())

    def detach(self) -> None:
        """Remove the eBPF program."""
        in_netns_of(self.lab.lab.host("h1").pid, lambda: self._egress().detach())

    def _egress(self) -> BpfEgress:
        return BpfEgress(socket.if_nametoindex(self.interface), PROGRAM)

    def plan(self, *, epoch: int = 1, turned: bool = False, **options: Any) -> dict[str, Any]:
        """Two flows on two paths."""
        paths = self.paths[:2][:: -1 if turned else 1]
        flows = [(self.dst, port, path) for port, path in zip(PORTS, paths, strict=True)]
        return host_plan(self.lab, self.src, flows, epoch, **options)

    def confirmed(self, epoch: int) -> dict[str, Any]:
        return self.server.wait_for_report(f"epoch {epoch} is confirmed", lambda each: each["epoch"] == epoch)

    def send(self, port: int, count: int = PACKETS) -> None:
        fabric = self.lab.fabric
        src, dst = fabric.hosts[self.src], fabric.hosts[self.dst]
        self.lab.run(src.name, sys.executable, "-c", SEND, src.ip, dst.ip, str(port), str(count))

    def taken(self, port: int) -> set[int]:
        """The links that the packets of a flow take."""
        before = self.lab.sent()
        self.send(port)
        last = self.lab.fabric.n_hosts + self.dst
        deadline = time.monotonic() + ARRIVE_SECONDS
        while True:
            sent = [now - then for now, then in zip(self.lab.sent(), before, strict=True)]
            if sent[last] >= PACKETS or time.monotonic() > deadline:
                return {link for link, count in enumerate(sent) if count >= PACKETS}
            time.sleep(0.02)

    def shares(self) -> list[float]:
        """The parts of many packets that take each of two paths; a busy machine may lose some."""
        firsts = [self.lab.fabric.flow_links(self.src, self.dst, path)[1] for path in self.paths[:2]]
        before = self.lab.sent()

        def counts() -> list[int]:
            now = self.lab.sent()
            return [now[first] - before[first] for first in firsts]

        self.send(PORTS[0], MANY)
        eventually(lambda: sum(counts()) > MANY * MOST_ARRIVE, "packets have left", shown=counts)
        last = counts()
        return [count / sum(last) for count in last]

    def links(self, path: int) -> set[int]:
        return set(self.lab.fabric.flow_links(self.src, self.dst, path))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The eBPF program, compiled."""
    folder = tmp_path_factory.mktemp("ebpf")
    subprocess.run(["make", "-s", "-C", str(ROOT / "ebpf"), f"OUT={folder}"], check=True)
    return folder / "steering.o"


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    steering = getattr(request, "param", "nft")
    options = ["--steering", steering]
    if steering == "ebpf":
        options += ["--ebpf-object", str(request.getfixturevalue("program"))]
    fabric = clos(2, 2, 1)
    with ExitStack() as stack:
        lab = stack.enter_context(RouterLab(fabric, tmp_path))
        server = stack.enter_context(PlanServer(lab, "h1"))
        agent = HostAgent(lab, "h1", tmp_path / "agent", "--probe-ms", "0", *options)
        stack.callback(agent.close)
        yield World(steering, lab, agent, server, 0, fabric.n_hosts - 1)


both_ways = pytest.mark.parametrize("world", ["nft", "ebpf"], indirect=True)
"""Each test of what steering does, by either way."""


def ready(world: World) -> None:
    """Start the agent, and wait until packets arrive."""
    world.server.plan(world.plan())
    world.agent.start()
    world.confirmed(1)
    eventually(
        lambda: world.taken(PORTS[0]) == world.links(world.paths[0]), "neighbours are known, and packets take the path"
    )


@both_ways
def test_flows_to_one_host_take_their_own_paths_and_follow_a_new_plan(world: World) -> None:
    ready(world)
    eventually(
        lambda: [world.taken(port) for port in PORTS] == [world.links(path) for path in world.paths],
        "packets take the planned paths",
    )
    second = {**world.plan(epoch=2, turned=True), "digest": "2"}
    world.server.plan(second)
    world.confirmed(2)
    for port, path in zip(PORTS, world.paths[::-1], strict=True):
        assert world.taken(port) == world.links(path)
    # The changes of that plan: one flow is gone, and the other one takes its first path again.
    third = {**world.plan(epoch=3), "digest": "3", "destinations": None, "changes_of": "2"}
    world.server.plan({**third, "flows": third["flows"][:1], "gone": third["flows"][1:]})
    world.confirmed(3)
    assert world.taken(PORTS[0]) == world.links(world.paths[0])
    world.agent.wait_for_log("epoch 3: 2 flows set")
    report = world.server.wait_for_report("packets are counted", lambda each: each["flows"])
    assert {row["src_port"] for row in report["flows"]} <= set(PORTS)


@both_ways
def test_packets_in_any_order_are_spread_by_weights_and_leave_a_dead_path_of_the_set(world: World) -> None:
    ready(world)
    spread = tuple(map(WeightedPath, world.paths[:2], (0.75, 0.25)))
    world.server.plan(world.plan(epoch=2, spread=spread))
    world.confirmed(2)
    # Of each of the two flows.
    assert world.slots() == 2 * SLOTS
    # Each packet takes a path at random: seven standard deviations are allowed.
    assert world.shares()[0] == pytest.approx(0.75, abs=7 * (0.75 * 0.25 / (MANY * MOST_ARRIVE)) ** 0.5)
    down = world.lab.fabric.flow_links(world.src, world.dst, world.paths[0])[2]
    world.lab.cut((down - world.lab.fabric.first_cable_link) // 2)
    world.send(PORTS[0], MANY)
    world.server.wait_for_report("a path of the set is dead", lambda each: each["dead"])
    assert world.taken(PORTS[0]) == world.links(world.paths[1])
    # Back to one path: nothing of the set stays.
    world.server.plan(world.plan(epoch=3))
    world.confirmed(3)
    assert world.slots() == 0


@both_ways
def test_flows_leave_a_dead_path_when_a_router_tells(world: World) -> None:
    ready(world)
    dead = world.paths[0]
    down = world.lab.fabric.flow_links(world.src, world.dst, dead)[2]
    world.lab.cut((down - world.lab.fabric.first_cable_link) // 2)
    world.send(PORTS[0])
    report = world.server.wait_for_report("a path is dead", lambda each: each["dead"])
    assert [row["evidence"] for row in report["dead"]] == ["icmp"]
    assert world.taken(PORTS[0]) == world.taken(PORTS[1]) == world.links(world.paths[1])


def marks(world: World, port: int) -> set[tuple[int, int]]:
    """The DSCP of the outer and of the inner header of the packets of a flow, where the host sends them."""
    with socket_in_netns_of(world.lab.lab.host("h1").pid, socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((world.interface, ETH_P_ALL))
        wire.settimeout(ARRIVE_SECONDS)
        world.send(port)
        seen: list[tuple[int, int]] = []
        while len(seen) < PACKETS:
            frame = wire.recv(2048)
            outer, inner = frame[14:54], frame[54:]
            ours = frame[12:14] == b"\x86\xdd" and outer[6] == socket.IPPROTO_IPIP
            if ours and inner[20:22] == port.to_bytes(2, "big"):
                assert checksum(inner[:20]) == 0
                seen.append(((outer[0] & 15) << 2 | outer[1] >> 6, inner[1] >> 2))
        return set(seen)


def checksum(header: bytes) -> int:
    """The checksum of the internet; 0 for a header that has the right one."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@both_ways
def test_packets_are_marked_by_their_class_on_both_headers(world: World) -> None:
    ready(world)
    assert marks(world, PORTS[0]) == {(0, 0)}
    world.server.plan(world.plan(epoch=2, classes={PORTS[0]: 2}))
    world.confirmed(2)
    assert [marks(world, port) for port in PORTS] == [{(DSCP[2], DSCP[2])}, {(0, 0)}]
    # The class of a flow that is spread, and another one.
    spread = tuple(map(WeightedPath, world.paths[:2], (0.5, 0.5)))
    world.server.plan(world.plan(epoch=3, classes={PORTS[0]: 1, PORTS[1]: 3}, spread=spread))
    world.confirmed(3)
    assert [marks(world, port) for port in PORTS] == [{(DSCP[1], DSCP[1])}, {(DSCP[3], DSCP[3])}]
    # All that two hosts send each other, whatever its ports, but for one flow.
    flows = [(world.dst, PORTS[0], world.paths[0]), (world.dst, None, world.paths[1])]
    world.server.plan(host_plan(world.lab, world.src, flows, 4, classes={None: 3}))
    world.confirmed(4)
    assert [marks(world, port) for port in PORTS] == [{(0, 0)}, {(DSCP[3], DSCP[3])}]
    assert world.taken(PORTS[1]) == world.links(world.paths[1])
    # What the next agent takes over is what this one has set.
    world.agent.end(signal.SIGKILL)
    world.server.refusal = 503
    world.agent.start()
    world.agent.wait_for_log("flows set")
    assert marks(world, PORTS[1]) == {(DSCP[3], DSCP[3])}


def held(world: World) -> list[str]:
    """What the kernel of the host holds for an agent."""
    shown = [
        world.lab.run("h1", "ip", version, *what.split())
        for version in ("-4", "-6")
        for what in ("rule show priority 1000", "route show table all proto 250")
    ]
    shown.append(world.lab.run("h1", "nft", "list", "tables"))
    shown.append("" if world.attached() is None else PROGRAM)
    return [line for line in "\n".join(shown).splitlines() if line]


@both_ways
def test_a_killed_agent_leaves_all_and_the_next_one_takes_it_over_without_a_controller(world: World) -> None:
    ready(world)
    world.agent.end(signal.SIGKILL)
    before = held(world)
    world.server.refusal = 503
    assert world.taken(PORTS[0]) == world.links(world.paths[0])
    world.agent.start()
    world.agent.wait_for_log("flows set")
    assert held(world) == before
    assert world.taken(PORTS[0]) == world.links(world.paths[0])
    world.server.refusal = None
    # Another plan, after the controller has come back.
    world.server.plan(world.plan(epoch=2, turned=True))
    world.confirmed(2)
    assert world.taken(PORTS[0]) == world.links(world.paths[1])


@both_ways
def test_a_clean_stop_removes_all_and_keep_keeps_it(world: World) -> None:
    setting = f"/proc/sys/net/ipv6/conf/{world.lab.interface('h1')}/seg6_enabled"
    world.lab.run("h1", "sh", "-c", f"echo 0 > {setting}")
    ready(world)
    assert world.lab.run("h1", "cat", setting).strip() == "1"
    assert world.agent.end(signal.SIGTERM) == 0
    assert held(world) == []
    assert world.lab.run("h1", "cat", setting).strip() == "0"
    world.agent.start("--keep")
    world.agent.wait_for_log("flows set")
    assert world.agent.end(signal.SIGTERM) == 0
    assert held(world) != []
    subprocess.run(world.agent.command("--remove"), check=True)
    assert held(world) == []


def test_an_agent_that_steers_in_another_way_takes_over_and_loses_no_packet(world: World, program: Path) -> None:
    ready(world)
    stream = Stream(world.lab, world.src, world.dst, PORTS[1])
    eventually(lambda: stream.received() > 0, "packets arrive")
    for steering in ("ebpf", "nft"):
        world.agent.end(signal.SIGKILL)
        world.agent.start("--steering", steering, "--ebpf-object", str(program))
        world.server.reports.clear()
        world.confirmed(1)
        left = "\n".join(held(world))
        assert ("fairspine_agent" in left, PROGRAM in left) == (steering == "nft", steering == "ebpf")
    sent, received = stream.end()
    assert sent == received
    assert world.taken(PORTS[0]) == world.links(world.paths[0])


@both_ways
def test_a_restart_loses_no_packet(world: World) -> None:
    ready(world)
    stream = Stream(world.lab, world.src, world.dst, PORTS[0])
    eventually(lambda: stream.received() > 0, "packets arrive")
    world.agent.end(signal.SIGKILL)
    world.agent.start("--keep")
    world.server.reports.clear()
    world.confirmed(1)
    assert world.agent.end(signal.SIGTERM) == 0
    world.agent.start()
    world.server.reports.clear()
    world.confirmed(1)
    sent, received = stream.end()
    assert sent == received


@both_ways
def test_what_others_remove_is_set_again(world: World) -> None:
    ready(world)
    if world.steering == "nft":
        world.lab.run("h1", "nft", "flush", "ruleset")
    else:
        world.detach()
    world.lab.run("h1", *["ip", "route", "flush", "table", "250"])
    world.agent.wait_for_log("set again")
    eventually(lambda: world.taken(PORTS[1]) == world.links(world.paths[1]), "packets take the planned path again")


def test_where_plans_say_so_the_agent_reports_less_often_and_still_what_is_new(world: World) -> None:
    def plan(epoch: int) -> None:
        world.server.plan({**world.plan(epoch=epoch), "report_seconds": 3600})

    plan(1)
    world.agent.start()
    world.confirmed(1)
    # It looks at the kernel as often as elsewhere.
    world.lab.run("h1", *["ip", "route", "flush", "table", "250"])
    world.agent.wait_for_log("set again")
    plan(2)
    world.confirmed(2)
    assert [each["epoch"] for each in world.server.reports if each["epoch"] is not None] == [1, 2]


def test_without_nftables_all_packets_to_a_host_take_the_path_of_its_first_flow(world: World, tmp_path: Path) -> None:
    world.server.plan(world.plan())
    agent = HostAgent(world.lab, "h1", tmp_path / "agent", "--probe-ms", "0", "--steering", "route")
    agent.start()
    try:
        world.confirmed(1)
        eventually(lambda: world.taken(PORTS[1]) == world.links(world.paths[0]), "packets take the path")
        down = world.lab.fabric.flow_links(world.src, world.dst, world.paths[0])[2]
        world.lab.cut((down - world.lab.fabric.first_cable_link) // 2)
        world.send(PORTS[0])
        world.server.wait_for_report("a path is dead", lambda each: each["dead"])
        assert world.taken(PORTS[0]) == world.links(world.paths[1])
    finally:
        agent.close()


def test_probes_find_a_path_that_loses_packets_silently_and_that_it_works_again(world: World, tmp_path: Path) -> None:
    agent = HostAgent(world.lab, "h1", tmp_path / "agent", "--probe-ms", "20")
    world.server.plan(world.plan())
    agent.start()
    try:
        world.confirmed(1)
        world.server.wait_for_report(
            "probes of both paths come back",
            lambda each: len(each["round_trips"]) >= 2 and all(row["median_us"] for row in each["round_trips"]),
        )
        spine = world.lab.ends(world.lab.fabric.flow_links(world.src, world.dst, world.paths[0])[2])[0]
        drop = f"table netdev t {{ chain c {{ type filter hook egress device {spine[1]} priority 0; policy drop; }}; }}"
        try:
            world.lab.run(spine[0], "nft", drop)
        except RuntimeError as error:
            pytest.skip(f"the kernel cannot drop at egress: {error}")
        report = world.server.wait_for_report("a path is dead", lambda each: each["dead"])
        assert [row["evidence"] for row in report["dead"]] == ["probe"]
        eventually(lambda: world.taken(PORTS[0]) == world.links(world.paths[1]), "packets take the backup")
        world.lab.run(spine[0], "nft", "delete", "table", "netdev", "t")
        world.server.wait_for_report(
            "no path is dead", lambda each: each is world.server.reports[-1] and not each["dead"]
        )
        eventually(lambda: world.taken(PORTS[0]) == world.links(world.paths[0]), "packets take the planned path again")
    finally:
        agent.close()


def test_the_agent_is_refused_where_one_runs(world: World) -> None:
    ready(world)
    done = subprocess.run(world.agent.command(), capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "fairspine: an agent runs already in this network namespace"
