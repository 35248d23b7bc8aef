"""The switches still awaited: after a start, and after their connections have ended.

While switches are connecting, most of the network seems to be missing, and the absence of a switch says nothing.
Waiting ends when they are all there, when none has connected for some time, or at a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.model.switch_key import SwitchKey

GRACE = 3.0
"""Seconds that are waited for the next switch, as long as switches come; and for one that was there to come back."""

LONGEST = 60.0
"""Seconds after which waiting ends, even if switches still connect."""

HELD = 15.0
"""Seconds for which a switch is waited for that others see at the far end of a port, where switches forward by rules
from before: Open vSwitch tries to connect once in 8 s at least, and waiting costs nothing."""


class AwaitedSwitches:
    """The switches that are waited for. Time, in seconds from any origin, is an argument and never goes back."""

    def __init__(self, expected: Iterable[SwitchKey] | None = None) -> None:
        """Expect the switches of the fabric file; ``None``: there is no file.

        Other switches are not remembered then, because any program may connect as one, again and again.
        """
        self._any = expected is None
        self._expected = frozenset(expected or ())
        self._there: set[SwitchKey] = set()
        self._gone: dict[SwitchKey, float] = {}
        self._began = self._newest = 0.0
        self._starting, self._held = True, False

    def entered(self, key: SwitchKey, now: float) -> None:
        """Record that a switch has connected."""
        if not self._counts(key):
            return
        if not self._there:
            self._began, self._starting, self._held = now, True, False
        self._there.add(key)
        self._gone.pop(key, None)
        self._newest = now

    def left(self, key: SwitchKey, now: float) -> None:
        """Record that a connection has ended."""
        if key in self._there:
            self._there.discard(key)
            self._gone[key] = now

    def _counts(self, key: SwitchKey) -> bool:
        return self._any or key in self._expected

    def holds_rules(self) -> None:
        """Record that a switch forwards by rules from before."""
        self._held = True

    def starting(self, now: float, is_near: Callable[[SwitchKey], bool]) -> bool:
        """Return whether switches not seen yet may still connect; if not, a new start begins when all are disconnected.

        Args:
            now: seconds.
            is_near: whether a port that is up leads to a switch.
        """
        if not self._there:
            return self._any or bool(self._expected)
        if self._starting:
            waits = now - self._newest < GRACE and now - self._began < LONGEST
            if not waits and self._held and now - self._began < HELD:
                waits = any(is_near(key) for key in self._expected - self._there)
            self._starting = waits
        return self._starting

    def lost(self, now: float) -> frozenset[SwitchKey]:
        """Return the switches whose connection ended a moment ago, or a little longer while others come back."""
        most = LONGEST / 2 if now - self._newest < GRACE else GRACE
        self._gone = {key: since for key, since in self._gone.items() if now - since < LONGEST / 2}
        return frozenset(key for key, since in self._gone.items() if now - since < most)
