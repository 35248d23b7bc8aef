"""One rank of one collective at an agent: its queue pairs and memory, and one iteration after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any
from zlib import crc32

import numpy as np

from emulation.roce.agent_config import AgentConfig, PartConfig, PieceConfig
from emulation.roce.collectives.base import Send
from emulation.roce.connection import QpConnection
from emulation.roce.nic import NicEndpoint, QpPath
from emulation.roce.psn import PSN_MASK
from emulation.roce.receiver import Receiver
from emulation.roce.sender import Sender


class CollectivePart:
    """The part of this host in a collective; ``ended`` is called with the end of each iteration."""

    def __init__(self, config: PartConfig, agent: AgentConfig, nic: NicEndpoint) -> None:
        """Open the queue pairs; ``begin`` starts an iteration."""
        spec = config.collective
        self.config = config
        self._nic = nic
        self.ended: Callable[[float], None] = lambda at: None
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
                options = agent.options.part(_share_of_port(piece, pieces), paced=piece.paced)
                sender = Sender(piece.qp, options, first_psn=_first_psn(piece.qp))
                sender.pace = piece.pace
                senders.append(sender)
                path = QpPath(piece.src or agent.ip, piece.dst or spec.ranks[peer], piece.udp_src, piece.dscp)
                nic.add_sender(piece.qp, sender, path, self._on_sent)
            shares = [piece.share for piece in pieces]
            self._connections[peer] = QpConnection(senders, shares, spec.qp_mode, spec.message_bytes)
        for peer, numbers in config.receives.items():
            for qp in numbers:
                receiver = Receiver(qp, memory, self._rkey, mtu=agent.options.mtu, first_psn=_first_psn(qp))
                nic.add_receiver(qp, receiver, agent.addresses_of(spec.ranks[peer]), self._on_arrival)

    @property
    def running(self) -> bool:
        """Whether an iteration has begun and not ended."""
        return self._running

    def begin(self, now: float) -> None:
        """Start the next iteration, whose begin counts as ``now``."""
        self._began = now
        self._running = True
        self._post(self._collective.begin(len(self._times)))
        self._look()

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
        if not self._running or self._pending or not self._collective.complete:
            return
        now = time.monotonic()
        self._times.append((self._began, now))
        self._running = False
        wrong = self._collective.check()
        if wrong:
            self._wrong.append(f"iteration {len(self._times)}: {wrong}")
        self.ended(now)

    def tallies(self) -> list[tuple[QpPath, int, int]]:
        """Return (path, queue pair, payload bytes sent so far) of each sender."""
        return [
            (self._nic.path(piece.qp), piece.qp, sender.sent_bytes)
            for peer, pieces in self.config.sends.items()
            for piece, sender in zip(pieces, self._connections[peer].senders, strict=True)
        ]

    def resent(self) -> tuple[int, int]:
        """Return the numbers of out-of-sequence NAKs that came and of packets that were sent again, of all senders."""
        counters = [sender.counters for each in self._connections.values() for sender in each.senders]
        return sum(one.sequence_naks for one in counters), sum(one.retransmissions for one in counters)

    def state(self) -> str:
        """Return what the part waits for, as text."""
        missing = self._collective.missing()
        return (
            f"{self.config.collective.label} rank {self.config.rank}, iteration {len(self._times) + 1}: "
            f"waits for {missing or 'nothing'}; {self._pending} messages are not acknowledged"
        )

    def result(self) -> dict[str, Any]:
        """Return the times and counters as plain data."""
        spec = self.config.collective
        now = time.monotonic()
        flows = [
            {
                "peer": peer,
                "qp": piece.qp,
                "udp_src": piece.udp_src,
                "share": piece.share,
                **asdict(sender.counters),
                "rate_gbps": sender.rate(now) / 1e9,
                "pace_gbps": None if sender.pace is None else sender.pace / 1e9,
                "window": sender.window,
                "round_trip_seconds": sender.round_trip,
            }
            for peer, pieces in self.config.sends.items()
            for piece, sender in zip(pieces, self._connections[peer].senders, strict=True)
        ]
        return {
            "job": spec.job,
            "name": spec.name,
            "rank": self.config.rank,
            "iterations": [{"begin": begin, "end": end} for begin, end in self._times],
            "bytes_sent": sum(flow["bytes"] for flow in flows),
            "retransmissions": sum(flow["retransmissions"] for flow in flows),
            "checked": not self._wrong,
            "wrong": self._wrong,
            "flows": flows,
        }


def _share_of_port(piece: PieceConfig, pieces: Sequence[PieceConfig]) -> float:
    """Return the part of a connection's bytes by one port that a piece has: a stripe has the whole rate of its port."""
    return min(1.0, piece.share / math.fsum(other.share for other in pieces if other.src == piece.src))


def _first_psn(qp: int) -> int:
    """Different from one queue pair to the next, and known at both ends (Fibonacci hashing)."""
    return qp * 0x9E3779B1 >> 8 & PSN_MASK


def _as_bytes(array: Any) -> memoryview:
    return memoryview(array.view(np.uint8))
