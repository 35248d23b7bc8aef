"""Faults of connections to switches, in words, for as long as they last. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable

SECONDS = 60.0
"""A notice is shown for so long after it was given last."""

MOST = 100
"""Notices at a time; more are left out (the log has them, as far as it takes them)."""


class Notices:
    """Texts by key, each of which expires after some time."""

    def __init__(self, clock: Callable[[], float], *, changed: Callable[[], None], seconds: float = SECONDS) -> None:
        """Begin without notices; ``changed`` is called when a new notice appears."""
        self._clock, self._changed, self._seconds = clock, changed, seconds
        self._given: dict[Hashable, tuple[float, str]] = {}

    def give(self, key: Hashable, text: str) -> bool:
        """Show a text from now on; return whether there was none with this key."""
        now = self._clock()
        self._forget(now)
        known = self._given.pop(key, None)
        if known is None and len(self._given) >= MOST:
            return False
        # The first text stays, so that a changed number in it is no new notice.
        self._given[key] = now, text if known is None else known[1]
        if known is None:
            self._changed()
        return known is None

    def withdraw(self, key: Hashable) -> None:
        """Remove a notice whose fault is over."""
        if self._given.pop(key, None) is not None:
            self._changed()

    def texts(self) -> list[str]:
        """Return the present notices, the newest at the end."""
        self._forget(self._clock())
        return [text for _, text in self._given.values()]

    def _forget(self, now: float) -> None:
        # They stand in the order in which they were given last.
        while self._given:
            key, (last, _) = next(iter(self._given.items()))
            if now - last < self._seconds:
                return
            del self._given[key]
