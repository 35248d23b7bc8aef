"""A flow of 1,000 packets a second between two hosts of a lab, with a record of every packet.

Run as a script, it is one end of such a flow: ``python steady.py send IP PORT DESTINATION`` or ``... receive IP``. Both
end when their standard input does; the sender then prints the number of packets sent, and the receiver the packets
received, as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.model.packets.port_numbers import ROCE_PORT

if TYPE_CHECKING:
    from emulation.lab import Lab

RATE = 1000
"""Packets a second."""
SO_RCVBUFFORCE = 33
"""socket(7): beyond the system's limit, as root. So a receiver that waits for a processor loses no packets."""
_PACKET = struct.Struct("!Qd")
FLOW_WORDS = b"steady flow".ljust(100)


@dataclass(frozen=True)
class Record:
    """Sequence numbers and sending times (seconds of the monotonic clock) of the packets that arrived."""

    sent: int
    arrived: list[tuple[int, float]]

    @property
    def lost(self) -> int:
        """The number of packets lost since the receiver's first packet."""
        return self.sent - self.arrived[0][0] - len(self.arrived) if self.arrived else self.sent

    def gap(self, start: float, end: float) -> float:
        """Return the longest interruption between two times, in seconds; 0 if every packet arrived.

        It lasts from the last packet before it to the first one after it, by the times at which they were sent.
        """
        longest = 0.0
        for (number, at), (after, later) in zip(self.arrived, self.arrived[1:], strict=False):
            if after != number + 1 and start <= later and at <= end:
                longest = max(longest, later - at)
        return longest


class SteadyFlow:
    """A flow from one host to another, from a UDP source port, during a ``with`` block."""

    def __init__(self, lab: Lab, src: str, dst: str, udp_src: int) -> None:
        """Start the receiver and the sender."""
        ip = {host.name: host.ip for host in lab.fabric.hosts}
        self._receiver = self._start(lab, dst, ["receive", ip[dst], ip[src], str(udp_src)])
        self._sender = self._start(lab, src, ["send", ip[src], str(udp_src), ip[dst]])
        self.record = Record(0, [])

    @staticmethod
    def _start(lab: Lab, host: str, arguments: list[str]) -> subprocess.Popen[Any]:
        return lab.popen(
            host,
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> SteadyFlow:
        """Return the flow."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop both ends and read the record."""
        said, _ = self._sender.communicate(timeout=20)
        sent = json.loads(said)
        # Packets in transit arrive in far less.
        time.sleep(0.5)
        said, _ = self._receiver.communicate(timeout=20)
        self.record = Record(sent, [(number, at) for number, at in json.loads(said)])


def send(ip: str, port: int, destination: str) -> None:
    """Send by a fixed clock: a late packet is followed at once by the next."""
    sock = _socket(ip, port)
    number, start = 0, time.monotonic()
    while not _ended(max(0.0, start + number / RATE - time.monotonic())):
        with suppress(OSError):  # not arrived is what counts
            sock.sendto(_PACKET.pack(number, time.monotonic()) + FLOW_WORDS, (destination, ROCE_PORT))
        number += 1
    print(json.dumps(number))


def receive(ip: str, source: str, port: int) -> None:
    """Record every packet from one sender."""
    sock = _socket(ip, ROCE_PORT)
    sock.setblocking(False)
    arrived: list[tuple[int, float]] = []
    while True:
        ready, _, _ = select.select([sock, sys.stdin], [], [])
        while sock in ready:
            try:
                data, sender = sock.recvfrom(2048)
            except OSError:
                break
            if sender == (source, port):
                number, at = _PACKET.unpack_from(data)
                arrived.append((number, at))
        if sys.stdin in ready:
            print(json.dumps(arrived))
            return


def _socket(ip: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
    sock.bind((ip, port))
    return sock


def _ended(seconds: float) -> bool:
    """Wait up to ``seconds``; return whether standard input has ended meanwhile."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        receive(sys.argv[2], sys.argv[3], int(sys.argv[4]))
