"""Errors in the name of a router: the agent hears those that routers send, and none that hosts send within carriers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.segment_ids import IdRange
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import READY_SECONDS, eventually

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 1)
VICTIM, ATTACKER = 0, 1
LISTEN = """
import socket, sys, time
from agent.linux.unreachable import UnreachableSocket, quoted
plain = socket.socket(socket.AF_INET6, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMPV6)
agent = UnreachableSocket()
print("ready", flush=True)
while True:
    for message in agent.read():
        print("agent", message.quoted, message.at, flush=True)
    try:
        data, sender = plain.recvfrom(2048)
    except BlockingIOError:
        time.sleep(0.01)
        continue
    message = quoted(data, sender[0])
    if message is not None:
        print("kernel", message.quoted, message.at, flush=True)
"""
SEND = """
import ipaddress, socket, struct, sys
addresses = (ipaddress.IPv6Address(each).packed if each else b"" for each in sys.argv[1:])
outer_source, outer, router, victim, quoted = addresses
lost = struct.pack("!IHBB", 6 << 28, 0, 59, 64) + victim + quoted
body = bytes([1, 0, 0, 0, 0, 0, 0, 0]) + lost
words = router + victim + struct.pack("!II", len(body), 58) + body
total = sum(struct.unpack(f"!{len(words) // 2}H", words))
while total >> 16:
    total = (total & 0xFFFF) + (total >> 16)
error = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
packet = struct.pack("!IHBB", 6 << 28, len(error), 58, 64) + router + victim + error
if outer:
    packet = struct.pack("!IHBB", 6 << 28, len(packet), 41, 64) + outer_source + outer + packet
to = ipaddress.IPv6Address(outer or victim)
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
    sender.sendto(packet, (str(to), 0))
"""
"""Sends an error in the name of a router to a victim; its arguments are the source and destination of the packet around
it (empty: there is none), the router, the victim, and the destination of the packet that it quotes."""


@contextmanager
def listening(lab: RouterLab, log: Path) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that says what was heard on the victim: by the agent's socket, and by one without its filter."""
    with log.open("w") as output:
        command = lab.inside("h1", sys.executable, "-c", LISTEN)
        with subprocess.Popen(command, stdout=output) as process:
            try:
                eventually(lambda: "ready" in log.read_text(), "it listens")
                yield lambda: log.read_text().splitlines()
            finally:
                process.terminate()
            process.wait(READY_SECONDS)


def test_an_error_within_a_carrier_is_not_heard_and_that_of_a_router_is(tmp_path: Path) -> None:
    with RouterLab(FABRIC, tmp_path) as lab:
        # As the agent sets it: packets with an IPv6 packet inside are taken in, too, for its probes.
        segment = lab.ids.prefix(IdRange(lab.ids.host(VICTIM, inner=6)))
        lab.run(
            "h1",
            *f"ip -6 route add {segment} encap seg6local action End.DT6 table 255".split(),
            "dev",
            lab.interface("h1"),
        )
        victim, attacker = (str(lab.source(host)) for host in (VICTIM, ATTACKER))
        *switches, _ = path_ids(lab.ids, ATTACKER, VICTIM, 0)
        carrier = str(lab.ids.address((*switches, lab.ids.host(VICTIM, inner=6))))
        router = str(lab.address_of(FABRIC.first_cable_link))
        own = [str(lab.ids.address(path_ids(lab.ids, VICTIM, ATTACKER, path))) for path in range(2)]
        with listening(lab, tmp_path / "messages") as heard:

            def forge() -> bool:
                lab.run("h2", sys.executable, "-c", SEND, attacker, carrier, router, victim, own[0])
                return f"kernel {own[0]} {router}" in heard()

            def tell() -> bool:
                leaf = FABRIC.hosts[VICTIM].leaf
                lab.run(leaf, sys.executable, "-c", SEND, "", "", router, victim, own[1])
                return f"agent {own[1]} {router}" in heard()

            eventually(forge, "the forged error arrives", shown=heard)
            eventually(tell, "that of the router is heard", shown=heard)
            assert f"agent {own[0]} {router}" not in heard()
