"""Claims: a sender at a port says that it has an address, and it is not known yet whether that is so.

Bounded by port: packets from a port can only displace claims from the same port.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from controller.model.network_state import PortId

MOST = 4096
"""Claims at a time, over all ports."""

INTERVAL = 0.5
"""Seconds in which a probe must be answered."""

MISSES = 4
"""Probes without an answer after which a host counts as silent."""

COOL = 5.0
"""Seconds from the end of one check of a claim to the next one."""

REPORTED_SECONDS = 60.0
"""Seconds for which a clash is reported after the claim was last made."""

OPEN_SECONDS = 120.0
"""A check without a result ends after this time."""

Verdict = Literal["", "clash", "misplaced", "full"]


@dataclass(slots=True)
class HostProbes:
    """Probes for one address at one port.

    Attributes:
        sent: how many count (one that may have got lost on the way here does not).
        last: when the last one was sent.
    """

    sent: int = 0
    last: float = float("-inf")

    def silent(self, now: float) -> bool:
        """Return whether enough probes were sent, and the time for an answer to each is over."""
        return self.sent >= MISSES and now - self.last >= INTERVAL


@dataclass(slots=True)
class Claim:
    """One claim.

    Attributes:
        heard: when it was made last.
        opened: when the check under way began; ``None``: no check is under way, the last one ended at ``rested``.
        look: when there may be something to do about it next.
        answered: a probe at the port was answered in this check.
        held_by: address of a rival that has answered in this check.
        rivals: addresses of the hosts elsewhere that have the same address, the same MAC address, or the only place at
            the port; each with the probes that it was sent in this check.
        lost: since when the leaf of a rival is not connected, in this check.
        verdict: of the last check, where it is to be reported; ``against`` is the host that keeps its place,
            ``kept_at`` that place.
    """

    ip: str
    mac: str
    at: PortId
    heard: float
    opened: float | None
    rested: float = float("-inf")
    look: float = float("-inf")
    answered: bool = False
    held_by: str = ""
    own: HostProbes = field(default_factory=HostProbes)
    rivals: dict[str, HostProbes] = field(default_factory=dict)
    lost: float | None = None
    verdict: Verdict = ""
    against: str = ""
    kept_at: PortId | None = None

    def open(self, now: float) -> None:
        """Begin a check."""
        self.opened, self.look, self.answered, self.held_by, self.lost = now, now, False, "", None
        self.own = HostProbes()
        for asked in self.rivals.values():
            asked.sent = 0

    def rest(self, now: float) -> None:
        """End a check."""
        self.opened, self.rested, self.look = None, now, now + COOL


class Claims:
    """All claims, by port and address; ports take turns.

    Args:
        per_port: most claims of one port.
    """

    def __init__(self, per_port: int) -> None:
        """Begin without claims."""
        self._per_port = per_port
        self._at: dict[PortId, dict[str, Claim]] = {}
        self._against: dict[str, dict[tuple[PortId, str], Claim]] = {}
        self._n = 0
        self.refused = 0
        """Claims for which there was no room, so far."""

    def __len__(self) -> int:
        """Return the number of claims."""
        return self._n

    def __iter__(self) -> Iterator[Claim]:
        """Yield claims of all ports, beginning with the ports that were ``served`` longest ago."""
        for mine in list(self._at.values()):
            yield from list(mine.values())

    def get(self, ip: str, at: PortId) -> Claim | None:
        """Return the claim of a port to an address, or ``None``."""
        return self._at.get(at, {}).get(ip)

    def add(self, claim: Claim) -> bool:
        """Add a claim that is not there; return whether there is room for it."""
        mine = self._at.get(claim.at, {})
        if len(mine) >= self._per_port:
            least = min(mine.values(), key=_worth)
            if _worth(least) >= (1, 0.0):
                self.refused += 1
                return False
            self.remove(least)
        if self._n >= MOST:
            self.refused += 1
            return False
        self._at.setdefault(claim.at, mine)[claim.ip] = claim
        self._n += 1
        return True

    def remove(self, claim: Claim) -> None:
        """Remove a claim, if it is there."""
        mine = self._at.get(claim.at)
        if mine is not None and mine.get(claim.ip) is claim:
            self.contest(claim, set())
            del mine[claim.ip]
            self._n -= 1
            if not mine:
                del self._at[claim.at]

    def contest(self, claim: Claim, rivals: set[str]) -> None:
        """Set the rivals of a claim; those that it has already keep their counts."""
        if claim.rivals.keys() == rivals:
            return
        key = (claim.at, claim.ip)
        for ip in claim.rivals.keys() - rivals:
            del self._against[ip][key]
            if not self._against[ip]:
                del self._against[ip]
        for ip in rivals - claim.rivals.keys():
            self._against.setdefault(ip, {})[key] = claim
        claim.rivals = {ip: claim.rivals.get(ip) or HostProbes() for ip in sorted(rivals)}

    def against(self, ip: str) -> list[Claim]:
        """Return the claims of which a host is a rival."""
        return list(self._against.get(ip, {}).values())

    def served(self, at: PortId) -> None:
        """Move a port behind the others in the order of service."""
        if at in self._at:
            self._at[at] = self._at.pop(at)

    def of_port(self, at: PortId) -> list[Claim]:
        """Return the claims of one port."""
        return list(self._at.get(at, {}).values())


def _worth(claim: Claim) -> tuple[int, float]:
    """Return the sort key for displacement, lowest first: nothing to report, no check under way; then the oldest."""
    if claim.opened is not None:
        return (1, 0.0)
    return (0, claim.heard) if not claim.verdict else (0, claim.heard + REPORTED_SECONDS)
