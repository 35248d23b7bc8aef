"""The order in which hosts are asked whether they are still where they were found.

A host that moves may send no packet that reaches the controller, since rules deliver its packets.
"""

from __future__ import annotations

from controller.southbound.hosts.host_claims import INTERVAL, HostProbes

PERIOD = 5.0
"""Minimum seconds between two probes of a host; with many hosts it takes longer."""

AT_ONCE = 64
"""Hosts that are asked at a time."""


class Presence:
    """The hosts to be asked, in turn. Time comes in by arguments, in seconds.

    Args:
        per_second: most hosts of which a look begins in a second.

    Attributes:
        away: hosts that did not answer the last time.
    """

    def __init__(self, per_second: float) -> None:
        """Ask at most ``per_second`` hosts a second."""
        self._per_second = per_second
        self._next: dict[str, float] = {}
        self._asked: dict[str, HostProbes] = {}
        self._new: dict[str, None] = {}
        self.away: set[str] = set()

    def __len__(self) -> int:
        """Return the number of hosts looked after."""
        return len(self._next) + len(self._asked)

    def watch(self, ip: str, now: float) -> None:
        """Look after a host from now on; it has just answered."""
        self.forget(ip)
        self._next[ip] = now + self._period()

    def forget(self, ip: str) -> None:
        """Stop asking a host."""
        self._next.pop(ip, None)
        self._asked.pop(ip, None)
        self._new.pop(ip, None)
        self.away.discard(ip)

    def answered(self, ip: str, now: float) -> None:
        """Record that a host is there (or that there is no way to know)."""
        if ip in self._asked or ip in self.away:
            self.watch(ip, now)

    def gone(self, ip: str, now: float) -> None:
        """Record that a host is not there: it does not answer, or its port is down."""
        self._asked.pop(ip, None)
        if ip not in self.away:
            self._new[ip] = None
        self.away.add(ip)
        self._next[ip] = now + self._period()

    def take_new(self) -> list[str]:
        """Return the hosts that are away since the last call."""
        new = list(self._new)
        self._new.clear()
        return new

    def due(self, now: float, room: int) -> list[tuple[str, HostProbes]]:
        """Return at most ``room`` hosts to be asked now, with the counts of their probes."""
        for ip, count in list(self._asked.items()):
            if count.silent(now):
                self.gone(ip, now)
        due = [(ip, count) for ip, count in self._asked.items() if now - count.last >= INTERVAL][: max(room, 0)]
        while len(due) < room and len(self._asked) < AT_ONCE and self._next:
            # The order of insertion is the order of the times, except around a change of the period.
            ip = next(iter(self._next))
            if self._next[ip] > now:
                break
            del self._next[ip]
            self._asked[ip] = HostProbes()
            due.append((ip, self._asked[ip]))
        return due

    def _period(self) -> float:
        return max(PERIOD, len(self) / self._per_second)
