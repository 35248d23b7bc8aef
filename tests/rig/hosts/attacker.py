"""A host that sends frames of its choice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from emulation.lab import Lab
from tests.documented import ROOT
from tests.rig.waiting import READY_SECONDS

Send = Callable[[float, float, str], int]
"""Frames a second, seconds, and the frame (``*``: another one each time); how many were sent."""


@contextmanager
def attacker(lab: Lab, host: str) -> Iterator[Send]:
    """What sends frames from a host, in a process of the host's own."""
    interface = lab.host(host).defaultIntf().name
    argv = [sys.executable, "-m", "tests.rig.hosts.arp_sender", interface]
    process = lab.popen(host, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    orders, counts = process.stdin, process.stdout

    def send(per_second: float, seconds: float, frame: str) -> int:
        orders.write(f"{per_second} {seconds} {frame}\n")
        orders.flush()
        return int(counts.readline())

    try:
        yield send
    finally:
        process.communicate(timeout=READY_SECONDS)
