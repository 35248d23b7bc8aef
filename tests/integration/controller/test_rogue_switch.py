"""A switch that misbehaves loses its own connection at most: honest ones beside it stay connected, and HTTP answers."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.files.clos import clos
from controller.southbound.limits.packet_budget import BACKLOG, GUARANTEED, PORT, WINDOW_SECONDS
from controller.southbound.openflow.observing import arp
from tests import openflow_writer as writer
from tests.fake_switch import encode
from tests.fake_switch.decode import header
from tests.fake_switch.fabric import FakeFabric
from tests.fake_switch.refusal import Refused
from tests.rig.bench import Bench
from tests.rig.both_kinds import Setup
from tests.rig.controller import Controller
from tests.rig.real_controller import free_ports
from tests.rig.switches.rogue import Rogue, memory, packet_in, ports, processor_seconds
from tests.rig.waiting import READY_SECONDS, eventually

FABRIC = clos(2, 2, 1)
SWITCHES = tuple(switch.name for switch in FABRIC.switches)
MIB = 1 << 20

PORTS = (1, 2, 3)
"""Of the switch that sends a flood of packets."""
FULL_RATE = len(PORTS) * (GUARANTEED + PORT) / WINDOW_SECONDS
"""Packets a second that the controller looks at."""
ENOUGH = 200
"""Seconds in which it would look at as many packets as the flood has."""


class World:
    """A controller with honest switches, and where rogue ones connect."""

    def __init__(self, controller: Controller, fakes: FakeFabric, address: tuple[str, int]) -> None:
        self.controller, self.fakes, self.address = controller, fakes, address

    @property
    def log(self) -> str:
        return self.controller.log.read_text()

    @property
    def reasons(self) -> str:
        return " | ".join(self.controller.get("/healthz").body["reasons"])

    def counted(self, name: str) -> float:
        """The sum of a metric's samples."""
        text = self.controller.get("/metrics").body
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    def connects(self) -> list[int]:
        return [self.fakes.connects(name) for name in SWITCHES]


def started(setup: Setup, *options: str) -> World:
    # The honest switches are in this process, which may have to wait for a processor.
    patient = setup.file("patient.conf", "[DEFAULT]\nmaximum_unreplied_echo_requests = 60\n")
    controller, address = setup.controller(FABRIC, "--config-file", patient, *options)
    fakes = setup.fakes(FABRIC, address)
    fakes.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    return World(controller, fakes, address)


@contextmanager
def undisturbed(world: World) -> Iterator[None]:
    """Honest switches stay connected, hosts reach each other, and HTTP answers, during what happens inside."""
    before = world.connects()
    unanswered: list[OSError] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.1):
            try:
                world.controller.get("/healthz")
            except OSError as error:
                unanswered.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        yield
    finally:
        over.set()
        asker.join()
    assert unanswered == []
    assert world.connects() == before
    assert world.fakes.ping_all() == []


def multipart(kind: int, body: bytes, xid: int = 1, *, more: bool = False) -> bytes:
    return writer.message(ofp.OFPT_MULTIPART_REPLY, xid, struct.pack("!HH4x", kind, more) + body)


ZEROES = {
    "HELLO": writer.message(ofp.OFPT_HELLO, 1, struct.pack("!HH", 1, 0)),
    "header": struct.pack("!BBHI", 4, ofp.OFPT_ECHO_REQUEST, 0, 1),
    "FEATURES_REPLY": writer.hello() + writer.message(ofp.OFPT_FEATURES_REPLY, 1, b"short"),
    "version": writer.hello() + struct.pack("!BBHI", 1, 6, 8, 1),
    "endless": writer.hello() + writer.message(ofp.OFPT_EXPERIMENTER, 1, bytes(60_000)) * 20,
}


def test_messages_with_wrong_lengths_end_one_connection_in_one_line(setup: Setup) -> None:
    """Ryu's parser loops for ever on a HELLO of 12 bytes."""
    world = started(setup)
    pid = world.controller.pid
    with undisturbed(world):
        for data in ZEROES.values():
            for _ in range(3):
                with Rogue(world.address) as rogue:
                    rogue.send(data)
                    assert rogue.closed_within(READY_SECONDS)
        # Switches that have joined, too, in replies to what they were asked and of themselves.
        flow = struct.pack("!H", 0) + bytes(54)
        for n, answer in enumerate(
            (
                writer.message(ofp.OFPT_QUEUE_GET_CONFIG_REPLY, 1, bytes(7)),
                writer.message(ofp.OFPT_PORT_STATUS, 1, bytes(8)),
                writer.message(ofp.OFPT_FLOW_REMOVED, 1, bytes(40) + struct.pack("!HH4x", 1, 200)),
                writer.message(ofp.OFPT_PACKET_OUT, 1, bytes(70)),
            )
        ):
            with Rogue(world.address, dpid=0xBAD0 + n).join() as rogue:
                rogue.send(answer)
        wrong = Rogue(world.address, dpid=0xBAE0, answers=lambda message: _wrong_flows(message, flow))
        with wrong.join():
            eventually(lambda: "0xbae0" in world.log, "the reply is refused")
        spent, began = processor_seconds(pid), time.monotonic()
        time.sleep(1)
        assert processor_seconds(pid) - spent < 0.9 * (time.monotonic() - began)
    log = world.log
    assert log.count("HELLO element at byte 8 has length 0") == 1
    assert "Traceback" not in log


def _wrong_flows(message: bytes, entries: bytes) -> bytes | None:
    """A reply with these entries, where rules are asked for."""
    if header(message).type == ofp.OFPT_MULTIPART_REQUEST and message[8:10] == b"\0\1":
        return multipart(ofp.OFPMP_FLOW, entries, header(message).xid)
    return None


def test_idle_connections_are_given_up_and_honest_switches_get_in_meanwhile(setup: Setup) -> None:
    world = started(setup)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        idle = [stack.enter_context(Rogue(world.address)) for _ in range(1000)]
        slow = stack.enter_context(Rogue(world.address))
        world.fakes.cut("leaf1")
        world.fakes.reconnect("leaf1")
        world.controller.wait_for("it is back", world.controller.is_well)
        for byte in writer.hello()[:4]:
            slow.send(bytes([byte]))
            time.sleep(1)
        assert slow.closed_within(READY_SECONDS)
        assert all(rogue.closed_within(READY_SECONDS) for rogue in idle)
    world.controller.wait_for("it is counted", lambda: world.counted("fairspine_connections_ended_total") >= 1000)
    # One line a minute of it all.
    assert 1 <= world.log.count("its handshake made no progress") <= 3
    eventually(lambda: world.controller.get("/healthz").body["switches"]["connected"] == 4, "only honest ones are left")


def test_connections_beyond_the_limit_are_closed_at_once_and_displace_no_other(setup: Setup) -> None:
    world = started(setup, "--max-switch-connections", "24")
    with undisturbed(world), contextlib.ExitStack() as stack:
        # A quarter of the places is for switches that the fabric file does not name.
        joined = [stack.enter_context(Rogue(world.address, dpid=0xBAD00 + n)).join() for n in range(6)]
        one_more = stack.enter_context(Rogue(world.address, dpid=0xBADFF)).greet()
        eventually(lambda: one_more.ended, "there is no place for it")
        new = [stack.enter_context(Rogue(world.address)) for _ in range(40)]
        eventually(lambda: "are rejected" in world.reasons, "it is reported")
        assert all(rogue.closed_within(READY_SECONDS) for rogue in new)
        assert not any(rogue.ended for rogue in joined)
    assert "the limit is reached" in world.reasons
    world.fakes.cut("leaf1")
    world.fakes.reconnect("leaf1")
    world.controller.wait_for("it is back", lambda: world.controller.get("/healthz").body["switches"]["connected"] == 4)


def test_the_controller_outlives_that_no_file_can_be_opened(setup: Setup) -> None:
    world = started(setup)
    pid = world.controller.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    with undisturbed(world):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 3, before[1]))
        idle = [Rogue(world.address) for _ in range(30)]
        eventually(lambda: "a switch cannot connect" in world.log, "it is told")
        # Nor can clients of HTTP, for a moment.
        time.sleep(2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        for rogue in idle:
            assert rogue.closed_within(READY_SECONDS)
            rogue.socket.close()
    eventually(lambda: "open files are exhausted" in world.reasons, "it is told", shown=lambda: world.reasons)
    with Rogue(world.address).join():
        eventually(lambda: world.controller.get("/healthz").body["switches"]["connected"] == 5, "it is let in")


def test_an_endless_reply_ends_the_connection_and_is_reported(setup: Setup) -> None:
    """563 MB of it were 18.6 GB in the controller."""
    world = started(setup)
    flow = struct.pack("!H", 56) + bytes(46) + struct.pack("!HH4x", 1, 4)
    asked: list[int] = []

    def answers(message: bytes) -> bytes | None:
        if header(message).type == ofp.OFPT_MULTIPART_REQUEST and message[8:10] == b"\0\1":
            asked.append(header(message).xid)
            return b""
        return None

    with undisturbed(world), Rogue(world.address, answers=answers) as rogue:
        rogue.join()
        before = memory(world.controller.pid)
        eventually(lambda: bool(asked), "its rules are asked for")
        part = multipart(ofp.OFPMP_FLOW, flow * 1160, asked[0], more=True)
        sent = 0
        while rogue.send(part) and sent < 600 * MIB:
            sent += len(part)
        assert sent < 100 * MIB
        assert memory(world.controller.pid) - before < 100 * MIB
        # What nobody has asked for is not kept at all.
    # It is not in the fabric file; those that are may answer 256 MiB.
    eventually(lambda: "longer than 4 MiB" in world.reasons, "it is told", shown=lambda: world.reasons)
    assert world.log.count("longer than 4 MiB") <= 3
    with Rogue(world.address, dpid=0xBAF).join() as rogue:
        before = memory(world.controller.pid)
        for _ in range(500):
            assert rogue.send(multipart(ofp.OFPMP_FLOW, flow * 1160, 77, more=True))
        eventually(lambda: rogue.echoes > 2, "it is still spoken to")
        assert memory(world.controller.pid) - before < 50 * MIB


def test_ports_without_end_are_not_kept(setup: Setup) -> None:
    world = started(setup)
    before = memory(world.controller.pid)
    with undisturbed(world), Rogue(world.address).join() as rogue:
        for first in range(0, 30_000, 500):
            some = ports(first + 500)[first:]
            assert rogue.send(b"".join(encode.port_status(ofp.OFPPR_ADD, port) for port in some))
        eventually(lambda: "more than 4096 ports" in world.reasons, "it is told")
        assert memory(world.controller.pid) - before < 60 * MIB
    assert world.log.count("more than 4096 ports") <= 3


def test_a_flood_of_packets_costs_neither_its_switch_the_connection_nor_others_their_links(setup: Setup) -> None:
    world = started(setup)
    frame = arp.probe("10.9.9.9", "02:00:00:00:00:01")
    flood = b"".join(packet_in(PORTS[n % 3], frame) for n in range(900))
    with undisturbed(world), Rogue(world.address).join() as rogue:
        began, sent = time.monotonic(), 0
        while sent < ENOUGH * FULL_RATE or time.monotonic() - began < 8:
            assert rogue.send(flood)
            sent += 900
        echoes = rogue.echoes
        eventually(lambda: rogue.echoes > echoes, "it is still spoken to")
        assert not rogue.ended

        def too_many() -> float:
            """Packets that were looked at beyond the budget, with those that nobody has looked at yet."""
            budget = FULL_RATE * (time.monotonic() - began) + BACKLOG * len(PORTS) * (GUARANTEED + PORT)
            return sent - world.counted("fairspine_packet_ins_dropped_total") - budget

        eventually(lambda: too_many() < 0, "the budget is kept", shown=too_many)
    assert 1 <= world.log.count("exceeds its packet budget") <= 3
    world.controller.wait_for("no link is missed", lambda: "missing" not in world.reasons)


def test_floods_of_other_messages_are_a_line_each(setup: Setup) -> None:
    world = started(setup)
    refused = Refused(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_UNKNOWN)
    with undisturbed(world), Rogue(world.address).join() as rogue:
        size = len(world.log)
        floods = (
            writer.message(99, 1, bytes(65_000)),
            writer.message(ofp.OFPT_EXPERIMENTER, 1, bytes(65_000)),
            encode.error(refused, 12345, bytes(64)),
            encode.error(refused, 12345, b""),
            writer.message(ofp.OFPT_ECHO_REQUEST, 1, bytes(1000)),
            writer.message(ofp.OFPT_BARRIER_REPLY, 54321),
            writer.message(ofp.OFPT_FLOW_REMOVED, 1, bytes(40) + struct.pack("!HH4x", 1, 4)),
        )
        for message in floods:
            for _ in range(20):
                assert rogue.send(message * max(1, 60_000 // len(message)))
        echoes = rogue.echoes
        eventually(lambda: rogue.echoes > echoes + 1, "it is still spoken to")
        assert not rogue.ended
    assert len(world.log) - size < 5_000, world.log[size:]


def test_a_switch_that_does_not_read_is_disconnected_and_delays_no_other(setup: Setup) -> None:
    world = started(setup)
    with undisturbed(world), Rogue(world.address) as rogue:
        rogue.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        features = encode.features(1, rogue.dpid, 8)
        described = b"".join(writer.multipart(ofp.OFPMP_PORT_DESC, 2, map(encode.port, ports(3)), part_bytes=32_000))
        rogue.send(writer.hello())
        time.sleep(0.5)
        rogue.send(features)
        time.sleep(0.5)
        rogue.send(described)
        echo = writer.message(ofp.OFPT_ECHO_REQUEST, 1, bytes(60_000))
        before = memory(world.controller.pid)
        end = time.monotonic() + 60
        while rogue.send(echo):
            assert time.monotonic() < end
        assert memory(world.controller.pid) - before < 30 * MIB


def test_a_listener_that_ends_is_a_failure_of_the_program(setup: Setup, bench: Bench, tmp_path: Path) -> None:
    """Systemd starts it again after a failure only."""
    ends = tmp_path / "ends.py"
    ends.write_text(
        "from controller.southbound.openflow.connections.listener import OpenFlowServer\n"
        "OpenFlowServer.serve_forever = lambda self: None\n"
    )
    openflow, http = free_ports(2)
    argv = ["--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(http), "controller.app", str(ends)]
    controller = bench.controller(*argv, http_port=http, wait=False)
    assert controller.wait(READY_SECONDS) == 1
    assert "the OpenFlow listener has ended" in controller.log.read_text()
