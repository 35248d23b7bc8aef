"""A store in a SQLite file, or in memory.

The file is written ahead (WAL) with a sync at every commit: what is acknowledged outlives the loss of power (SQLite,
"Write-Ahead Logging", section "Performance Considerations", and ``PRAGMA synchronous``). Each change is moved from the
log into the database file before it is acknowledged, so that it outlives the loss of the log, too. Who may write is
decided by a lock on a file beside it, which the kernel takes back when its holder ends, however that happens.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from controller.store.errors import StoreError, StoreTakenError
from controller.store.location import shown
from controller.store.schema import VERSION_TABLE
from controller.store.sqlite_files import SqliteFiles

IMMEDIATE = "fairspine_immediate"
"""Execution option of a connection whose next transaction writes: it takes the write lock first, while it can wait."""

BUSY_SECONDS = 5.0
"""Seconds that another program (a backup, an administrator's shell) may lock the file before a change is refused."""

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
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_TOOBIG: "the change is larger than a database can hold",
}


class SqliteFile:
    """Implements ``controller.store.database.Database``."""

    recent_bytes = 0

    def __init__(self, url: URL, *, new: bool = False) -> None:
        """Prepare the file that ``url`` names; nothing is opened yet. ``new``: an empty file is a new database."""
        assert url.database is not None
        self.shown = shown(url)
        # A second name of the same file leads to the same lock.
        self._new = new
        self._path = Path(os.path.realpath(url.database))
        self._files = SqliteFiles(self._path, self.shown)
        self._engine = sa.create_engine("sqlite://", poolclass=NullPool, hide_parameters=True, creator=self._open)
        sa.event.listen(self._engine, "connect", self._prepare)
        sa.event.listen(self._engine, "begin", _begin)
        self._reader = sa.create_engine("sqlite://", poolclass=NullPool, hide_parameters=True, creator=self._open_again)

    def claim(self) -> None:
        """Make the file where it is missing, and keep other controllers out."""
        try:
            self._files.claim(new=self._new)
        except StoreError:
            self.release()
            raise
        except BlockingIOError:
            self.release()
            raise StoreTakenError(f"{self.shown} is in use by another controller") from None
        except OSError as error:
            self.release()
            raise StoreError(f"{self.shown} cannot be created or written: {error.strerror}") from None

    def connect(self) -> sa.Connection:
        """Open the file, and put it back first if it was removed."""
        self._files.disconnected()
        while True:
            try:
                if not self._files.in_use():
                    self._files.put_back(None)
                    self._files.adopt()
                self._files.recover_log()
            except OSError as error:
                raise StoreError(
                    f"{self.shown} was removed and cannot be written again: {self.reason(error)}"
                ) from None
            try:
                return self._engine.connect()
            except sa.exc.DBAPIError:
                # SQLite reports a file that is deleted while it is being opened as an input error, among others.
                if self._files.in_use():
                    raise

    def _open(self) -> sqlite3.Connection:
        # The file is there: one that SQLite would make in its place would be empty.
        name = f"{self._path.as_uri()}?mode=rw"
        return sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    def _open_again(self) -> sqlite3.Connection:
        name = f"{self._path.as_uri()}?mode=ro"
        return sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    def _prepare(self, connection: Any, _record: Any) -> None:
        try:
            self._set_up(connection)
        except BaseException:
            # The connection is not in use yet, and an open file would prevent an unmount.
            connection.close()
            raise

    def _set_up(self, connection: Any) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and VERSION_TABLE not in tables:
            raise StoreError(f"{self.shown} is the database of another program")
        # The mode is stored in the file, so it is not set in another program's.
        connection.execute("PRAGMA journal_mode=WAL").close()
        _prepare(connection)
        # ``keep`` alone moves what is written into the database file: any other write to that is another program's.
        connection.execute("PRAGMA wal_autocheckpoint=0").close()
        # The files beside are made by the first transaction.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        self._files.connected()

    def check(self) -> bool:
        """Return whether the file that SQLite has open is the one that a restart finds."""
        return self._files.in_use()

    def suspect(self) -> bool:
        """Return whether another program may have written to the file."""
        return self._files.suspect()

    def accept(self) -> None:
        """Take the present file for a good one."""
        self._files.accept()

    def examine(self) -> sa.Connection:
        """Open a second connection, which reads the file as a restart would."""
        return self._reader.connect()

    def put_anew(self, connection: sa.Connection) -> str:
        """Put a database with the content of ``connection`` in place of the file."""
        try:
            aside = self._files.set_aside()
            self._files.put_back(_driver(connection))
            self._files.adopt()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{self.shown} was overwritten by another program and cannot be written again: {self.reason(error)}"
            ) from None
        return str(aside)

    def beat(self, connection: sa.Connection) -> None:
        """Do nothing: the kernel knows who holds the lock."""

    def keep(self, connection: sa.Connection) -> None:
        """Copy the write-ahead log into the database file, as far as that is possible without waiting."""
        if self._files.suspect():
            # The log holds the change until the file has been examined.
            return
        # Then the loss of the log loses nothing. If a reader or a full disk prevents it, the next change repeats it.
        try:
            with self._files.log_saved():
                busy, ahead, moved = _driver(connection).execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except (OSError, sqlite3.Error):
            self._files.written(complete=False)
        else:
            self._files.written(complete=not busy and ahead == moved)

    def mend(self, connection: sa.Connection) -> None:
        """Write the database again to its path, and close the connection to the removed file."""
        try:
            self._files.put_back(_driver(connection))
            connection.close()
            self._files.adopt()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self.shown} was removed and cannot be written again: {self.reason(error)}") from None

    def reason(self, error: BaseException) -> str:
        """Describe an error in one line, with the file's name."""
        # SQLite reports a full disk only for some of the calls that fail.
        return f"{self.shown}: {'the disk is full' if self._disk_is_full() else _reason(error)}"

    def _disk_is_full(self) -> bool:
        try:
            volume = os.statvfs(self._path.parent)
        except OSError:
            return False
        return volume.f_bavail * volume.f_frsize < _LEAST_BYTES

    def release(self) -> None:
        """Let other controllers use the file."""
        self._files.release()


class MemoryDatabase:
    """Implements ``controller.store.database.Database``: nothing outlives the connection."""

    recent_bytes = 0

    shown = "memory"

    def __init__(self) -> None:
        """Create an empty database in memory."""
        self._engine = sa.create_engine(
            "sqlite://", poolclass=NullPool, hide_parameters=True, connect_args={"check_same_thread": False}
        )
        sa.event.listen(self._engine, "connect", _prepare)
        sa.event.listen(self._engine, "begin", _begin)

    def claim(self) -> None:
        """Do nothing: no other process can use it."""

    def connect(self) -> sa.Connection:
        """Return the connection to the database in memory."""
        return self._engine.connect()

    def check(self) -> bool:
        """Return ``True``: there is no file to lose."""
        return True

    def beat(self, connection: sa.Connection) -> None:
        """Do nothing: no other process can use it."""

    def keep(self, connection: sa.Connection) -> None:
        """Do nothing: the data ends with the process."""

    def mend(self, connection: sa.Connection) -> None:
        """Do nothing: there is nothing to repair."""

    def reason(self, error: BaseException) -> str:
        """Describe an error in one line."""
        return f"the store in memory: {_reason(error)}"

    def release(self) -> None:
        """Do nothing: there is no lock."""


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


def _driver(connection: sa.Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _begin(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get(IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _reason(error: BaseException) -> str:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _REASONS:
        return _REASONS[code & 0xFF]
    return str(cause) or type(cause).__name__
