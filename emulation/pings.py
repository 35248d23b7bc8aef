"""Echo requests between many hosts at once from one process, with a socket in each host's namespace.

The ``ping`` program would need a process for each pair. Here 240 pairs take a few milliseconds, and the loop can run
while the network changes, and report afterwards which packets were lost (RFC 792: type, code, checksum, identifier,
sequence number).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from emulation.netns import socket_in_netns_of

Pair = tuple[str, str]

_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_SOL_RAW, _ICMP_FILTER = 255, 1
_identifiers = itertools.count(os.getpid())
"""Every raw socket of a host sees every reply to it: two pingers must not take each other's."""

_HEADER = struct.Struct("!BBHHH")
_RECEIVE_BUFFER = 1 << 20
_GAP_SECONDS = 0.0005
"""Between two requests: a burst of all pairs at once would overrun the switches' receive queues."""


@dataclass
class Tally:
    """Counts of sent and lost requests of each (source, destination)."""

    sent: dict[Pair, int] = field(default_factory=dict)
    lost: dict[Pair, int] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[Pair]:
        """Pairs that lost at least one packet."""
        return [pair for pair, count in self.lost.items() if count]


class Pinger:
    """Echo sockets of some hosts: ``hosts`` maps a name to (process id in its namespace, address)."""

    def __init__(self, hosts: Mapping[str, tuple[int, str]]) -> None:
        """Open a socket for each host; ``hosts`` has a process id of its namespace and its IP address by name."""
        self._address = {name: address for name, (_, address) in hosts.items()}
        self._identifier = next(_identifiers) & 0xFFFF
        self._sequence = 0
        self._socket: dict[str, socket.socket] = {}
        self._poll = select.poll()
        self._owner: dict[int, str] = {}
        for name, (pid, address) in hosts.items():
            sock = socket_in_netns_of(pid, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            sock.setblocking(False)
            # The ports of a NIC share a namespace; the address chooses the port.
            sock.bind((address, 0))
            sock.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~(1 << _ECHO_REPLY) & 0xFFFFFFFF))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket[name] = sock
            self._owner[sock.fileno()] = name
            self._poll.register(sock, select.POLLIN)

    def close(self) -> None:
        """Close all sockets."""
        for sock in self._socket.values():
            sock.close()

    def __enter__(self) -> Pinger:
        """Return the pinger."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all sockets."""
        self.close()

    def round(self, pairs: Iterable[Pair], *, timeout: float) -> set[Pair]:
        """Send a request for each pair; return the pairs without answer ``timeout`` seconds after the last request."""
        waiting: dict[tuple[str, int], Pair] = {}
        for pair in pairs:
            waiting[self._send(pair)] = pair
            self._collect(waiting, _GAP_SECONDS)
        deadline = time.monotonic() + timeout
        while waiting and (left := deadline - time.monotonic()) > 0:
            self._collect(waiting, left)
        return set(waiting.values())

    def _send(self, pair: Pair) -> tuple[str, int]:
        source, destination = pair
        self._sequence = (self._sequence + 1) & 0xFFFF
        packet = _HEADER.pack(_ECHO_REQUEST, 0, 0, self._identifier, self._sequence)
        packet = _HEADER.pack(_ECHO_REQUEST, 0, _checksum(packet), self._identifier, self._sequence)
        # Where the host's own interface is down, or its neighbour does not answer, the packet counts as lost.
        with contextlib.suppress(OSError):
            self._socket[source].sendto(packet, (self._address[destination], 0))
        return source, self._sequence

    def _collect(self, waiting: dict[tuple[str, int], Pair], timeout: float) -> None:
        for fd, _ in self._poll.poll(max(timeout, 0) * 1000):
            owner = self._owner[fd]
            while True:
                try:
                    packet, (sender, _) = self._socket[owner].recvfrom(2048)
                except OSError:
                    break
                # A raw socket delivers the IP header too; its length stands in its first byte, in words.
                kind, _, _, identifier, sequence = _HEADER.unpack_from(packet, (packet[0] & 0x0F) * 4)
                if kind != _ECHO_REPLY or identifier != self._identifier:
                    continue
                pair = waiting.get((owner, sequence))
                if pair is not None and self._address[pair[1]] == sender:
                    del waiting[owner, sequence]


class Pinging:
    """Rounds of pings in the background while a ``with`` block runs; ``tally`` then has the losses."""

    def __init__(self, pinger: Pinger, pairs: Iterable[Pair], *, interval: float, timeout: float) -> None:
        """Prepare rounds every ``interval`` seconds; a request is lost after ``timeout`` seconds."""
        self.tally = Tally()
        self._pinger = pinger
        self._pairs = list(pairs)
        self._interval = interval
        self._timeout = timeout
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pings")

    def __enter__(self) -> Tally:
        """Start the rounds and return their tally."""
        self._thread.start()
        return self.tally

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the rounds and close the pinger."""
        self._enough.set()
        self._thread.join()
        self._pinger.close()

    def _run(self) -> None:
        while not self._enough.is_set():
            lost = self._pinger.round(self._pairs, timeout=self._timeout)
            for pair in self._pairs:
                self.tally.sent[pair] = self.tally.sent.get(pair, 0) + 1
                self.tally.lost[pair] = self.tally.lost.get(pair, 0) + (pair in lost)
            self._enough.wait(self._interval)


def _checksum(data: bytes) -> int:
    """RFC 1071, over an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
