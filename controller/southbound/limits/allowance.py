"""Token buckets: how much of something is allowed per second."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class Allowance:
    """A token bucket: at most ``per_second`` on average, at most ``burst`` at once."""

    def __init__(self, per_second: float, now: float, burst: float | None = None) -> None:
        """Start full; ``burst`` defaults to one second's worth."""
        self._rate = per_second
        self._most = per_second if burst is None else burst
        self._tokens = self._most
        self._at = now

    def available(self, now: float) -> int:
        """Return how many may be taken now."""
        self._tokens = min(self._most, self._tokens + max(now - self._at, 0.0) * self._rate)
        self._at = now
        return int(self._tokens)

    def spend(self, number: int) -> None:
        """Take a number of units; an excess is deducted from later ones."""
        self._tokens -= number

    def take(self, now: float) -> bool:
        """Take one; return whether that is allowed now."""
        if self.available(now) < 1:
            return False
        self._tokens -= 1
        return True


class Allowances:
    """One token bucket for each key; the keys that were used last are remembered, ``most`` of them."""

    def __init__(self, per_second: float, burst: float, most: int = 4096) -> None:
        """Begin without keys; each new key starts with a full bucket."""
        self._rate, self._burst, self._most = per_second, burst, most
        self._of: OrderedDict[Hashable, Allowance] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Take one for a key; return whether that is allowed now."""
        own = self._of.get(key)
        if own is None:
            own = self._of[key] = Allowance(self._rate, now, self._burst)
            if len(self._of) > self._most:
                self._of.popitem(last=False)
        else:
            self._of.move_to_end(key)
        return own.take(now)

    def __len__(self) -> int:
        """Return the number of remembered keys."""
        return len(self._of)
