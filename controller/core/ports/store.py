"""The operations that the controller needs from a store; ``controller.store.store.Store`` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.core.change_number import ChangeNumber
from controller.core.cluster_standing import ClusterSettings, ClusterStanding
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import SavedState, StateChange


class StateStore(Protocol):
    """The part of ``controller.store.Store`` that the service uses. Every call may block for a long time."""

    @property
    def change(self) -> ChangeNumber | None:
        """The number of the last change that was committed or read; ``None``: a single controller's has none."""

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


class ReplicaStore(Protocol):
    """The part of ``controller.store.Store`` that a replica of a cluster uses when it is elected; it may block."""

    @property
    def overtaken(self) -> bool:
        """Whether the store has lost changes of this leader, or has others: a new leader has to read it."""

    def read(self, known: SavedState | None = None) -> tuple[ChangeNumber | None, SavedState]:
        """Return the number of the last change and what is stored; ``known``: an earlier result, to read less.

        Raises:
            StoreError: it cannot be read.
        """

    def lead(self, replica: str, term: int, known: SavedState | None = None) -> SavedState:
        """Write for this term from now on; return what is stored. ``known``: as of ``read``.

        Raises:
            StoreError: it cannot be read, or the term has ended.
        """


class Membership(Protocol):
    """The part of a replica in its cluster.

    ``controller.service.cluster.cluster_member.ClusterMember`` implements it.
    """

    settings: ClusterSettings
    standing: ClusterStanding
    error: str
    leader_changes: int
    heard: float | None
    elected: float | None

    @property
    def leads(self) -> bool:
        """Whether this replica answers clients."""

    @property
    def has_led(self) -> bool:
        """Return whether this replica leads now or has led before."""

    def confirms(self) -> bool:
        """Return whether the store says, after this call, that this replica still leads.

        Raises:
            UnavailableError: the store does not answer.
        """

    def step_down(self) -> None:
        """Let another replica lead, soon.

        Raises:
            ConflictError: this replica does not lead.
        """


@dataclass(frozen=True)
class Persistence:
    """A store and its content at the start, with which the controller continues.

    Attributes:
        store: of jobs, drains, mode and plans.
        saved: what it held.
        member: the part of this replica in its cluster; ``None``: a single controller.
        shared: the store as a replica uses it; ``None`` with ``member``.
    """

    store: StateStore
    saved: SavedState
    member: Membership | None = None
    shared: ReplicaStore | None = None
