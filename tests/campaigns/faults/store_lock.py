"""A failure of the store: another program holds the lock of the SQLite file for some seconds."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

LOCK_SECONDS = 30.0
"""For the controller to finish a transaction."""


class StoreLock:
    """The write lock of a SQLite file, taken at once."""

    def __init__(self, file: Path, seconds: float) -> None:
        """Take the lock; ``release`` waits until ``seconds`` have passed since then."""
        self._connection = sqlite3.connect(file, timeout=LOCK_SECONDS, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")
        self._until = time.monotonic() + seconds

    def release(self) -> None:
        """Wait for the end of the failure and give the lock back; nothing was written."""
        time.sleep(max(0.0, self._until - time.monotonic()))
        self._connection.rollback()
        self._connection.close()
