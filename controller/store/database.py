"""What the store needs of a kind of database."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa


class Database(Protocol):
    """One database that belongs to one controller from ``claim`` until ``release`` or the controller's end.

    Its methods block the calling thread in C, never by one of ``threading``'s locks: under eventlet those belong to
    greenlets of one thread, and the store is called from many.
    """

    @property
    def shown(self) -> str:
        """What it is, for people."""

    def claim(self) -> None:
        """Keep others out, as far as that takes no connection; make what is missing.

        Raises:
            StoreError: somebody else has it, or it cannot be made.
        """

    def connect(self) -> sa.Connection:
        """A new connection, with which the database is this controller's.

        Raises:
            StoreError: it is not to be had: somebody else has it, or it is another one than it was.
            sqlalchemy.exc.SQLAlchemyError: it cannot be reached.
        """

    def check(self) -> None:
        """Called before each write.

        Raises:
            StoreError: what is written would be lost.
        """

    def reason(self, error: BaseException) -> str:
        """What an error of the database means, in one line for people and without any secret."""

    def release(self) -> None:
        """Let others in. Connections are closed before."""
