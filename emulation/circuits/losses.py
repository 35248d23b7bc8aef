"""Numbered datagrams between all servers while circuits change, and how many of them arrive.

``python -m emulation.circuits.losses`` is one server. It reads a line of JSON (``Streams``), prints ``ready``, and
after another line sends a datagram to each address in turn. A third line ends this: it waits for what is under way,
and prints how many it sent and how many it got.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.southbound.addresses import nic_address, tree_address
from emulation.circuits.lab import CircuitLab
from emulation.circuits.measure import on_servers, read_line, write_line

PORT = 18516
BYTES = 256
_PAUSE_SECONDS = 0.01
_UNDER_WAY_SECONDS = 2.0


@dataclass(frozen=True)
class Streams:
    """The addresses to which a server sends."""

    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Losses:
    """The numbers of all datagrams that were sent, and of those that arrived."""

    sent: int
    arrived: int


def streams(fabric: OpticalFabric, server: int, trees: int) -> Streams:
    """Return all addresses of all other servers: of trees, and of NICs."""
    others = [other for other in range(fabric.n_servers) if other != server]
    return Streams(
        tuple(
            address
            for other in others
            for address in (
                *(tree_address(other, tree) for tree in range(trees)),
                *(nic_address(other, nic) for nic in range(fabric.nics)),
            )
        )
    )


def losses_during(lab: CircuitLab, trees: int, action: Callable[[], None]) -> Losses:
    """Have all servers send to all others while something is done.

    Raises:
        LabError: a server failed.
    """
    with on_servers(lab, "emulation.circuits.losses", lab.optical.servers) as running:
        for server, (name, process) in enumerate(running.items()):
            write_line(process, json.dumps(asdict(streams(lab.optical, server, trees))))
            read_line(name, process)
        for process in running.values():
            write_line(process, "go")
        action()
        for process in running.values():
            write_line(process, "stop")
        counts = [json.loads(read_line(name, process)) for name, process in running.items()]
    return Losses(sum(row["sent"] for row in counts), sum(row["arrived"] for row in counts))


def _serve() -> None:
    addresses = json.loads(sys.stdin.readline())["addresses"]
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    own.bind(("0.0.0.0", PORT))
    arrived: set[tuple[str, bytes]] = set()
    stopping = threading.Event()
    threading.Thread(target=_receive, args=(own, arrived), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()
    sent = 0

    def send() -> None:
        nonlocal sent
        while not stopping.is_set():
            own.sendto(sent.to_bytes(8).ljust(BYTES), (addresses[sent % len(addresses)], PORT))
            sent += 1
            time.sleep(_PAUSE_SECONDS)

    sender = threading.Thread(target=send)
    sender.start()
    sys.stdin.readline()
    stopping.set()
    sender.join()
    time.sleep(_UNDER_WAY_SECONDS)
    print(json.dumps({"sent": sent, "arrived": len(arrived)}), flush=True)


def _receive(own: socket.socket, arrived: set[tuple[str, bytes]]) -> None:
    """Note each datagram once, by its sender and number."""
    while True:
        data, sender = own.recvfrom(BYTES)
        arrived.add((sender[0], data[:8]))


if __name__ == "__main__":
    _serve()
