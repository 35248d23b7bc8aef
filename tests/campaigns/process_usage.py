"""What processes use: time on processors, and memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes of a process that are in memory; 0: it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far; 0: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


@dataclass(frozen=True)
class Usage:
    """The use of a process over some time.

    Attributes:
        core: part of one core.
        memory: resident set at the end, in bytes.
    """

    core: float
    memory: int


class UsageMeter:
    """Measures a process from the meter's construction on."""

    def __init__(self, pid: int) -> None:
        """Begin to measure."""
        self._pid, self._began, self._used = pid, time.monotonic(), processor_seconds(pid)

    def read(self) -> Usage:
        """Return the use so far."""
        used = processor_seconds(self._pid) - self._used
        return Usage(used / (time.monotonic() - self._began), resident(self._pid))
