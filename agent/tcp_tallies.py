"""What the host has sent each other host over TCP, whichever connections carried it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv4Address
from typing import Any

from agent.linux.tcp_connections import TcpConnection

Pair = tuple[IPv4Address, IPv4Address]


class TcpTallies:
    """Bytes from one host to another since this began, from readings of connections.

    What a connection sends between its last reading and its end is not known.
    """

    def __init__(self, hosts: Collection[IPv4Address]) -> None:
        """Begin; connections to or from other addresses than those of ``hosts`` are left out."""
        self._hosts = frozenset(hosts)
        self._sent: dict[bytes, int] | None = None
        self._total: dict[Pair, int] = {}
        self._rows: list[tuple[Pair, float, int]] = []

    def take(self, connections: Iterable[TcpConnection], at: float) -> None:
        """Take a reading of all connections of a host, at seconds since 1970."""
        earlier, newest = self._sent, dict[bytes, int]()
        for each in connections:
            if each.src not in self._hosts or each.dst not in self._hosts or each.src == each.dst:
                continue
            newest[each.cookie] = each.sent
            # What connections had sent before the first reading is of times that nobody knows.
            before = each.sent if earlier is None else earlier.get(each.cookie, 0)
            pair = each.src, each.dst
            self._total[pair] = self._total.get(pair, 0) + max(each.sent - before, 0)
        self._sent = newest
        # A pair whose connections have ended is told of, too: it sends nothing.
        self._rows += [(pair, at, total) for pair, total in self._total.items()]

    def body(self) -> dict[str, list[Any]] | None:
        """Return the readings since the last call as the body of ``POST /v1/sightings``; ``None``: there are none."""
        if not self._rows:
            return None
        number: dict[Pair, int] = {}
        index = [number.setdefault(pair, len(number)) for pair, _, _ in self._rows]
        body: dict[str, list[Any]] = {
            "qps": [{"src": str(src), "dst": str(dst), "protocol": "tcp"} for src, dst in number],
            "qp": index,
            "at": [at for _, at, _ in self._rows],
            "bytes": [total for _, _, total in self._rows],
        }
        self._rows = []
        return body
