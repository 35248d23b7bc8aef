"""How long routers take to answer probes: after which time another probe is sent beside one that may be lost.

A search that waits the whole patience for each lost probe takes long just after a cable has failed, since some routers
still send packets to it then. The time is that after which TCP sends a segment again (RFC 6298, section 2).
"""

from __future__ import annotations

LEAST_SECONDS = 0.03
"""Hosts and routers under load answer some probes later than most."""

_SMOOTHING, _DEVIATION_SMOOTHING, _DEVIATIONS = 1 / 8, 1 / 4, 4


class AnswerTimes:
    """The times of the answers that a host has got, of all routers."""

    def __init__(self) -> None:
        """Begin without answers."""
        self._smoothed: float | None = None
        self._deviation = 0.0

    def take(self, seconds: float) -> None:
        """Take the time from a probe to its answer."""
        if self._smoothed is None:
            self._smoothed, self._deviation = seconds, seconds / 2
            return
        self._deviation += _DEVIATION_SMOOTHING * (abs(seconds - self._smoothed) - self._deviation)
        self._smoothed += _SMOOTHING * (seconds - self._smoothed)

    @property
    def late(self) -> float:
        """Return the seconds after which an answer is late; infinite before the first answer."""
        if self._smoothed is None:
            return float("inf")
        return max(self._smoothed + _DEVIATIONS * self._deviation, LEAST_SECONDS)
