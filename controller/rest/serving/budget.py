"""Limits on what clients hold together: bytes in memory, requests in progress, event streams. Shared fairly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from controller.rest.problems import unavailable
from controller.rest.serving.limits import ClientLimits


class WorkKind(StrEnum):
    """Kinds of work. Each kind has its own limit of requests, and changes have their own memory."""

    READ = "read"
    """Requests that return known values."""
    PREVIEW = "preview"
    """Requests that change nothing and may wait for a plan or for switches."""
    CHANGE = "change"
    AGENT = "agent"
    """Requests of agents of hosts, most of which wait for a new plan."""


class Budget:
    """A number of units that clients share. Not thread-safe.

    A client may hold at most as much as it leaves free ("dynamic thresholds": Choudhury and Hahne, 1998). So one client
    alone gets half of it, two get a third each, and one more client always gets something.
    """

    def __init__(self, most: int, what: str) -> None:
        """Set the limit; ``what`` begins the message to a client that is refused."""
        self._most, self._what = most, what
        self._held: Counter[str] = Counter()
        self.used = 0

    def take(self, amount: int = 1, *, who: str = "", alone: bool = False) -> None:
        """Reserve units, which must be released later.

        Args:
            amount: units to take.
            who: the client.
            alone: allow more than the limit while nothing else is taken.

        Raises:
            ProblemError: 503, not enough is left, or not for this client.
        """
        fits = self._held[who] + amount <= self._most - self.used
        if amount and not fits and not (alone and self.used == 0):
            full = self.used + amount > self._most
            raise unavailable(
                f"{self._what}; try again" if full else f"{self._what}, most of them from this client; try again"
            )
        self.used += amount
        self._held[who] += amount

    def give(self, amount: int = 1, *, who: str = "") -> None:
        """Give units back."""
        self.used -= amount
        self._held[who] -= amount
        if self._held[who] <= 0:
            del self._held[who]

    @contextmanager
    def held(self, amount: int = 1, *, who: str = "") -> Iterator[None]:
        """Hold units while the block runs.

        Raises:
            ProblemError: 503, not enough is left, or not for this client.
        """
        self.take(amount, who=who)
        try:
            yield
        finally:
            self.give(amount, who=who)


@dataclass(frozen=True)
class Room:
    """The budgets of one kind of work.

    Attributes:
        places: requests in progress.
        bytes: request bodies and large responses in memory.
        bodies: request bodies being received.
    """

    places: Budget
    bytes: Budget
    bodies: Budget


class Quotas:
    """All budgets of a server: a ``Room`` for each kind of work, and event streams."""

    def __init__(self, limits: ClientLimits) -> None:
        """Create the budgets, with sizes after ``limits``."""
        half, memory = limits.total_bytes // 2, "the memory for bodies and responses is in use"
        shared = Budget(half, memory)
        self.streams = Budget(limits.streams, "too many event streams are open")
        self.rooms: Mapping[WorkKind, Room] = {
            work: Room(
                Budget(
                    limits.agents if work is WorkKind.AGENT else limits.requests,
                    f"too many {work.value} requests are in progress",
                ),
                Budget(half, memory) if work in (WorkKind.CHANGE, WorkKind.AGENT) else shared,
                # All agents behind one address confirm a new plan at the same time.
                Budget(
                    limits.agents if work is WorkKind.AGENT else max(1, limits.connections // 4),
                    "too many request bodies are being received",
                ),
            )
            for work in WorkKind
        }


class Share:
    """The amounts that one request has taken from the budgets, in the name of its client."""

    def __init__(self, room: Room, who: str) -> None:
        """Begin with nothing taken; ``who`` is the client."""
        self.room, self.who = room, who
        self._held = 0

    def take_bytes(self, amount: int) -> None:
        """Take memory for a part of the request's body.

        Raises:
            ProblemError: 503, too much is in use.
        """
        self.room.bytes.take(amount, who=self.who)
        self._held += amount

    def give_bytes(self) -> None:
        """Give back the memory of the request's body."""
        self.room.bytes.give(self._held, who=self.who)
        self._held = 0
