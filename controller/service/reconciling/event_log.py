"""The newest events, and readers that wait for more: a bounded log in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

from controller.core.events import Event, EventKind
from controller.core.ports.runtime import Runtime, Signal

KEPT = 2000
"""Number of events in memory: a slower reader gets a reset."""

BEGIN = "begin"
"""In place of an id: before the oldest event that is kept."""

AT_ONCE = 100
"""Maximum number of events that a reader gets at a time."""


class EventLog:
    """Events of this run. Ids are ``RUN-NUMBER``: no other run has them.

    The run is the time at which it began, in hexadecimal microseconds, or the term of a cluster's leader.
    """

    def __init__(self, runtime: Runtime, kept: int = KEPT) -> None:
        """Begin with no events; ``kept`` is the number that stays available."""
        self._runtime = runtime
        self._run = f"{int(runtime.now() * 1e6):x}"
        self._events: deque[Event] = deque(maxlen=kept)
        self._newest = 0
        self._readers: set[EventReader] = set()

    def lead(self, term: int) -> None:
        """Name events by the term of this leader; called before the first event."""
        self._run = str(term)

    @property
    def n_readers(self) -> int:
        """The number of open subscriptions."""
        return len(self._readers)

    def append(self, kind: EventKind, **data: Any) -> None:
        """Record an event that happens now. Call it on the event loop only."""
        self._newest += 1
        self._events.append(Event(self._id(self._newest), self._runtime.now(), kind, data))
        for reader in self._readers:
            reader.signal.set()

    def subscribe(self, after: str | None, last: int = 0) -> EventReader:
        """Return a reader of events from now on and the ``last`` before, or of those since the event ``after``."""
        number = self._newest - min(last, len(self._events)) if after is None else self._number(after)
        reader = EventReader(self, number, self._runtime.signal())
        self._readers.add(reader)
        return reader

    def forget(self, reader: EventReader) -> None:
        """Stop waking the reader."""
        self._readers.discard(reader)

    def after(self, number: int | None) -> tuple[Sequence[Event], int]:
        """Return the events after a number and the next number; a reset comes first if events are missing."""
        oldest = self._newest - len(self._events) + 1
        events: list[Event] = []
        if number is None or number < oldest - 1:
            number = oldest - 1
            reason = "earlier events are no longer available: read the full state again"
            events.append(Event(self._id(number), self._runtime.now(), "reset", {"text": reason}))
        events += islice(self._events, number - oldest + 1, number - oldest + 1 + AT_ONCE)
        known = sum(event.kind != "reset" for event in events)
        return events, number + known

    def _id(self, number: int) -> str:
        return f"{self._run}-{number}"

    def _number(self, event: str) -> int | None:
        """Return the number of an event of this run that may be asked for, else ``None``."""
        if event == BEGIN:
            return max(0, self._newest - len(self._events))
        run, _, number = event.rpartition("-")
        known = run == self._run and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) if known and int(number) <= self._newest else None


class EventReader:
    """A ``controller.core.ports.api.Subscription``."""

    def __init__(self, log: EventLog, number: int | None, signal: Signal) -> None:
        """Read ``log`` from behind event ``number`` (``None``: begin with a reset)."""
        self._log, self._number = log, number
        self.signal = signal

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return the next events; see ``Subscription.wait``."""
        self.signal.clear()
        events, number = self._log.after(self._number)
        if not events:
            self.signal.wait(seconds)
            events, number = self._log.after(self._number)
        self._number = number
        return events

    def close(self) -> None:
        """Unregister from the log."""
        self._log.forget(self)
