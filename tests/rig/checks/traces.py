"""Packets of flows with known paths, and traces that are newer than these."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from emulation.lab import Lab
from tests.rig.controller import Controller
from tests.rig.waiting import READY_SECONDS, eventually

SEND = """
import socket, sys, time
for line in sys.stdin:
    source, destination, port, packets = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, int(port)))
    for _ in range(int(packets)):
        s.sendto(b"x" * 500, (destination, 4791))
        time.sleep(0.0005)
    s.close()
"""


def traced(controller: Controller, query: str = "") -> dict[str, Any]:
    answer = controller.get(f"/v1/trace{query}")
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.body
    return body


def fresh(controller: Controller, is_so: Any, what: str) -> dict[str, Any]:
    """The first trace of which something is so; readings are good for a moment."""
    seen: list[dict[str, Any]] = []

    def ready() -> bool:
        seen.append(traced(controller))
        return bool(is_so(seen[-1]))

    eventually(ready, what, shown=lambda: [(f["id"], f["real"], f["why"]) for f in seen[-1]["flows"]])
    return seen[-1]


def send(lab: Lab, flows: Sequence[Mapping[str, Any]], packets: Sequence[int]) -> None:
    """Each host sends its flows, all hosts at once."""
    text: dict[str, list[str]] = {}
    ip = {host.name: host.ip for host in lab.fabric.hosts}
    for flow, many in zip(flows, packets, strict=True):
        line = f"{ip[flow['src']]} {ip[flow['dst']]} {flow['udp_src']} {many}"
        text.setdefault(flow["src"], []).append(line)
    children = [
        (lab.popen(name, [sys.executable, "-S", "-c", SEND], stdin=subprocess.PIPE, text=True), own)
        for name, own in text.items()
    ]
    for child, own in children:
        assert child.stdin is not None
        child.stdin.write("\n".join(own) + "\n")
        child.stdin.flush()
    for child, _ in children:
        child.communicate(timeout=READY_SECONDS)
        assert child.returncode == 0
