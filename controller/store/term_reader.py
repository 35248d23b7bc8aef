"""Read from a cluster's database which term it is, in a session that is used for nothing else.

A replica that asks here is told what holds at some moment after it has asked, however long the replica was stopped or
cut off before. So a leader that asks after it has received a request may answer it from its memory: nobody else led
when the request came in (the "ReadIndex" of Raft: Ongaro, "Consensus: Bridging Theory and Practice", section 6.4).
"""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa
from sqlalchemy.engine import URL

from controller.store.errors import StoreError
from controller.store.postgres import engine_of, reason_of
from controller.store.schema import CLUSTER


class TermReader:
    """The session of one replica. Calls block the thread that makes them, and are made one at a time."""

    def __init__(self, url: URL, replica: str, *, seconds: float) -> None:
        """Prepare the session; nothing is connected yet.

        Args:
            url: of the database.
            replica: the id of this replica.
            seconds: the time that the server may take over an answer.
        """
        self._url, self._replica = url, replica
        # Not the name of the sessions that a take-over ends: this one holds no lock and writes nothing.
        engine = engine_of(url, f"fairspine-term-{replica}", statement_timeout=f"{round(1000 * seconds)}ms")
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: sa.Connection | None = None

    def leads(self, term: int) -> bool:
        """Return whether this replica leads for this term.

        Raises:
            StoreError: the database does not answer.
        """
        used_before = self._connection is not None
        try:
            return self._ask(term)
        except sa.exc.SQLAlchemyError as error:
            self.close()
            if not used_before:
                raise StoreError(reason_of(error, self._url)) from None
        # The server may have ended the session since it was used last; a new one tells whether it works.
        return self.leads(term)

    def close(self) -> None:
        """Close the session; the next question opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sa.exc.SQLAlchemyError):
                connection.close()

    def _ask(self, term: int) -> bool:
        if self._connection is None:
            self._connection = self._engine.connect()
        asked = sa.select(CLUSTER.c.term).where(CLUSTER.c.term == term, CLUSTER.c.leader == self._replica)
        return self._connection.scalar(asked) is not None
