"""The operations that the controller needs from an election; ``controller.store.election.Election`` implements them."""

from __future__ import annotations

from typing import Protocol

from controller.core.cluster_standing import ClusterStanding


class Electoral(Protocol):
    """The election of a cluster's leader. Every call may block for some seconds, and one is made at a time."""

    def beat(self, seen: int = 0, switches: int = 0) -> ClusterStanding:
        """Say that this replica works; take over if nobody leads. Called several times in a lease.

        Args:
            seen: the highest term that a switch has told; a term that begins now is higher.
            switches: how many are connected to this replica.

        Raises:
            StoreError: the store does not answer.
        """

    def leads(self, term: int) -> bool:
        """Return whether the store says that the term of this replica has not ended; may be called beside ``beat``.

        Raises:
            StoreError: the store does not answer.
        """

    def resign(self, seen: int = 0) -> None:
        """Let another replica lead; the terms that follow are higher than ``seen``. Harmless without a store."""
