"""The rate of one queue pair: cut on loss, recovered in stages, after DCQCN.

DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3) cuts the rate by
alpha / 2 when the receiver reports marked packets, and recovers in three stages towards and beyond the rate before
the cut. Nothing marks packets here, so a loss (a sequence error or a timeout) takes the place of that report. What
differs from the paper besides: the increase goes by time alone (no byte counter), its clock is that of a network a
thousand times slower, and a cut starts from what was really delivered where that is less than the rate allowed: a
window may have been the limit before, and halving a limit that did not limit would change nothing.
"""

from __future__ import annotations

INTERVAL = 0.02
"""Seconds between two steps of the increase (55 microseconds in the paper)."""

FAST_RECOVERY_STEPS = 5
GAIN = 1 / 16
"""How fast alpha follows: 1/256 in the paper, larger here since losses are rarer than marks."""

ADDITIVE_PART = 1 / 100
"""Of the line rate, added to the target in each step after fast recovery; times the step's number later on."""

MINIMUM_PART = 1 / 100
"""Of the line rate: a sender never goes below it, else it could not find out that the path is free again."""

MEASURE_SECONDS = 0.05


class RateControl:
    """Allowed rate in bit/s. Time comes as an argument (seconds, any origin, never backwards)."""

    def __init__(self, line_rate: float) -> None:
        """Start at ``line_rate`` in bit/s, which is also the upper limit."""
        self.line_rate = line_rate
        self._rate = line_rate
        self._target = line_rate
        self._alpha = 1.0
        self._steps = 0
        self._step_at: float | None = None
        self._deaf_until = float("-inf")
        self._delivered: float | None = None
        self._counted = 0
        self._counting_since: float | None = None

    def rate(self, now: float) -> float:
        """Return the permitted rate in bit/s at this time."""
        if self._step_at is not None:
            while self._rate < self.line_rate and now >= self._step_at:
                self._step_at += INTERVAL
                self._increase()
            if self._rate >= self.line_rate:
                self._step_at = None
        return self._rate

    def delivered(self, size: int, now: float) -> None:
        """``size`` bytes were acknowledged."""
        if self._counting_since is None:
            self._counting_since = now
            return
        self._counted += size
        seconds = now - self._counting_since
        if seconds >= MEASURE_SECONDS:
            measured = self._counted * 8 / seconds
            self._delivered = measured if self._delivered is None else (self._delivered + measured) / 2
            self._counted, self._counting_since = 0, now

    def idle(self) -> None:
        """Note that no packets are in flight, so that the time until the next packet is not measured."""
        self._counted, self._counting_since = 0, None

    def lost(self, now: float) -> None:
        """Cut the rate after a loss. Losses within one interval count once, as the first cut had no effect yet."""
        if now < self._deaf_until:
            return
        self._deaf_until = now + INTERVAL
        current = self.rate(now)
        if self._delivered is not None:
            current = min(current, self._delivered)
        minimum = self.line_rate * MINIMUM_PART
        self._target = max(current, minimum)
        self._rate = max(current * (1 - self._alpha / 2), minimum)
        self._alpha = (1 - GAIN) * self._alpha + GAIN
        self._steps = 0
        self._step_at = now + INTERVAL

    def _increase(self) -> None:
        self._alpha *= 1 - GAIN
        self._steps += 1
        beyond = self._steps - FAST_RECOVERY_STEPS
        if beyond > 0:
            self._target = min(self._target + beyond * ADDITIVE_PART * self.line_rate, self.line_rate)
        self._rate = (self._rate + self._target) / 2
        if self._rate > 0.99 * self.line_rate:
            self._rate = self.line_rate
