"""The files of a SQLite database under a running controller: detection and repair of a removal or an overwriting.

SQLite goes on with files that were deleted or renamed, and everything that it writes to them ends with the process
(SQLite, "How To Corrupt An SQLite Database File", section 4). A descriptor of our own keeps the database file's inode
from being used again, so that equal numbers mean the same file. It must not be closed while SQLite has that file open:
POSIX takes back all locks that a process has on a file when it closes any descriptor of it (the same, section 2.2).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from controller.store.errors import StoreError, StoreTakenError

Identity = tuple[int, int]
Stamp = tuple[int, int, int]
"""Inode, size, and time of the last write in nanoseconds: another program that writes changes it."""

_BESIDE = ("-wal", "-shm")
_SAVED_WAL = "-wal-saved"
"""A second name of the log while it is copied into the database file, which is incomplete without it until then."""

_PIECE_BYTES = 1 << 20


class SqliteFiles:
    """A database file, the two that SQLite keeps beside it, and the lock that keeps other controllers out."""

    def __init__(self, path: Path, shown: str) -> None:
        """Name the file; nothing is opened yet. ``shown``: its name in messages."""
        self.path, self._shown = path, shown
        self._lock: int | None = None
        self._file: int | None = None
        self._next: int | None = None
        self._beside: dict[str, Identity | None] = {}
        self._written: Stamp | None = None
        self._wal_bytes = 0

    def claim(self, *, new: bool) -> None:
        """Make the folder and the file where they are missing, and keep other controllers out.

        ``new``: take an empty file for a new database.

        Raises:
            BlockingIOError: another controller has it.
            OSError: it cannot be made or written.
            StoreError: it is empty, so it has lost its content.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._locked()
        with suppress(FileNotFoundError):
            if not self.path.stat().st_size:
                if not new:
                    raise StoreError(
                        f"{self._shown} is empty (0 bytes), so its content was lost: restore a backup, or start with "
                        "--new-store to begin without jobs and drains"
                    )
                self.path.unlink()
        if not self.path.exists():
            self._create()
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        _sync(self.path.parent)

    def release(self) -> None:
        """Let other controllers in. Connections are closed before."""
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None
        self._drop_next()

    def recover_log(self) -> None:
        """Put back the log of a process that ended while it copied the log, if the log was deleted meanwhile.

        Call it before a connection is made.

        Raises:
            OSError: it cannot be moved.
        """
        saved = self._named(_SAVED_WAL)
        if not saved.exists():
            return
        if self._named("-wal").exists():
            saved.unlink()
        else:
            saved.rename(self._named("-wal"))

    @contextmanager
    def log_saved(self) -> Iterator[None]:
        """Give the log a second name for the time of a copy, so that deleting its first name loses nothing.

        Raises:
            FileNotFoundError: the log was deleted before.
            OSError: it cannot be linked.
        """
        saved = self._named(_SAVED_WAL)
        saved.unlink(missing_ok=True)
        os.link(self._named("-wal"), saved)
        try:
            if _identity(saved) != self._beside.get("-wal"):
                raise FileNotFoundError(saved)
            yield
        finally:
            saved.unlink(missing_ok=True)

    def connected(self) -> None:
        """Take down which files SQLite has opened beside the database: those that are there now."""
        # A file that was deleted since SQLite made it has no identity, which no later check finds in use.
        self._beside = {suffix: _identity(self._named(suffix)) for suffix in _BESIDE}
        self._wal_bytes = 0
        self.accept()

    def written(self, *, complete: bool) -> None:
        """Take down the sizes after a change. ``complete``: the database file holds all of it without the log."""
        self.accept()
        self._wal_bytes = 0 if complete else _size(self._named("-wal"))

    def in_use(self) -> bool:
        """Return whether the files that SQLite has open are those that the next start will find.

        ``False``: they were deleted, and ``put_back`` restores them.

        Raises:
            StoreError: other files are there now, or ours were moved: the operator has to decide.
        """
        assert self._file is not None
        mine, at_path = os.fstat(self._file), _identity(self.path)
        if at_path is not None and at_path != (mine.st_dev, mine.st_ino):
            raise StoreError(f"{self._shown} was removed or replaced; restart the controller to use the present file")
        if at_path is None and mine.st_nlink:
            raise StoreError(f"{self._shown} was removed or replaced; put it back or restart the controller")
        if at_path is None and not self.path.parent.is_dir():
            raise StoreError(f"{self._shown} was removed with its folder; create the folder again")
        return (
            at_path is not None
            and self._lock_is_there()
            and all(
                seen is not None and _identity(self._named(suffix)) == seen for suffix, seen in self._beside.items()
            )
            and _size(self._named("-wal")) >= self._wal_bytes
        )

    def accept(self) -> None:
        """Take down what the database file looks like after a write of ours."""
        self._written = self._stamp()

    def suspect(self) -> bool:
        """Return whether another program may have written to the database file: it has another size or time.

        It is at its path then, so that it can be opened and read.
        """
        assert self._file is not None
        mine = os.fstat(self._file)
        return self._stamp() != self._written and _identity(self.path) == (mine.st_dev, mine.st_ino)

    def set_aside(self) -> Path:
        """Give the database file a second name, under which it is found when another one has taken its place.

        Raises:
            OSError: it cannot be linked.
        """
        aside = self._named(".damaged")
        aside.unlink(missing_ok=True)
        os.link(self.path, aside)
        return aside

    def put_back(self, connection: sqlite3.Connection | None) -> None:
        """Write the database again and move it to its path in one step.

        Args:
            connection: its content is written; it cannot be used afterwards, and must be closed before ``adopt``.
                ``None``: there is none, so the file that was in use is complete by itself.

        Raises:
            OSError, sqlite3.Error: it cannot be written.
            StoreError: another process has put a file there meanwhile.
        """
        fresh = self._named(".new")
        try:
            self._write(fresh, connection)
            self._drop_next()
            self._next = os.open(fresh, os.O_RDWR | os.O_CLOEXEC)
            if not self._lock_is_there():
                self._lock_again()
            # The files beside belong to another database, and SQLite would apply them.
            for suffix in _BESIDE:
                self._named(suffix).unlink(missing_ok=True)
            if self.path.exists():
                fresh.replace(self.path)
            else:
                os.link(fresh, self.path)
        except FileExistsError:
            raise StoreError(f"{self._shown} was removed or replaced; restart the controller") from None
        except BlockingIOError:
            raise StoreTakenError(f"{self._shown} is in use by another controller") from None
        finally:
            fresh.unlink(missing_ok=True)
        _sync(self.path.parent)

    def adopt(self) -> None:
        """Use the file that was put back. There is no connection to it yet, and none to the earlier file any more."""
        assert self._next is not None
        assert self._file is not None
        os.close(self._file)
        self._file, self._next = self._next, None
        self._wal_bytes, self._beside = 0, {}
        self.accept()

    def disconnected(self) -> None:
        """Note that the connection is closed, and that SQLite has therefore removed the files beside the database."""
        self._beside, self._wal_bytes = {}, 0

    def _create(self) -> None:
        # SQLite would make it readable for all users; the files that it puts beside take their modes from this one.
        # It appears complete, so that an empty file is never one of ours.
        fresh = self._named(".new")
        fresh.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            with closing(sqlite3.connect(fresh)) as database:
                database.execute("PRAGMA user_version = 1").close()
            # They belong to an earlier database, and SQLite would apply them.
            for suffix in (*_BESIDE, _SAVED_WAL):
                self._named(suffix).unlink(missing_ok=True)
            fresh.rename(self.path)
        except sqlite3.Error as error:
            raise OSError(None, str(error)) from None
        finally:
            fresh.unlink(missing_ok=True)

    def _stamp(self) -> Stamp:
        assert self._file is not None
        mine = os.fstat(self._file)
        return mine.st_ino, mine.st_size, mine.st_mtime_ns

    def _write(self, fresh: Path, connection: sqlite3.Connection | None) -> None:
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if connection is None:
                assert self._file is not None
                at = 0
                while piece := os.pread(self._file, _PIECE_BYTES, at):
                    os.write(descriptor, piece)
                    at += len(piece)
            else:
                with closing(sqlite3.connect(fresh)) as target:
                    connection.backup(target)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _drop_next(self) -> None:
        if self._next is not None:
            os.close(self._next)
            self._next = None

    def _named(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _locked(self) -> int:
        lock = os.open(self._named(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return lock

    def _lock_is_there(self) -> bool:
        assert self._lock is not None
        mine = os.fstat(self._lock)
        return _identity(self._named(".lock")) == (mine.st_dev, mine.st_ino)

    def _lock_again(self) -> None:
        lock = self._locked()
        if self._lock is not None:
            os.close(self._lock)
        self._lock = lock


def _identity(path: Path) -> Identity | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
