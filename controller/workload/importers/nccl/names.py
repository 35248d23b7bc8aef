"""Hostnames that follow the end of a table in a line.

nccl-tests prints a row without its line break, and another process's line follows: ``N/Anode0:17:17 [0] NCCL INFO ..``.
"""

from __future__ import annotations

import re

from controller.workload.importers.nccl.lines import Thread

_COLUMN = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?|A")
"""The last column of a row of nccl-tests: a number, or the end of ``N/A``."""


class ThreadHostnames:
    """The hostnames of each thread."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._hosts: dict[tuple[int, int, int], set[str]] = {}

    def own(self, thread: Thread) -> tuple[Thread, str]:
        """Return the thread with its server's own name, and an earlier, longer name of it (empty: none).

        Text before a name counts as a column's end if the same process and thread also wrote without it.
        """
        known = self._hosts.setdefault((thread.pid, thread.tid, thread.gpu), set())
        if thread.host in known:
            return thread, ""
        for host in known:
            if thread.host.endswith(host) and _COLUMN.fullmatch(thread.host[: -len(host)]):
                return thread._replace(host=host), ""
            if host.endswith(thread.host) and _COLUMN.fullmatch(host[: -len(thread.host)]):
                known.discard(host)
                known.add(thread.host)
                return thread, host
        known.add(thread.host)
        return thread, ""
