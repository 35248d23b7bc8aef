"""What each writing transaction checks first: that this controller may write."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from controller.store.errors import StoreTakenError
from controller.store.schema import CLUSTER

Fence = Callable[[sa.Connection], None]
"""Raises ``StoreTakenError`` within a transaction that must not write."""


def no_fence(_connection: sa.Connection) -> None:
    """Let a single controller write: its lock keeps others out."""


def never(_connection: sa.Connection) -> None:
    """Let a replica write nothing that does not lead its cluster."""
    raise StoreTakenError("this replica does not lead its cluster")


def of_term(shown: str, replica: str, term: int) -> Fence:
    """Return the check that a replica still leads for its term; ``shown``: the store, for people."""

    def fence(connection: sa.Connection) -> None:
        # The next leader waits for the end of this transaction, or ends its session; beats need not wait.
        row = sa.select(CLUSTER.c.term, CLUSTER.c.leader).with_for_update(read=True, key_share=True)
        now = connection.execute(row).one()
        if (now.term, now.leader) != (term, replica):
            raise StoreTakenError(f"{shown}: term {term} of this controller has ended; it is {now.term} now")

    return fence
