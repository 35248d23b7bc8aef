"""A host's agent: its endpoint, and its part in every collective that has a rank there, in one process."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from typing import Any
from zlib import crc32

import numpy as np

from controller.model.errors import InputError
from emulation.roce import agent_config
from emulation.roce.agent_config import AgentConfig, PartConfig
from emulation.roce.collectives.base import Send
from emulation.roce.connection import QpConnection
from emulation.roce.lines import LineBuffer, LineError, to_line
from emulation.roce.psn import PSN_MASK
from emulation.roce.receiver import Receiver
from emulation.roce.sender import Sender
from emulation.roce.udp import QueuePairError, UdpEndpoint

_STDIN = 0


class AgentError(RuntimeError):
    """The collectives cannot be finished."""


def run_agent(source: str) -> int:
    """Run the configuration in the file ``source``, or in the first line of standard input if it is ``-``.

    Prints one JSON object, the result; with no ``start_at`` in the configuration ``{"event": "ready"}`` before it, then
    waits for ``{"start_at": seconds}`` on standard input, and answers its peers until standard input ends.

    Returns:
        0, or 1 if a result was wrong.

    Raises:
        InputError: the configuration is invalid.
        AgentError: the collectives could not be finished; names the missing messages.
    """
    orders = _Orders()
    config = agent_config.read(source) if source != "-" else _parse_line(orders.wait())
    with UdpEndpoint(config.ip, port=config.port, line_rate=config.options.line_rate) as endpoint:
        agent = Agent(config, endpoint)
        start_at = config.start_at
        if start_at is None:
            endpoint.watch(_STDIN, orders.on_readable)
            _say({"event": "ready", "host": config.host})
            endpoint.run(lambda: bool(orders.received) or orders.ended)
            if orders.ended:
                raise AgentError("no start time was received")
            start_at = _start_time(orders.received.pop(0))
        endpoint.run(lambda: orders.ended, deadline=start_at)
        agent.begin(start_at)
        try:
            endpoint.run(lambda: agent.done or orders.ended)
        except QueuePairError as error:
            raise AgentError(f"{error}; {agent.unfinished()}") from error
        if not agent.done:
            raise AgentError("stopped before the end: " + agent.unfinished())
        result = agent.result()
        _say(result)
        # A peer may not have the last acknowledgement yet, and will ask for it again.
        if config.start_at is None:
            endpoint.run(lambda: orders.ended)
        else:
            endpoint.run(lambda: False, deadline=time.monotonic() + config.linger)
    return 0 if result["checked"] else 1


class Agent:
    """The parts of one host; they run in the loop of its endpoint."""

    def __init__(self, config: AgentConfig, endpoint: UdpEndpoint) -> None:
        """Create the parts of this host in all collectives."""
        self._config = config
        self._endpoint = endpoint
        self._parts = [_Part(part, config, endpoint) for part in config.parts]

    def begin(self, start_at: float) -> None:
        """Begin all parts at ``start_at`` of the monotonic clock."""
        for part in self._parts:
            part.begin(start_at)

    @property
    def done(self) -> bool:
        """Return whether all parts are done."""
        return all(part.done for part in self._parts)

    def unfinished(self) -> str:
        """Return the states of the unfinished parts as text."""
        return "; ".join(part.state() for part in self._parts if not part.done)

    def result(self) -> dict[str, Any]:
        """Return the result of this host as plain data."""
        rows = [part.result() for part in self._parts]
        return {
            "event": "result",
            "host": self._config.host,
            "checked": all(row["checked"] for row in rows),
            "cpu_seconds": time.process_time(),
            "datagrams": asdict(self._endpoint.counters),
            "collectives": rows,
        }


class _Part:
    """One rank of one collective: iterations one after the other."""

    def __init__(self, config: PartConfig, agent: AgentConfig, endpoint: UdpEndpoint) -> None:
        spec = config.collective
        self._config = config
        self._collective = spec.part(config.rank)
        self._rkey = crc32(spec.label.encode())  # in place of an exchange before the start
        self._pending = 0
        self._began = 0.0
        self._running = False
        self._times: list[tuple[float, float]] = []
        self._wrong: list[str] = []
        self._connections: dict[int, QpConnection] = {}
        memory = _as_bytes(self._collective.memory)
        for peer, pieces in config.sends.items():
            senders = []
            for piece in pieces:
                sender = Sender(
                    piece.qp, agent.options.part(piece.share, paced=piece.paced), first_psn=_first_psn(piece.qp)
                )
                senders.append(sender)
                endpoint.add_sender(piece.qp, sender, spec.ranks[peer], piece.udp_src, self._on_sent)
            shares = [piece.share for piece in pieces]
            self._connections[peer] = QpConnection(senders, shares, spec.qp_mode, spec.message_bytes)
        for peer, numbers in config.receives.items():
            for qp in numbers:
                receiver = Receiver(qp, memory, self._rkey, mtu=agent.options.mtu, first_psn=_first_psn(qp))
                endpoint.add_receiver(qp, receiver, spec.ranks[peer], self._on_arrival)

    @property
    def done(self) -> bool:
        return len(self._times) == self._config.collective.iterations

    def begin(self, now: float) -> None:
        self._start_iteration(now)
        self._look()

    def _start_iteration(self, now: float) -> None:
        self._began = now
        self._running = True
        self._post(self._collective.begin(len(self._times)))

    def _on_arrival(self, va: int, length: int) -> None:
        self._post(self._collective.arrived(va, length))
        self._look()

    def _on_sent(self, _: object) -> None:
        self._pending -= 1
        self._look()

    def _post(self, sends: list[Send]) -> None:
        for send in sends:
            self._pending += self._connections[send.peer].post(_as_bytes(send.data), send.va, self._rkey)

    def _look(self) -> None:
        """End the iteration if everything has been received and everything sent is acknowledged."""
        while self._running and not self._pending and self._collective.complete:
            self._times.append((self._began, time.monotonic()))
            self._running = False
            wrong = self._collective.check()
            if wrong:
                self._wrong.append(f"iteration {len(self._times)}: {wrong}")
            if not self.done:
                self._start_iteration(time.monotonic())

    def state(self) -> str:
        missing = self._collective.missing()
        return (
            f"{self._config.collective.label} rank {self._config.rank}, iteration {len(self._times) + 1}: "
            f"waits for {missing or 'nothing'}; {self._pending} messages are not acknowledged"
        )

    def result(self) -> dict[str, Any]:
        spec = self._config.collective
        now = time.monotonic()
        flows = [
            {
                "peer": peer,
                "qp": piece.qp,
                "udp_src": piece.udp_src,
                "share": piece.share,
                **asdict(sender.counters),
                "rate_gbps": sender.rates.rate(now) / 1e9,
            }
            for peer, pieces in self._config.sends.items()
            for piece, sender in zip(pieces, self._connections[peer].senders, strict=True)
        ]
        return {
            "job": spec.job,
            "name": spec.name,
            "rank": self._config.rank,
            "iterations": [{"begin": begin, "end": end} for begin, end in self._times],
            "bytes_sent": sum(flow["bytes"] for flow in flows),
            "retransmissions": sum(flow["retransmissions"] for flow in flows),
            "checked": not self._wrong,
            "wrong": self._wrong,
            "flows": flows,
        }


class _Orders:
    """Lines on standard input; its end is an order too."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.ended = False
        self._lines = LineBuffer()

    def on_readable(self) -> None:
        data = os.read(_STDIN, 64 * 1024)
        self.ended = not data
        try:
            self.received += self._lines.feed(data)
        except LineError as error:
            raise InputError(str(error), source="standard input") from error

    def wait(self) -> dict[str, Any]:
        while not self.received and not self.ended:
            self.on_readable()
        if not self.received:
            raise InputError("ended before the configuration", source="standard input")
        return self.received.pop(0)


def _parse_line(document: dict[str, Any]) -> AgentConfig:
    try:
        return agent_config.parse(document)
    except InputError as error:
        raise error.with_source("standard input") from error


def _start_time(order: dict[str, Any]) -> float:
    value = order.get("start_at")
    if not isinstance(value, (int, float)):
        raise InputError("a number", field="start_at", value=value, source="standard input")
    return float(value)


def _say(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(to_line(value))
    sys.stdout.buffer.flush()


def _first_psn(qp: int) -> int:
    """Different from one queue pair to the next, and known at both ends (Fibonacci hashing)."""
    return qp * 0x9E3779B1 >> 8 & PSN_MASK


def _as_bytes(array: Any) -> memoryview:
    return memoryview(array.view(np.uint8))
