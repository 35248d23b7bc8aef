"""Discovery packets that are not believed: counted by kind, and reported with switch and port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum

from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey


class IgnoredKind(Enum):
    """The reason why a discovery packet is not believed."""

    FOREIGN = "foreign"
    """LLDP of another sender, such as a network card; this is normal."""
    FORGED = "forged"
    """A packet that looks like the controller's and is not authentic."""
    STALE = "stale"
    """Authentic, but received before, or sent too long ago."""
    DENIED = "denied"
    """Authentic, but come by a port that leads to a host, or to the switch that sent it."""


TELL_SECONDS = 60.0
"""Seconds for which a port is reported after the last such packet."""

LOG_SECONDS = 60.0
"""Minimum seconds between two log lines about a port."""

MOST_PORTS = 100
"""Maximum number of remembered ports; for further ones only packets are counted."""

MOST_NOTICES = 5
"""Maximum number of ports in notices; further ones are only counted."""


class IgnoredPackets:
    """Time, in seconds from any origin, is an argument and never goes back.

    Attributes:
        counts: packets since the start, by kind.
    """

    def __init__(
        self, name: Callable[[SwitchKey], str], host: Callable[[PortId], str | None] = lambda at: None
    ) -> None:
        """Begin with no packets counted.

        Args:
            name: of a switch, for people.
            host: the host to which the fabric file gives a port.
        """
        self._name, self._host = name, host
        self.counts: Counter[IgnoredKind] = Counter()
        self._seen: dict[PortId, tuple[IgnoredKind, float, float, PortId | None]] = {}
        """IgnoredKind and time of a port's last packet, when it was logged last, and which port sent the packet."""

    def saw(self, kind: IgnoredKind, at: PortId, now: float, sender: PortId | None = None) -> str | None:
        """Count a packet. Return the line for the log, or ``None`` if there is nothing new to report.

        Args:
            kind: why it is not believed.
            at: the port that it came in by.
            now: seconds.
            sender: the port that an authentic packet was sent from.
        """
        self.counts[kind] += 1
        if kind is IgnoredKind.FOREIGN:
            return None
        known = self._seen.get(at)
        if known is None and len(self._seen) >= MOST_PORTS:
            self._forget(now)
            if len(self._seen) >= MOST_PORTS:
                return None
        logged = known[2] if known is not None else now - LOG_SECONDS
        new = now - logged >= LOG_SECONDS
        self._seen[at] = (kind, now, now if new else logged, sender)
        return self._text(at, kind, sender) if new else None

    def notices(self, now: float) -> list[str]:
        """Return the ports by which such packets came lately, for people."""
        self._forget(now)
        notices = [
            self._text(at, kind, sender) for at, (kind, _, _, sender) in sorted(self._seen.items())[:MOST_NOTICES]
        ]
        if len(self._seen) > MOST_NOTICES:
            notices.append(f"forged or foreign discovery packets at {len(self._seen) - MOST_NOTICES} more ports")
        return notices

    def _forget(self, now: float) -> None:
        self._seen = {at: each for at, each in self._seen.items() if now - each[1] < TELL_SECONDS}

    def _text(self, at: PortId, kind: IgnoredKind, sender: PortId | None) -> str:
        where = f"{self._name(at.switch)} port {at.port}"
        host = self._host(at)
        if host is not None:
            where += f", which belongs to {host}"
        if kind is IgnoredKind.FORGED or sender is None:
            return f"forged or foreign discovery packets at {where}: ignored"
        origin = f"{self._name(sender.switch)} port {sender.port}"
        if kind is IgnoredKind.STALE:
            return f"discovery packets of {origin} are repeated at {where}: ignored"
        return f"discovery packets of {origin} arrive at {where}, which is not a link between switches: ignored"
