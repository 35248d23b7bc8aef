"""The ports that are asked for hosts whose port is not known. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from controller.model.network_state import PortId

AT_ONCE = 4
"""Searches at a time for one asker."""

MOST = 1024
"""Searches at a time that ARP requests have caused, for all askers."""


class Searches:
    """Searches under way: each is an address and the ports that are still to be asked. Askers take turns.

    A search holds an iterator and no list, so that many hosts times many ports need no memory.
    """

    def __init__(self) -> None:
        """Begin without searches."""
        self._of: dict[Hashable, dict[str, Iterator[PortId]]] = {}
        self._askers: dict[str, Hashable] = {}

    def __len__(self) -> int:
        """Return the number of searches."""
        return len(self._askers)

    def want(self, ip: str, ports: Iterable[PortId], asker: PortId | None = None) -> bool:
        """Begin to ask for an address on these ports; return whether a search has begun.

        Args:
            ip: the address.
            ports: where to ask.
            asker: the port whose ARP request is the cause: it gets ``AT_ONCE`` searches at a time. ``None``: the
                controller itself, which is limited only by the number of hosts.
        """
        mine = self._of.get(asker, {})
        if ip in self._askers or (asker is not None and (len(mine) >= AT_ONCE or len(self._askers) >= MOST)):
            return False
        self._of.setdefault(asker, mine)[ip] = iter(ports)
        self._askers[ip] = asker
        return True

    def found(self, ip: str) -> None:
        """End the search: the host is found."""
        if ip in self._askers:
            self._end(ip, self._askers[ip])

    def due(self, room: int) -> list[tuple[str, PortId]]:
        """Return at most ``room`` (address, port) to be asked now."""
        out: list[tuple[str, PortId]] = []
        while self._of and len(out) < room:
            asker = next(iter(self._of))
            mine = self._of[asker]
            ip = next(iter(mine))
            port = next(mine[ip], None)
            if port is None:
                self._end(ip, asker)
            else:
                out.append((ip, port))
                # Move to the end of both queues.
                mine[ip] = mine.pop(ip)
            if asker in self._of:
                self._of[asker] = self._of.pop(asker)
        return out

    def _end(self, ip: str, asker: Hashable) -> None:
        del self._askers[ip]
        del self._of[asker][ip]
        if not self._of[asker]:
            del self._of[asker]
