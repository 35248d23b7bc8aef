"""The operations that the controller needs from a store; ``controller.store.store.Store`` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.core.plan_record import PlanRecord
from controller.core.saved_state import SavedState, StateChange


class StateStore(Protocol):
    """The part of ``controller.store.Store`` that the service uses. Every call may block for a long time."""

    def commit(self, change: StateChange) -> None:
        """Keep a change, all of it or nothing.

        Raises:
            StoreError: it is not kept.
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
            NotFoundError: it is not kept.
        """


@dataclass(frozen=True)
class Persistence:
    """A store and its content at the start, with which the controller continues.

    Attributes:
        store: of jobs, drains, mode and plans.
        saved: what it held.
    """

    store: StateStore
    saved: SavedState
