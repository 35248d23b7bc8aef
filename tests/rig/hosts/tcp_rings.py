"""Training jobs in small: rings of processes that compute and send over TCP, from and to ports that nobody knows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from controller.model.fabric import Fabric
from emulation.lab import Lab

RANK = """
import socket, sys, threading, time
part, steps, period = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
server = socket.create_server(("", 0))
print(server.getsockname()[1], flush=True)
ip, port = sys.stdin.readline().split()
out = socket.create_connection((ip, int(port)))
into, _ = server.accept()
data, begin = bytes(part), time.monotonic()
while True:
    begin = max(begin + period, time.monotonic() + period / 4)
    time.sleep(max(begin - time.monotonic(), 0))
    for _ in range(steps):
        sender = threading.Thread(target=out.sendall, args=(data,), daemon=True)
        sender.start()
        left = part
        while left:
            got = into.recv(min(left, 1 << 20))
            if not got:
                sys.exit()
            left -= len(got)
        sender.join()
"""
"""A rank of an all-reduce by a ring: in each step it sends a part to the next rank and takes one from the one before,
which it sends on in the next step. Iterations begin by the clock, so that other work of the machine shows less, and it
computes for a quarter of the period at least, however late it is."""


@contextmanager
def ring(lab: Lab, fabric: Fabric, hosts: Sequence[str], part: int, period: float) -> Iterator[None]:
    """Run a ring until ``with`` ends: each host sends to the next one 2 (n - 1) parts of so many bytes in a period."""
    steps = 2 * (len(hosts) - 1)
    with ExitStack() as ending:
        ranks: list[subprocess.Popen[str]] = []
        for host in hosts:
            command = [sys.executable, "-S", "-c", RANK, str(part), str(steps), str(period)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            rank = ending.enter_context(lab.popen(host, command, text=True, **pipes))
            ending.callback(rank.kill)
            ranks.append(rank)
        ports = [_line(rank) for rank in ranks]
        for i, rank in enumerate(ranks):
            after = (i + 1) % len(ranks)
            assert rank.stdin is not None
            rank.stdin.write(f"{fabric.hosts[fabric.host_index[hosts[after]]].ip} {ports[after]}\n")
            rank.stdin.flush()
        yield


def _line(rank: subprocess.Popen[str]) -> str:
    assert rank.stdout is not None
    return rank.stdout.readline().strip()
