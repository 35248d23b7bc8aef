"""Log lines about what peers send: one line for each kind of event and minute, however often the event happens.

A switch, or a host behind it, can repeat anything it sends thousands of times a second. ``QuietLog`` writes the first
line of each key at once, counts repetitions, and tells their number with the next line. Its memory and the number of
lines are bounded, whatever the keys are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable

SECONDS = 60.0
"""Between two lines with the same key."""

MOST_KEYS = 1000
MOST_LINES = 100
"""Lines of one ``QuietLog`` within ``SECONDS``, all keys together."""

MOST_CHARACTERS = 500
"""Of one line."""


class QuietLog:
    """Writes to a logger, rate-limited by key."""

    def __init__(
        self,
        log: logging.Logger,
        *,
        seconds: float = SECONDS,
        most_keys: int = MOST_KEYS,
        most_lines: int = MOST_LINES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Limit the lines written to a log.

        Args:
            log: the log.
            seconds: between two lines with the same key, and the period of ``most_lines``.
            most_keys: remembered at a time; events with further keys are counted together.
            most_lines: written in one period.
            clock: seconds of a monotonic clock.
        """
        self._log, self._seconds, self._clock = log, seconds, clock
        self._most_keys, self._most_lines = most_keys, most_lines
        self._written: dict[Hashable, list[float]] = {}
        self._began, self._lines, self._left_out = clock(), 0, 0

    def warning(self, key: Hashable, text: str, *args: object) -> bool:
        """Write a warning unless one with this key was written within the period.

        Args:
            key: what counts as the same event: the place and the kind, nothing that the peer can vary at will.
            text: of one line, with the placeholders of ``logging``; long values are cut.
            *args: values for the placeholders.

        Returns:
            whether a line was written.
        """
        return self.write(logging.WARNING, key, text, *args)

    def write(self, level: int, key: Hashable, text: str, *args: object) -> bool:
        """Write a line like ``warning``, with another level."""
        now = self._clock()
        written = self._written.get(key)
        if written is not None and now - written[0] < self._seconds:
            written[1] += 1
            return False
        if now - self._began >= self._seconds:
            self._next_period(now)
        if self._lines >= self._most_lines or (written is None and not self._has_room(now)):
            self._left_out += 1
            return False
        self._lines += 1
        repeated = 0 if written is None else int(written[1])
        # Move to the end: keys are in the order of their last line.
        self._written.pop(key, None)
        self._written[key] = [now, 0]
        line = " ".join((text % args if args else text).split())
        if len(line) > MOST_CHARACTERS:
            line = line[:MOST_CHARACTERS] + "..."
        if repeated:
            line += f" ({repeated} more since the last such line)"
        self._log.log(level, "%s", line)
        return True

    def _next_period(self, now: float) -> None:
        if self._left_out:
            self._log.warning("%d similar lines were left out", self._left_out)
        self._began, self._lines, self._left_out = now, 0, 0

    def _has_room(self, now: float) -> bool:
        """Return whether one more key can be remembered; forget the oldest that are no longer needed."""
        while len(self._written) >= self._most_keys:
            oldest = next(iter(self._written))
            if now - self._written[oldest][0] < self._seconds:
                return False
            del self._written[oldest]
        return True
