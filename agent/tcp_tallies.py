"""What the host has sent each other host over TCP, whichever connections carried it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from agent.linux.tcp_connections import TcpConnection, TcpReading
from agent.plans.flow_keys import Address

Pair = tuple[Address, Address]


class TcpTallies:
    """Bytes from one host to another since this began, from readings of connections."""

    def __init__(self, hosts: Collection[Address]) -> None:
        """Begin; connections to or from other addresses than those of ``hosts`` are left out."""
        self._hosts = frozenset(hosts)
        self._sent: dict[bytes, int] | None = None
        self._total: dict[Pair, int] = {}
        self._rows: list[tuple[Pair, float, int]] = []
        self._open: set[Pair] = set()

    def take(self, reading: TcpReading, at: float) -> None:
        """Take a reading of all connections of a host, at seconds since 1970."""
        earlier, newest = self._sent, dict[bytes, int]()
        for each in self._between_hosts(reading.open):
            newest[each.cookie] = each.sent
            # What connections had sent before the first reading is of times that nobody knows.
            self._add(each, each.sent if earlier is None else earlier.get(each.cookie, 0))
        for each in self._between_hosts(reading.ended):
            before = newest.pop(each.cookie, None)
            if earlier is not None or before is not None:
                self._add(each, (earlier or {}).get(each.cookie, 0) if before is None else before)
        self._sent = newest
        self._open = {(each.src, each.dst) for each in self._between_hosts(reading.open)}
        # A pair whose connections have ended is told of, too: it sends nothing.
        self._rows += [(pair, at, total) for pair, total in self._total.items()]

    def _between_hosts(self, connections: Iterable[TcpConnection]) -> Iterator[TcpConnection]:
        for each in connections:
            if each.src in self._hosts and each.dst in self._hosts and each.src != each.dst:
                yield each

    def _add(self, connection: TcpConnection, before: int) -> None:
        pair = connection.src, connection.dst
        self._total[pair] = self._total.get(pair, 0) + max(connection.sent - before, 0)

    def body(self) -> dict[str, list[Any]] | None:
        """Return the readings since the last call as the body of ``POST /v1/sightings``; ``None``: there are none."""
        if not self._rows:
            return None
        number: dict[Pair, int] = {}
        index = [number.setdefault(pair, len(number)) for pair, _, _ in self._rows]
        body: dict[str, list[Any]] = {
            "qps": [
                {"src": str(src), "dst": str(dst), "protocol": "tcp", "open": (src, dst) in self._open}
                for src, dst in number
            ],
            "qp": index,
            "at": [at for _, at, _ in self._rows],
            "bytes": [total for _, _, total in self._rows],
        }
        self._rows = []
        return body
