"""A stream of numbered datagrams from one host of a lab to another."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from controller.model.packets.port_numbers import ROCE_PORT
from tests.rig.routers.router_lab import LabOfHosts
from tests.rig.waiting import standing

SENDER = """
import socket, sys, time
src, dst, port, dst_port, gap = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
family = socket.AF_INET6 if ":" in src else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as sender:
    sender.bind((src, port))
    number, due = 0, time.monotonic()
    sys.stdin = open(0, "rb", buffering=0)
    import select
    while not select.select([0], [], [], max(due - time.monotonic(), 0))[0]:
        sender.sendto(number.to_bytes(8, "big"), (dst, dst_port))
        number += 1
        # A sender that was held up sends no burst.
        due = max(due + gap, time.monotonic())
    print(number)
"""

RECEIVER = """
import json, select, socket, sys, time
dst, port = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET6 if ":" in dst else socket.AF_INET, socket.SOCK_DGRAM) as receiver:
    receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
    receiver.bind((dst, port))
    print("ready", flush=True)
    count, last, longest, at = 0, -1, 0, time.monotonic()
    gap = 0.0
    while True:
        ready = select.select([receiver, 0], [], [])[0]
        if receiver in ready:
            number = int.from_bytes(receiver.recv(64), "big")
            now = time.monotonic()
            if number - last - 1 > longest:
                longest, gap = number - last - 1, now - at
            count, last, at = count + 1, max(last, number), now
        if 0 in ready:
            word = sys.stdin.readline().strip()
            print(json.dumps({"received": count, "longest": longest, "seconds": gap}), flush=True)
            if word == "end":
                break
"""


class Stream:
    """A stream of ``rate`` datagrams a second that runs until it is ended."""

    def __init__(self, lab: LabOfHosts, src: int, dst: int, port: int, rate: float = 1000) -> None:
        """Start it."""
        sender, receiver = lab.fabric.hosts[src], lab.fabric.hosts[dst]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        program = [sys.executable, "-c", RECEIVER, receiver.ip, str(ROCE_PORT)]
        self._receiver = subprocess.Popen(lab.inside(receiver.name, *program), **pipes)
        assert self._receiver.stdout is not None
        self._receiver.stdout.readline()
        options = [sender.ip, receiver.ip, str(port), str(ROCE_PORT), str(1 / rate)]
        self._sender = subprocess.Popen(lab.inside(sender.name, sys.executable, "-c", SENDER, *options), **pipes)

    def received(self) -> int:
        """Return how many datagrams have arrived."""
        return int(self.state("?")["received"])

    def state(self, word: str) -> dict[str, float]:
        """Return how many have arrived, the most that were missing in a row, and for how long."""
        assert self._receiver.stdin is not None
        assert self._receiver.stdout is not None
        self._receiver.stdin.write(word + "\n")
        self._receiver.stdin.flush()
        document: dict[str, float] = json.loads(self._receiver.stdout.readline())
        return document

    def end(self) -> tuple[int, int]:
        """End it, and return how many datagrams were sent and received."""
        sent = int(self._sender.communicate("end\n")[0])
        if self.received() < sent:
            # Some are on their way through switches that are programs.
            standing(self.received)
        received = int(self.state("end")["received"])
        self._receiver.communicate()
        return sent, received
