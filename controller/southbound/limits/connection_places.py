"""The number of connections, and which one ends when there is no room: one that has not completed its handshake.

Any program that reaches the controller's port can open connections. So there are few places, most of which only a
connection gets that has been through the handshake, and a connection that does not get through it soon makes room for
the next one. A switch that is connected never makes room for another. Pure: time is an argument.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

PATIENCE_SECONDS = 0.5
"""Seconds for which a connection in its handshake is not closed for another one."""

NEW_SHARE, ADDRESS_SHARE = 0.5, 0.75
"""Share of all places for handshakes, and the share of these for one address."""

UNKNOWN_SHARE = 0.25
"""Share of all places for switches that are not in the intended fabric."""

MOST_UNKNOWN = 64
"""Maximum number of such switches: each may use memory for 4,096 ports and thousands of rules."""

RESERVED_FILES = 64
"""Open files besides connections: the store, the log, pipes of worker processes, files being opened."""

MOST, LEAST = 4096, 16
"""Maximum and minimum number of places, by the limit on open files."""


def places_for(wanted: int, soft_limit: int) -> int:
    """Return how many connections of switches there may be.

    Args:
        wanted: by configuration; 0: as many as fit, 4,096 at most.
        soft_limit: on open files. One half is for the HTTP interface.
    """
    room = max(LEAST, soft_limit // 2 - RESERVED_FILES)
    return min(wanted or MOST, room)


def files_for(wanted: int) -> int:
    """Return the limit on open files that allows this number of connections (0: 4,096)."""
    return 2 * ((wanted or MOST) + RESERVED_FILES)


def party(address: str) -> str:
    """Return the party that an address belongs to: under IPv6 its /64 prefix, within which a host is free to choose."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)


@dataclass(eq=False)
class Place:
    """The place of one connection. ``leave``: called with a reason when it has to go."""

    party: str
    since: float
    leave: Callable[[str], None] = field(repr=False)
    settled: bool = False
    known: bool = True


class Places:
    """Gives places to connections.

    Attributes:
        most: places in all.
        most_new: of them, for connections in their handshake.
        most_by_party: of these, for one address.
        most_unknown: places for switches that are no part of the intended fabric.
    """

    def __init__(self, most: int) -> None:
        """Start empty, for at most ``most`` connections."""
        self.most = most
        self.most_new = max(1, int(most * NEW_SHARE))
        self.most_by_party = max(1, int(self.most_new * ADDRESS_SHARE))
        self.most_unknown = max(1, min(MOST_UNKNOWN, int(most * UNKNOWN_SHARE)))
        self._settled = self._unknown = 0
        # In order of their coming.
        self._new: dict[str, dict[Place, None]] = {}
        self._n_new = 0

    @property
    def taken(self) -> int:
        """The number of places taken."""
        return self._settled + self._n_new

    @property
    def new(self) -> int:
        """The number of places taken by connections in their handshake."""
        return self._n_new

    def enter(self, address: str, leave: Callable[[str], None], now: float) -> Place | None:
        """Give a place to a new connection, perhaps that of another one that waits in its handshake.

        Args:
            address: where it comes from.
            leave: called with a reason when it has to go.
            now: the time, in seconds.

        Returns:
            ``None``: there is no place.
        """
        mine = party(address)
        own = self._new.get(mine, {})
        if len(own) >= self.most_by_party:
            if not self._make_room(own, now):
                return None
        elif self._n_new >= self.most_new or self.taken >= self.most:
            if not self._new:
                return None
            # Of those who have most: the one who has waited longest.
            crowd = max(self._new.values(), key=lambda places: (len(places), -next(iter(places)).since))
            if not self._make_room(crowd, now):
                return None
        place = Place(mine, now, leave)
        self._new.setdefault(mine, {})[place] = None
        self._n_new += 1
        return place

    def give_up_oldest(self, now: float) -> bool:
        """Let the connection go that has been in its handshake for longest; whether there was one."""
        oldest = min(self._new.values(), key=lambda places: next(iter(places)).since, default=None)
        return oldest is not None and self._make_room(oldest, now)

    def settle(self, place: Place, *, known: bool = True) -> bool:
        """Record that a connection has completed its handshake; return whether it may stay.

        Args:
            place: of the connection.
            known: whether its switch is part of the intended fabric; others have few places, so that there is always
                one for those that are.
        """
        if place.settled or (not known and self._unknown >= self.most_unknown) or not self._drop_new(place):
            return place.settled
        place.settled, place.known = True, known
        self._settled += 1
        self._unknown += not known
        return True

    def left(self, place: Place) -> None:
        """Record that a connection has ended. Harmless when repeated."""
        if place.settled:
            place.settled = False
            self._settled -= 1
            self._unknown -= not place.known
        else:
            self._drop_new(place)

    def _make_room(self, places: dict[Place, None], now: float) -> bool:
        oldest = next(iter(places))
        if now - oldest.since < PATIENCE_SECONDS:
            return False
        self._drop_new(oldest)
        oldest.leave("its handshake is not complete, and a new connection needs its place")
        return True

    def _drop_new(self, place: Place) -> bool:
        own = self._new.get(place.party, {})
        if place not in own:
            return False
        del own[place]
        self._n_new -= 1
        if not own:
            del self._new[place.party]
        return True
