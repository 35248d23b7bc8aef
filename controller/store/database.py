"""The operations that the store needs from a kind of database."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa


class Database(Protocol):
    """One database that belongs to one controller from ``claim`` until ``release`` or the controller's end.

    Its methods block the calling thread in C, never by one of ``threading``'s locks: under eventlet those belong to
    greenlets of one thread, and the store is called from many.
    """

    recent_bytes: int
    """Of the newest changes to keep in memory, because the database may lose them: a standby may take over that is
    behind."""

    @property
    def shown(self) -> str:
        """The database's name, for people."""

    def claim(self) -> None:
        """Keep others out, as far as that takes no connection; make what is missing.

        Raises:
            StoreError: another program has it, or it cannot be made.
        """

    def connect(self) -> sa.Connection:
        """Open a connection that keeps other controllers out of the database.

        Raises:
            StoreError: another controller has it, or it is not the database that it was.
            sqlalchemy.exc.SQLAlchemyError: it cannot be reached.
        """

    def check(self) -> bool:
        """Return whether a write is found after a restart; called before and after each write.

        ``False``: it is found once ``mend`` has run.

        Raises:
            StoreError: what is written would be lost.
        """

    def beat(self, connection: sa.Connection) -> None:
        """Show other controllers that this one is running; from the first call on it must be repeated."""

    def keep(self, connection: sa.Connection) -> None:
        """Make a committed write more durable, as far as possible; called after a commit that a restart would find."""

    def mend(self, connection: sa.Connection) -> None:
        """Write everything that the connection sees to where a restart looks for it, and close the connection.

        Raises:
            StoreError: that cannot be done.
        """

    def reason(self, error: BaseException) -> str:
        """Describe an error of the database in one line, for people and without any secret."""

    def release(self) -> None:
        """Let others in. Connections are closed before."""
