"""The operations that the controller needs from a store; ``controller.store.store.Store`` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller.core.plan_record import PlanRecord
from controller.core.saved_state import StateChange


class StateStore(Protocol):
    """The part of ``controller.store.Store`` that the service uses. Every call may block for a long time."""

    def commit(self, change: StateChange) -> None:
        """Store a change in one transaction.

        Raises:
            StoreError: it was not stored.
        """

    def check(self) -> None:
        """See whether what was committed will be found after a restart.

        Raises:
            StoreError: it will not.
        """

    def plans(self, before: int | None = None, limit: int = 50) -> Sequence[PlanRecord]:
        """Return plans without their paths, newest first."""

    def plan(self, epoch: int) -> PlanRecord:
        """Return one plan with its paths.

        Raises:
            NotFoundError: it is not stored.
        """
