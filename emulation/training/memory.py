"""Memory that is available to new processes."""

from __future__ import annotations

from pathlib import Path

RANK_BYTES = 280 * 2**20
"""Of one rank: a process with JAX and a small model has 250 to 280 MiB."""

_UNIT = 1024
"""/proc/meminfo says kB and means this (proc_meminfo(5))."""


def too_little(ranks: int, *, root: Path = Path("/")) -> str:
    """Return in one line why so many ranks at a time have no room; empty if they have.

    Args:
        ranks: of all jobs.
        root: of the files that say what is available.
    """
    free, needed = _available(root), ranks * RANK_BYTES
    if free is None or free >= needed:
        return ""
    return f"{ranks} ranks need {_in_words(needed)} of memory, and {_in_words(free)} are available"


def _available(root: Path) -> int | None:
    """Return the bytes that the machine has, or the control group of this process, if that has less."""
    rows = (line.split() for line in (root / "proc/meminfo").read_text().splitlines())
    machine = next((int(row[1]) * _UNIT for row in rows if row[0] == "MemAvailable:"), None)
    limits = [room for room in (machine, _room_in_group(root / "sys/fs/cgroup")) if room is not None]
    return min(limits, default=None)


def _room_in_group(folder: Path) -> int | None:
    """Return the bytes below the limit of the control group at a folder (version 2); ``None``: it has no limit."""
    try:
        limit, used = ((folder / f"memory.{name}").read_text().strip() for name in ("max", "current"))
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)


def _in_words(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
