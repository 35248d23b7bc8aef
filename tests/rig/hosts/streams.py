"""Flows sent from the ports that the controller tells, and counted where they arrive."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from controller.model.fabric import Fabric
from emulation.lab import Lab
from tests.rig.checks.jobs import active, routes
from tests.rig.controller import Controller
from tests.rig.waiting import READY_SECONDS, eventually

Child = subprocess.Popen[str]

PACKETS = 200
"""Many more than discovery and ARP send over a cable meanwhile, also on a busy machine."""

PACKETS_PER_SECOND = 1500
"""Of all streams of a test together. Switches of a slow machine that also runs other tests forward twice as many. With
more, the queues of their ports fill, discovery packets wait in them, and cables count as silent."""

LEAST_INTERVAL = 0.002
"""Seconds between two packets of a stream, at least."""

STREAM = """
import socket, sys, threading, time
lines = [line.split() for line in iter(sys.stdin.readline, "\\n")]
sockets = []
for source, destination, port in lines:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((source, int(port)))
    s.connect((destination, 4791))
    sockets.append(s)
most, interval = int(sys.argv[1]), float(sys.argv[2])
stop = threading.Event()
if not most:
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
sent, first = 0, time.monotonic_ns()
while (sent < most if most else not stop.is_set()):
    for s in sockets:
        while True:
            try:
                s.send((first + sent).to_bytes(8, "big") + bytes(92))
                break
            except OSError:  # the other host's address is not known at the moment
                time.sleep(0.01)
    sent += 1
    if sent == 1:
        print("sending", flush=True)
    stop.wait(interval)
print(sent * len(sockets))
"""
"""Sends from each (source, destination, source port) of its input; so many packets, or (0) until the input ends."""

COUNT = """
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
s.bind((sys.argv[1], 4791))
print("ready", flush=True)
seen, ending = set(), False
while True:
    ready, _, _ = select.select([s] if ending else [s, sys.stdin], [], [], 2.0 if ending else None)
    if s in ready:
        data, sender = s.recvfrom(2048)
        seen.add((sender, data[:8]))
    elif ending:
        break
    ending = ending or sys.stdin in ready
print(len(seen))
"""
"""Counts different packets until its input has ended and nothing more comes."""


def enforce(controller: Controller, enforcement: str, mode: str = "planned") -> None:
    answer = controller.put("/v1/mode", {"mode": mode, "enforcement": enforcement})
    assert (answer.status, answer.body["enforcement"]) == (200, enforcement)
    active(controller)


@contextmanager
def _running(lab: Lab, commands: Mapping[str, list[str]], inputs: Mapping[str, str]) -> Iterator[dict[str, Child]]:
    """A program on each host, with the first part of its input; none is left at the end, nor a pipe to it."""
    children: dict[str, Child] = {}
    try:
        for name, command in commands.items():
            children[name] = child = lab.popen(
                name,
                [sys.executable, "-S", "-c", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert child.stdin is not None
            child.stdin.write(inputs.get(name, ""))
            child.stdin.flush()
        yield children
    finally:
        for child in children.values():
            child.kill()
            child.communicate()


def _says(children: Mapping[str, Child], word: str) -> None:
    for name, child in children.items():
        assert child.stdout is not None
        said = child.stdout.readline()
        assert said == f"{word}\n", (name, said)


def _number(name: str, child: Child) -> int:
    """The number that a program prints at the end of its input."""
    if child.stdin is not None:
        child.stdin.close()
        child.stdin = None
    assert child.stdout is not None
    # It may have been read together with the line before, where `communicate` would not see it.
    out = child.stdout.read()
    assert child.wait(timeout=READY_SECONDS) == 0, (name, out)
    return int(out)


@contextmanager
def counting(lab: Lab, fabric: Fabric) -> Iterator[Counter[str]]:
    """Packets that each host has received, once the block has ended."""
    received: Counter[str] = Counter()
    with _running(lab, {host.name: [COUNT, host.ip] for host in fabric.hosts}, {}) as children:
        _says(children, "ready")
        yield received
        for child in children.values():
            assert child.stdin is not None
            child.stdin.close()
            child.stdin = None
        for name, child in children.items():
            received[name] = _number(name, child)


def lines(told: Mapping[str, Any]) -> dict[str, list[str]]:
    """What each host sends, from the ports that it was told."""
    return {
        name: [
            f"{body['ip']} {flow['dst_ip']} {piece['udp_src']}" for flow in body["flows"] for piece in flow["pieces"]
        ]
        for name, body in told.items()
        if body["flows"]
    }


@contextmanager
def streaming(
    lab: Lab, told: Mapping[str, Any], packets: int = 0, *, rate: float = PACKETS_PER_SECOND
) -> Iterator[list[int]]:
    """All pieces of all flows, at a rate of packets a second together.

    Ends with the block. Filled with the number of packets sent by each host then.
    """
    sent: list[int] = []
    streams = lines(told)
    interval = max(LEAST_INTERVAL, sum(map(len, streams.values())) / rate)
    inputs = {name: "\n".join(text) + "\n\n" for name, text in streams.items()}
    with _running(lab, {name: [STREAM, str(packets), str(interval)] for name in inputs}, inputs) as children:
        _says(children, "sending")
        yield sent
        sent += [_number(name, child) for name, child in children.items()]


def carried(lab: Lab, fabric: Fabric) -> Counter[str]:
    """Packets received over each directed link between switches."""
    counters = {switch.name: lab.port_counters(switch.name) for switch in fabric.switches}
    seen: Counter[str] = Counter()
    for c, cable in enumerate(fabric.cables):
        assert cable.lower_port is not None
        assert cable.upper_port is not None
        up, down = fabric.link_ids[fabric.first_cable_link + 2 * c :][:2]
        seen[up] = counters[cable.upper][cable.upper_port].rx_packets
        seen[down] = counters[cable.lower][cable.lower_port].rx_packets
    return seen


def check_counted(
    lab: Lab, fabric: Fabric, controller: Controller, what: str, *, one_each: bool = False
) -> Counter[str]:
    """Send each planned piece, and check that its packets pass its links, and no others, and arrive.

    Args:
        lab: the switches.
        fabric: their fabric.
        controller: the controller, which has a plan.
        what: what to say if that is not so.
        one_each: check that each host that receives any receives one piece.

    Returns:
        how many pieces pass each link between switches.
    """
    told = routes(fabric, controller)
    pieces = [piece for body in told.values() for flow in body["flows"] for piece in flow["pieces"]]
    expected = Counter(link for piece in pieces for link in piece["links"][1:-1])
    before = carried(lab, fabric)
    with counting(lab, fabric) as received, streaming(lab, told, PACKETS):
        pass
    assert sum(received.values()) == PACKETS * len(pieces)
    assert not one_each or set(received.values()) == {PACKETS}

    def strays() -> dict[str, int]:
        after = carried(lab, fabric)
        extra = {link: after[link] - before[link] - PACKETS * expected[link] for link in after}
        # Discovery and ARP are the only others, fewer than any flow has, so a flow too many or too few shows.
        return {link: count for link, count in extra.items() if not 0 <= count < PACKETS}

    eventually(lambda: not strays(), f"{what}: flows are on their paths", shown=strays)
    return expected
