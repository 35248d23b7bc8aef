"""When ports in use are checked: soon and often after an event, and then ever more rarely.

Routers follow a failed or repaired cable one after the other, so that a port that a probe has just shown may lead
elsewhere a moment later.
"""

from __future__ import annotations

FIRST_SECONDS = 0.5
"""From an event to the first check after it."""


class CheckTimes:
    """The time until the next check. The time since an event doubles from one check to the next, at most."""

    def __init__(self) -> None:
        """Begin without an event."""
        self._next = float("inf")

    def event(self) -> None:
        """Note that the paths of ports may have changed, or are about to."""
        self._next = FIRST_SECONDS

    def wait(self, usual: float) -> float:
        """Return the seconds from a check to the next one; ``usual``: long after events."""
        seconds = min(self._next, usual)
        self._next *= 2
        return seconds
