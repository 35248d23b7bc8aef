"""One server of a measured iteration: it sends real bytes to others over TCP, and checks what it gets.

``python -m emulation.circuits.traffic`` reads one line of JSON with its tasks (``ServerTasks``) from standard input,
connects to all peers, prints ``ready``, waits for a line, runs, and prints one line of JSON with its times on the
machine's monotonic clock, and whether all sums were right. A ring all-reduce adds integers in 2 (n - 1) steps; each
message ends with the sum of its bytes.
"""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

PORT = 18515
_ITEM = 8
_CONNECT_SECONDS = 120.0
_TRY_AGAIN_SECONDS = 0.1
_HEADER = 64
_CHUNK = 1 << 16
_SLICES = 8
"""Of a chunk of a ring."""
_SO_MAX_PACING_RATE, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 47, 32, 33
"""Of Linux (socket(7)); Python has no names for them."""
_BUFFER_BYTES = 4_000_000
"""Of each connection, in both directions. A round trip takes a second where acknowledgements wait behind full queues,
and windows that grow by round trips, as Linux sets them by itself, leave circuits idle meanwhile."""
_CONGESTION_CONTROL = b"reno"
"""It widens the window until a packet is lost, which none is here. The usual one (CUBIC) stops as soon as round trips
take longer (HyStart)."""
_PIECE = 4400
"""Bytes of a message that are sent at a time: they fit a packet of the lab."""


@dataclass(frozen=True)
class RingWay:
    """An address of the next member of a ring, and the share of the bytes that go to it."""

    address: str
    share: float


@dataclass(frozen=True)
class RingTask:
    """The part of a server in a ring.

    Attributes:
        name: of the ring.
        position, n: of the server, among the members.
        ways: to the next member.
        shares_in: of the ways by which the member before sends.
        bytes: of the vector.
        pace: the bytes per second that the server sends at most.
    """

    name: str
    position: int
    n: int
    ways: tuple[RingWay, ...]
    shares_in: tuple[float, ...]
    bytes: int
    pace: int

    @classmethod
    def of_document(cls, row: dict[str, Any]) -> RingTask:
        """Return the task of the document that ``asdict`` makes of it."""
        ways = tuple(RingWay(**way) for way in row["ways"])
        return cls(**row | {"ways": ways, "shares_in": tuple(row["shares_in"])})


@dataclass(frozen=True)
class MessageTask:
    """A message to an address, with ``pace`` bytes per second from its begin to its end."""

    address: str
    bytes: int
    pace: int


@dataclass(frozen=True)
class ServerTasks:
    """All that a server does: the messages that it gets are counted by their senders' connections.

    The packets of its messages take turns, in order of the list.
    """

    rings: tuple[RingTask, ...]
    messages: tuple[MessageTask, ...]
    messages_in: int

    def line(self) -> str:
        """Return the line for standard input, without its end."""
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> ServerTasks:
        """Return the tasks of a line."""
        document = json.loads(line)
        return cls(
            tuple(RingTask.of_document(row) for row in document["rings"]),
            tuple(MessageTask(**row) for row in document["messages"]),
            document["messages_in"],
        )


def elements_of(size: int, n: int) -> int:
    """Return the length of a ring's vector of integers: at least one for each of its n members, in equal chunks."""
    return max(1, round(size / _ITEM / n)) * n


def parts_of(size: int, shares: Sequence[float]) -> list[int]:
    """Return where a slice of a ring is divided over ways: the begin of each part, and the end of the last one."""
    ends = np.round(np.cumsum(shares) / sum(shares) * size).astype(int)
    return [0, *ends.tolist()]


class _Server:
    def __init__(self, tasks: ServerTasks) -> None:
        self.tasks = tasks
        self.wrong: list[str] = []
        self.rings_in: dict[tuple[str, int], socket.socket] = {}
        self.messages_in: list[socket.socket] = []
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self.listener.bind(("0.0.0.0", PORT))
        self.listener.listen(1024)

    def run(self) -> None:
        accepting = threading.Thread(target=self._accept)
        accepting.start()
        rings_out = [
            [
                _connected(way.address, f"ring {ring.name} {i}", round(ring.pace * way.share))
                for i, way in enumerate(ring.ways)
            ]
            for ring in self.tasks.rings
        ]
        messages_out = [_connected(message.address, "message") for message in self.tasks.messages]
        accepting.join()
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        work = [
            *(
                threading.Thread(target=self._reduce, args=each)
                for each in zip(self.tasks.rings, rings_out, strict=True)
            ),
            *(
                threading.Thread(target=_send, args=(message, out, turn / len(messages_out)))
                for turn, (message, out) in enumerate(zip(self.tasks.messages, messages_out, strict=True))
            ),
            *(threading.Thread(target=self._receive, args=(each,)) for each in self.messages_in),
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        print(json.dumps({"began": began, "ended": time.monotonic(), "wrong": self.wrong}), flush=True)

    def _accept(self) -> None:
        ways_in = sum(len(ring.shares_in) for ring in self.tasks.rings)
        while len(self.rings_in) < ways_in or len(self.messages_in) < self.tasks.messages_in:
            connection, _ = self.listener.accept()
            kind, *which = _exactly(connection, _HEADER).decode().split()
            if kind == "ring":
                self.rings_in[which[0], int(which[1])] = connection
            else:
                self.messages_in.append(connection)

    def _reduce(self, ring: RingTask, out: Sequence[socket.socket]) -> None:
        """Send each slice of a chunk on as soon as it has arrived, so that no circuit waits for a whole chunk."""
        n, length = ring.n, elements_of(ring.bytes, ring.n)
        vector = np.arange(length, dtype=np.int64) * (ring.position + 1)
        chunks = vector.reshape(n, -1)
        steps = 2 * (n - 1)
        slices = np.array_split(np.arange(chunks.shape[1]), min(_SLICES, chunks.shape[1]))
        shares = [way.share for way in ring.ways]
        ready: list[queue.SimpleQueue[bytes]] = [queue.SimpleQueue() for _ in out]

        def pass_on(data: bytes) -> None:
            for way, (begin, end) in zip(ready, pairwise(parts_of(len(data), shares)), strict=True):
                way.put(data[begin:end])

        def taken(size: int) -> bytes:
            parts = enumerate(pairwise(parts_of(size, ring.shares_in)))
            return b"".join(_exactly(self.rings_in[ring.name, i], end - begin) for i, (begin, end) in parts)

        for own in slices:
            pass_on(chunks[ring.position, own[0] : own[-1] + 1].tobytes())
        # A way on which packets wait does not hold up the others.
        senders = [
            threading.Thread(target=_send_all, args=(*each, steps * len(slices)))
            for each in zip(out, ready, strict=True)
        ]
        for sender in senders:
            sender.start()
        for step in range(steps):
            chunk = chunks[(ring.position - step - 1) % n]
            for own in slices:
                part = chunk[own[0] : own[-1] + 1]
                arrived = np.frombuffer(taken(len(part) * _ITEM), dtype=np.int64)
                part[:] = part + arrived if step < n - 1 else arrived
                if step + 1 < steps:
                    pass_on(part.tobytes())
        for sender in senders:
            sender.join()
        if not np.array_equal(vector, np.arange(length, dtype=np.int64) * (n * (n + 1) // 2)):
            self.wrong.append(f"ring {ring.name}")

    def _receive(self, connection: socket.socket) -> None:
        total, left = 0, int.from_bytes(_exactly(connection, _ITEM))
        while left:
            piece = connection.recv(min(left, _CHUNK))
            if not piece:
                raise ConnectionError("a message ended early")
            total += sum_of(np.frombuffer(piece, dtype=np.uint8))
            left -= len(piece)
        if total != int.from_bytes(_exactly(connection, _ITEM)):
            self.wrong.append("message")
        # The sender's part ends when all has arrived.
        connection.sendall(b".")


def sum_of(values: NDArray[np.uint8]) -> int:
    """Return the sum of bytes."""
    return int(values.sum(dtype=np.int64))


def _send(message: MessageTask, out: socket.socket, turn: float) -> None:
    """Send a message at its pace, which the kernel would not: it sends the first ten packets at once.

    ``turn``: the part of the time between two packets that is waited before the first one.
    """
    payload = np.resize(np.arange(251, dtype=np.uint8), message.bytes)
    data, begins = payload.tobytes(), range(0, message.bytes, _PIECE)
    pause = message.bytes / max(1, message.pace) / len(begins)
    due = time.monotonic() + turn * pause
    out.sendall(message.bytes.to_bytes(_ITEM))
    for begin in begins:
        time.sleep(max(0.0, due - time.monotonic()))
        out.sendall(data[begin : begin + _PIECE])
        due += pause
    out.sendall(sum_of(payload).to_bytes(_ITEM))
    _exactly(out, 1)


def _send_all(out: socket.socket, ready: queue.SimpleQueue[bytes], count: int) -> None:
    for _ in range(count):
        out.sendall(ready.get())


def _connected(address: str, name: str, pace: int | None = None) -> socket.socket:
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _CONGESTION_CONTROL)
        connection.settimeout(_CONNECT_SECONDS)
        try:
            connection.connect((address, PORT))
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(_TRY_AGAIN_SECONDS)
            continue
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if pace is not None:
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, max(1, pace))
        connection.sendall(name.ljust(_HEADER).encode())
        return connection


def _exactly(connection: socket.socket, size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        piece = connection.recv(min(size - len(pieces), _CHUNK))
        if not piece:
            raise ConnectionError(f"ended after {len(pieces)} of {size} bytes")
        pieces += piece
    return bytes(pieces)


if __name__ == "__main__":
    _Server(ServerTasks.of_line(sys.stdin.readline())).run()
