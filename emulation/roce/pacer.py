"""Pacing: the time at which the next packet may leave at a given rate."""

from __future__ import annotations

CATCH_UP_PACKETS = 4
CATCH_UP_SECONDS = 0.002
"""How much lateness is earned back, the larger of the two: timers tick in milliseconds, and packets may be due more
often than that."""


class Pacer:
    """Spaces packets. ``ready_at`` is when the next one may go (seconds; time is the caller's)."""

    def __init__(self) -> None:
        """Allow the first packet at any time."""
        self.ready_at = 0.0

    def spend(self, size: int, rate: float, now: float) -> None:
        """Account for a packet of ``size`` bytes that leaves now, at ``rate`` bit/s."""
        seconds = size * 8 / rate
        late = max(CATCH_UP_PACKETS * seconds, CATCH_UP_SECONDS)
        self.ready_at = max(self.ready_at, now - late) + seconds
