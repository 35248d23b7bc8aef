"""A store in a SQLite file, or in memory.

The file is written ahead (WAL) with a sync at every commit: what is acknowledged outlives the loss of power (SQLite,
"Write-Ahead Logging", section "Performance Considerations", and ``PRAGMA synchronous``). Who may write is decided by a
lock on a file beside it, which the kernel takes back when its holder ends, however that happens.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from controller.store.errors import StoreError
from controller.store.location import shown
from controller.store.schema import VERSION_TABLE

IMMEDIATE = "fairspine_immediate"
"""Execution option of a connection whose next transaction writes: it takes the write lock first, while it can wait."""

BUSY_SECONDS = 5.0
"""How long another program (a backup, a curious administrator) may lock the file before a change is refused."""

_WAL_BYTES = 64 * 1024 * 1024
"""Size that the file beside the database shrinks back to after one huge change."""

_LEAST_BYTES = 64 * 1024
"""SQLite needs half of it for an index of what it has written ahead."""

_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_BUSY: "another program has it locked",
    sqlite3.SQLITE_LOCKED: "another program has it locked",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_IOERR: "the disk does not read or write",
    sqlite3.SQLITE_TOOBIG: "the change is larger than a database can hold",
}


class SqliteFile:
    """Implements ``controller.store.database.Database``."""

    def __init__(self, url: URL) -> None:
        """``url`` names a file."""
        assert url.database is not None
        self.shown = shown(url)
        # A second name of the same file leads to the same lock.
        self._path = Path(os.path.realpath(url.database))
        self._lock: int | None = None
        self._identity: tuple[int, int] | None = None
        engine_url = URL.create("sqlite", database=str(self._path))
        self._engine = sa.create_engine(
            engine_url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        )
        sa.event.listen(self._engine, "connect", self._prepare)
        sa.event.listen(self._engine, "begin", _begin)

    def claim(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._make_file()
        except BlockingIOError:
            self.release()
            raise StoreError(f"{self.shown} is in use by another controller") from None
        except OSError as error:
            self.release()
            raise StoreError(f"{self.shown} cannot be made or written: {error.strerror}") from None
        self._identity = self._present()

    def _make_file(self) -> None:
        """SQLite would make it readable for everybody; the files that it puts beside take their modes from this one."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(file)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def connect(self) -> sa.Connection:
        self.check()
        return self._engine.connect()

    def _prepare(self, connection: Any, _record: Any) -> None:
        try:
            self._set_up(connection)
        except BaseException:
            # Nobody else has it yet, and a file that is in use cannot be unmounted.
            connection.close()
            raise

    def _set_up(self, connection: Any) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and VERSION_TABLE not in tables:
            raise StoreError(f"{self.shown} is the database of another program")
        # Stays with the file, so it is not done to another program's.
        connection.execute("PRAGMA journal_mode=WAL").close()
        _prepare(connection)

    def check(self) -> None:
        # SQLite goes on writing to a file that was removed, and all of that would end with the controller.
        if self._present() != self._identity:
            raise StoreError(f"{self.shown} was removed or replaced; restart the controller to use what is there now")

    def _present(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def reason(self, error: BaseException) -> str:
        # Only some of the calls that fail then have SQLite say so.
        return f"{self.shown}: {'the disk is full' if self._disk_is_full() else _reason(error)}"

    def _disk_is_full(self) -> bool:
        try:
            found = os.statvfs(self._path.parent)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize < _LEAST_BYTES

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Memory:
    """Implements ``controller.store.database.Database``: nothing outlives the connection."""

    shown = "memory"

    def __init__(self) -> None:
        self._engine = sa.create_engine(
            "sqlite://", poolclass=NullPool, hide_parameters=True, connect_args={"check_same_thread": False}
        )
        sa.event.listen(self._engine, "connect", _prepare)
        sa.event.listen(self._engine, "begin", _begin)

    def claim(self) -> None:
        """There is nobody else."""

    def connect(self) -> sa.Connection:
        return self._engine.connect()

    def check(self) -> None:
        """Nothing can happen to it."""

    def reason(self, error: BaseException) -> str:
        return f"the store in memory: {_reason(error)}"

    def release(self) -> None:
        """There was nobody else."""


def _prepare(connection: Any, _record: Any = None) -> None:
    # Python's module would begin transactions where it sees fit; _begin does instead.
    connection.isolation_level = None
    for pragma in (
        "synchronous=FULL",
        "foreign_keys=ON",
        # What Debian's SQLite would do otherwise: overwrite megabytes of pruned paths with zeros.
        "secure_delete=FAST",
        f"journal_size_limit={_WAL_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get(IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _reason(error: BaseException) -> str:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _REASONS:
        return _REASONS[code & 0xFF]
    return str(cause) or type(cause).__name__
