"""The priority of a process."""

from __future__ import annotations

import os
from pathlib import Path


def nice(pid: int) -> tuple[int, int | None]:
    """Return the nice value of a process, and that of its session among sessions (sched(7), "The autogroup feature").

    The second one is ``None`` where there is none: a kernel without this feature has no such file, and it is empty for
    processes whose ancestors have never begun a session.
    """
    group = Path(f"/proc/{pid}/autogroup")
    session = group.read_text().split() if group.exists() else []
    return os.getpriority(os.PRIO_PROCESS, pid), int(session[-1]) if session else None
