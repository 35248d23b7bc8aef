"""The loop of one process: files that become readable, timers, and endpoints that send when their time has come."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from collections.abc import Callable
from typing import Any, Protocol


class Transmitter(Protocol):
    """A sender of packets in the loop."""

    def transmit(self, now: float) -> float | None:
        """Send what may leave now; return the time of the next packets (None: only after an arrival)."""
        ...


class EndpointLoop:
    """Files, timers and transmitters that are served in turn. The time is that of the monotonic clock."""

    def __init__(self) -> None:
        """Begin with nothing to serve."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_number = itertools.count()
        self._transmitters: list[Transmitter] = []

    def close(self) -> None:
        """Close the selector; the files are their owners'."""
        self._selector.close()

    def add(self, transmitter: Transmitter) -> None:
        """Serve a transmitter until ``remove``."""
        self._transmitters.append(transmitter)

    def remove(self, transmitter: Transmitter) -> None:
        """Serve a transmitter no longer."""
        self._transmitters.remove(transmitter)

    def watch(self, fileobj: Any, callback: Callable[[], None], events: int = selectors.EVENT_READ) -> None:
        """Call back when ``fileobj`` is ready, until ``unwatch``."""
        self._selector.register(fileobj, events, callback)

    def unwatch(self, fileobj: Any) -> None:
        """Stop watching a file object."""
        self._selector.unregister(fileobj)

    def call_at(self, at: float, callback: Callable[[], None]) -> None:
        """Call back once when the clock has reached ``at``."""
        heapq.heappush(self._timers, (at, next(self._timer_number), callback))

    def run(self, until: Callable[[], bool], *, deadline: float | None = None) -> bool:
        """Serve until ``until()`` holds (looked at after every event) or the clock passes ``deadline``.

        Returns whether ``until()`` holds. ``until`` may itself start things.
        """
        while not until():
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return False
            if self._timers and now >= self._timers[0][0]:
                heapq.heappop(self._timers)[2]()
                continue
            times = [transmitter.transmit(now) for transmitter in self._transmitters]
            times += [deadline, self._timers[0][0] if self._timers else None]
            wake = min((at for at in times if at is not None), default=None)
            timeout = None if wake is None else max(0.0, wake - time.monotonic())
            for key, _ in self._selector.select(timeout):
                key.data()
        return True
