"""The time for which the processors of the machine had nothing to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IDLE, _WAITING = 4, 5
"""Words of the first line of /proc/stat (proc(5)), in ticks of all processors."""


class IdleShare:
    """The idle part of the processors since this was made."""

    def __init__(self) -> None:
        """Begin now."""
        self._began, self._idle = time.monotonic(), _idle_seconds()

    def now(self) -> float:
        """Return the part, from 0 to 1."""
        passed = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return min(1.0, (_idle_seconds() - self._idle) / passed) if passed > 0 else 1.0


def _idle_seconds() -> float:
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(words[_IDLE]) + int(words[_WAITING])) / float(os.sysconf("SC_CLK_TCK"))
