"""The newest changes of one writer, to write again what a database has lost.

A database loses acknowledged changes when an asynchronous standby takes over from a primary that has died. The writer
knows them. Every change has an id, and the database holds that of its last one; so the writer finds out from which on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from controller.store.store_mapping import RowChanges

CHANGE_BYTES = 256
"""What a change takes besides its rows, about."""


class Doubt(NamedTuple):
    """A change that may or may not be kept: its id, what undoes it, and the id of the undoing as a change."""

    change: str
    undo: RowChanges
    undone: str


class RecentChanges:
    """Changes that follow each other; the oldest are forgotten first.

    Args:
        begin: the id of the change before the first one.
        most_bytes: of all rows together; a change that is larger is not kept, and none before it.
    """

    def __init__(self, begin: str, most_bytes: int) -> None:
        """Keep nothing yet."""
        self._before, self._most_bytes, self._bytes = begin, most_bytes, 0
        self._changes: deque[tuple[str, RowChanges, int]] = deque()

    def add(self, change: str, edit: RowChanges) -> None:
        """Keep the newest change.

        Args:
            change: its id.
            edit: its rows.
        """
        size = _bytes(edit)
        self._changes.append((change, edit, size))
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._before, _, gone = self._changes.popleft()
            self._bytes -= gone

    def after(self, change: str) -> Sequence[RowChanges] | None:
        """Return all that follow a change, oldest first; ``None``: it is none of these, or forgotten."""
        ids = [self._before, *(each for each, _, _ in self._changes)]
        if change not in ids:
            return None
        return [edit for _, edit, _ in self._changes][ids.index(change) :]


def _bytes(edit: RowChanges) -> int:
    rows = chain(edit.jobs, edit.drains or (), edit.settings, edit.plans, edit.paths)
    return CHANGE_BYTES + sum(len(value) for row in rows for value in row.values() if isinstance(value, str | bytes))
