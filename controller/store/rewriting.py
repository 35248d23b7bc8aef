"""A database file that another program overwrites in place: it is noticed, and written anew from memory.

SQLite does not see it. Pages that it has cached hide it for a while, and the next start finds a damaged file.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection
from contextlib import closing
from typing import Protocol

import sqlalchemy as sa

from controller.core.saved.saved_state import SavedState, StateChange
from controller.store.errors import StoreError
from controller.store.held_state import HeldState
from controller.store.last_change import LAST_CHANGE, set_last_change
from controller.store.saved_rows import load_rows, state_of
from controller.store.schema import SETTINGS
from controller.store.sqlite import MemoryDatabase
from controller.store.store_mapping import apply, rows_of
from controller.store.upgrade import upgrade

LOG = logging.getLogger(__name__)

_DAMAGE = {
    # A table or a column is missing.
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_MISMATCH,
}


class OverwritableFile(Protocol):
    """A database in a file, to which other programs can write; ``controller.store.sqlite.SqliteFile`` implements it."""

    shown: str

    def suspect(self) -> bool:
        """Return whether another program may have written to the file since the last write."""

    def accept(self) -> None:
        """Take the present file for a good one: it was examined."""

    def examine(self) -> sa.Connection:
        """Open a connection that reads what a restart would read, and has cached nothing.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: it cannot be opened.
        """

    def put_anew(self, connection: sa.Connection) -> str:
        """Put a database with the content of ``connection`` in place of the file, to which no connection is open.

        Returns where the earlier file is found now.

        Raises:
            StoreError: that cannot be done.
        """


class Rewriter:
    """Notices that a database was overwritten, and writes it anew.

    Attributes:
        damaged: whether the file has to be written anew.
        instance: of the store, which a database that is written anew keeps; ``None``: not known yet.
    """

    def __init__(self, file: OverwritableFile) -> None:
        """Watch a file."""
        self._file = file
        self._held: HeldState | None = None
        self.damaged = False
        self.instance: int | None = None

    def hold(self, saved: SavedState) -> None:
        """Begin with what the database holds."""
        self._held = HeldState(saved)

    def hold_first(self, connection: sa.Connection) -> None:
        """Read what the database holds before its first change, unless that is known."""
        if self._held is None:
            self.hold(state_of(load_rows(connection)))

    def committed(self, change: StateChange) -> None:
        """Take over a change that was stored."""
        if self._held is not None:
            self._held.commit(change)

    def is_damaged(self, last: Collection[str], *, connected: bool) -> bool:
        """Return whether the file has to be written anew.

        Args:
            last: ids of changes that may be its last one.
            connected: whether there is a connection to it; without one, it may have been written by SQLite itself.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: it cannot be read for another reason than damage.
        """
        if connected and not self.damaged and self._file.suspect():
            with closing(self._file.examine()) as connection:
                self.damaged = not self._is_intact(connection, last)
            if not self.damaged:
                self._file.accept()
        return self.damaged

    def write_anew(self, last: str) -> None:
        """Write everything in memory to a new file. ``last``: the id of the last change.

        Raises:
            StoreError: that cannot be done.
        """
        if self._held is None:
            raise StoreError(f"{self._file.shown} was overwritten by another program; restore a backup")
        with closing(MemoryDatabase().connect()) as connection:
            with connection.begin():
                upgrade(connection, self._file.shown)
                apply(connection, rows_of(self._held.whole()))
                if self.instance is not None:
                    connection.execute(sa.insert(SETTINGS).values(name="instance", value=str(self.instance)))
                set_last_change(connection, last)
            aside = self._file.put_anew(connection)
        self.damaged = False
        LOG.warning(
            "%s was overwritten by another program; it was written anew with all jobs, drains and settings and the "
            "newest plan; older plans are lost; what was found there is in %s",
            self._file.shown,
            aside,
        )

    def _is_intact(self, connection: sa.Connection, last: Collection[str]) -> bool:
        """Return whether a restart would find the last change, and the state that is in memory."""
        try:
            return (
                connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() == "ok"
                and connection.scalar(LAST_CHANGE) in last
                and self._is_held(state_of(load_rows(connection)))
            )
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE:
                return False
            raise
        except (ValueError, KeyError, TypeError):
            return False

    def _is_held(self, read: SavedState) -> bool:
        # Rows can be compared where values hold arrays.
        return self._held is None or rows_of(HeldState(read).whole()) == rows_of(self._held.whole())
