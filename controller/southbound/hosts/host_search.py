"""The ports that are asked for hosts whose port is not known. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator

from controller.model.network_state import PortId

AT_ONCE = 4
"""Searches at a time for one asker."""

ENDED_AT_ONCE = 1000
"""Searches that end in one call: a hundred thousand may have no port left at once, and the event loop waits."""

MOST = 1024
"""Searches at a time that ARP requests have caused, for all askers."""


class Searches:
    """Searches under way: each is an address and the ports that are still to be asked. Askers take turns.

    A search holds an iterator and no list, so that many hosts times many ports need no memory.
    """

    def __init__(self) -> None:
        """Begin without searches."""
        # Plain dictionaries take as long for their first entry as there were entries before it.
        self._of: OrderedDict[Hashable, OrderedDict[str, Iterator[PortId]]] = OrderedDict()
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
        mine = self._of.get(asker, OrderedDict())
        if ip in self._askers or (asker is not None and (len(mine) >= AT_ONCE or len(self._askers) >= MOST)):
            return False
        self._of.setdefault(asker, mine)[ip] = iter(ports)
        self._askers[ip] = asker
        return True

    def end(self, ip: str) -> None:
        """End the search: the host is found."""
        if ip in self._askers:
            self._end(ip, self._askers[ip])

    def due(self, room: int) -> list[tuple[str, PortId]]:
        """Return at most ``room`` (address, port) to be asked now; fewer where ``ENDED_AT_ONCE`` searches end."""
        out: list[tuple[str, PortId]] = []
        ended = 0
        while self._of and len(out) < room and ended < ENDED_AT_ONCE:
            asker = next(iter(self._of))
            mine = self._of[asker]
            ip = next(iter(mine))
            port = next(mine[ip], None)
            if port is None:
                self._end(ip, asker)
                ended += 1
            else:
                out.append((ip, port))
                mine.move_to_end(ip)
            if asker in self._of:
                self._of.move_to_end(asker)
        return out

    def _end(self, ip: str, asker: Hashable) -> None:
        del self._askers[ip]
        del self._of[asker][ip]
        if not self._of[asker]:
            del self._of[asker]
