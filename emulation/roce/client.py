"""The measuring client: writes messages to a server over one or several queue pairs, and measures the throughput."""

from __future__ import annotations

import math
import random
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

from controller.model.errors import InputError
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.roce.lines import LineBuffer, LineError, to_line
from emulation.roce.sender import Sender, SenderOptions
from emulation.roce.server import CONTROL_PORT
from emulation.roce.shares import check_shares, split
from emulation.roce.udp import UdpEndpoint
from emulation.roce.wire import MAX_MESSAGE

_FIRST_QP = 0x11
_QUEUED_MESSAGES = 2
_ANSWER_SECONDS = 10.0


class MeasurementError(RuntimeError):
    """The server is not there, refused, or went away."""


@dataclass(frozen=True, slots=True)
class SendOrder:
    """The load to send.

    Attributes:
        udp_src: UDP source ports, one for each queue pair.
        shares: empty: independent flows, each as fast as possible, with equal parts of the bytes. Else the part of the
            bytes and of the rate of each piece of a split flow; they add up to 1.
        message_bytes: length of a message over all queue pairs together; the last one may be shorter.
        bytes: total number of bytes, or None: send for ``seconds``.
    """

    udp_src: Sequence[int]
    shares: Sequence[float] = ()
    message_bytes: int = 1 << 20
    bytes: int | None = None
    seconds: float = 5.0

    def __post_init__(self) -> None:
        """Check the values; raise ``InputError`` for an invalid one."""
        if not self.udp_src or len(set(self.udp_src)) != len(self.udp_src):
            raise InputError("each queue pair needs its own UDP source port", field="udp_src", value=self.udp_src)
        if self.shares:
            if len(self.shares) != len(self.udp_src):
                raise InputError("one share for each UDP source port", field="shares", value=self.shares)
            check_shares(self.shares)
        if not 1 <= self.message_bytes <= MAX_MESSAGE:
            raise InputError("a message must have 1 to 2^31 bytes", field="message_bytes", value=self.message_bytes)
        if min(end - start for start, end in split(self.message_bytes, self.parts)) == 0:
            raise InputError("a queue pair would get no bytes", field="message_bytes", value=self.message_bytes)
        if self.bytes is not None and self.bytes < 1:
            raise InputError("must be at least 1", field="bytes", value=self.bytes)
        if not self.seconds > 0:
            raise InputError("must be more than 0", field="seconds", value=self.seconds)

    @property
    def parts(self) -> Sequence[float]:
        """Part of the bytes of each queue pair; they add up to 1."""
        return self.shares or [1 / len(self.udp_src)] * len(self.udp_src)


def measure(
    server_ip: str,
    load: SendOrder,
    options: SenderOptions,
    *,
    ip: str | None = None,
    control_port: int = CONTROL_PORT,
    port: int = ROCE_PORT,
) -> dict[str, Any]:
    """Send the load and return the result as plain data (docs/explanation/roce.md names its fields).

    Args:
        server_ip: IPv4 address of the server.
        load: the load to send.
        options: options of the queue pairs.
        ip: own address; None: that of the route to the server.
        control_port: TCP port of the server's control connection.
        port: UDP port of RoCE.

    Raises:
        InputError: an address or a port cannot be used.
        MeasurementError: there is no server, or it refused the request.
        QueuePairError: the server stopped answering.
    """
    with (
        _Control(server_ip, control_port, ip) as control,
        UdpEndpoint(ip or control.own_ip, port=port, line_rate=options.line_rate) as endpoint,
    ):
        pieces = _pieces(load)
        rows = [{"qp": _FIRST_QP + i, "psn": secrets.randbits(24)} for i in range(len(pieces))]
        writes = [write for piece in pieces for write in piece.writes()]
        memory = 2 * sum(piece.size for piece in pieces)
        answer = control.ask({"mtu": options.mtu, "memory": memory, "writes": writes, "qps": rows})
        for i, (piece, row, peer) in enumerate(zip(pieces, rows, answer["qps"], strict=True)):
            own = options.part(load.shares[i]) if load.shares else options
            piece.start(Sender(peer["qp"], own, first_psn=row["psn"]), peer["rkey"])
            endpoint.add_sender(row["qp"], piece.sender, server_ip, load.udp_src[i], piece.post_next)
        started = time.monotonic()
        if load.bytes is None:
            for piece in pieces:
                piece.stop_at = started + load.seconds
        for piece in pieces:
            for _ in range(_QUEUED_MESSAGES):
                piece.post_next()
        endpoint.loop.run(lambda: not any(piece.sender.busy for piece in pieces))
        seconds = time.monotonic() - started
        return _result(load, pieces, seconds, control.ask({"end": True}))


class _Piece:
    """The data of one queue pair: its part of every message, from two buffers in turn.

    Consecutive messages differ, so that a swap of them is detected.
    """

    sender: Sender

    def __init__(self, base: int, size: int, total: int | None) -> None:
        self.size = size
        self.stop_at = math.inf
        self._base = base
        self._total = total
        self._left: float = math.inf if total is None else total
        self._rkey = 0
        self._number = 0
        rng = random.Random(base)
        self._buffers = [memoryview(rng.randbytes(size)) for _ in range(2)]

    def start(self, sender: Sender, rkey: int) -> None:
        self.sender = sender
        self._rkey = rkey

    def writes(self) -> list[tuple[int, int, int]]:
        """(address, length, checksum) of every write that there may be."""
        lengths = {self.size, (self._total or 0) % self.size} - {0}
        return [
            (self._address(i), length, crc32(self._buffers[i][:length])) for i in range(2) for length in sorted(lengths)
        ]

    def post_next(self, _: object = None) -> None:
        if self._left <= 0 or time.monotonic() >= self.stop_at:
            return
        length = int(min(self._left, self.size))
        self._left -= length
        buffer = self._number % 2
        self._number += 1
        self.sender.post(self._buffers[buffer][:length], self._address(buffer), self._rkey)

    def _address(self, buffer: int) -> int:
        return self._base + buffer * self.size


def _pieces(load: SendOrder) -> list[_Piece]:
    messages = split(load.message_bytes, load.parts)
    totals = [None] * len(messages) if load.bytes is None else [b - a for a, b in split(load.bytes, load.parts)]
    return [_Piece(2 * start, end - start, total) for (start, end), total in zip(messages, totals, strict=True)]


def _result(load: SendOrder, pieces: list[_Piece], seconds: float, server: dict[str, Any]) -> dict[str, Any]:
    now = time.monotonic()
    flows: list[dict[str, Any]] = [
        {"udp_src": udp_src, **asdict(piece.sender.counters), "rate_gbps": piece.sender.rates.rate(now) / 1e9}
        for udp_src, piece in zip(load.udp_src, pieces, strict=True)
    ]
    sums = {key: sum(flow[key] for flow in flows) for key in flows[0] if key != "udp_src"}
    for flow in flows:
        flow["goodput_gbps"] = flow["bytes"] * 8 / seconds / 1e9
    return {
        "seconds": seconds,
        "goodput_gbps": sums["bytes"] * 8 / seconds / 1e9,
        **sums,
        "flows": flows,
        "server": server,
    }


class _Control:
    """The TCP connection to the server."""

    def __init__(self, server_ip: str, port: int, ip: str | None) -> None:
        try:
            self._socket = socket.create_connection((server_ip, port), _ANSWER_SECONDS, None if ip is None else (ip, 0))
        except OSError as error:
            reason = error.strerror or str(error)
            raise MeasurementError(f"no server at {server_ip}, TCP port {port}: {reason}") from error
        self._lines = LineBuffer()
        self.own_ip: str = self._socket.getsockname()[0]

    def __enter__(self) -> _Control:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        try:
            self._socket.sendall(to_line(request))
            while True:
                data = self._socket.recv(64 * 1024)
                if not data:
                    raise MeasurementError("the server closed the connection")
                for answer in self._lines.feed(data):
                    if "error" in answer:
                        raise MeasurementError(f"error from the server: {answer['error']}")
                    return answer
        except (OSError, LineError) as error:
            raise MeasurementError(f"no answer from the server: {error}") from error
