"""The values that the store saves: one change at a time, and all of them at once for a restart."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.desired_state import AdmittedJob
from controller.core.saved.plan_record import PlanRecord


@dataclass(frozen=True)
class ModeSetting:
    """The mode and enforcement of plans, since when (seconds since 1970), and who set them.

    Attributes:
        mode: ``planned``, ``ecmp``, ``frozen``.
        enforcement: the name of an enforcement; ``None``: never set on a running controller.
        option: the value of the option ``enforcement`` when it was set; ``None`` with ``enforcement``.
    """

    mode: str
    changed: float
    by: str
    enforcement: str | None = None
    option: str | None = None


@dataclass(frozen=True)
class LearningSetting:
    """The setting ``learning``: whether jobs are learned and planned, as set on a running controller.

    Attributes:
        learning: ``off``, ``observe`` or ``act``.
        option: the value of the option ``learning`` when it was set.
    """

    learning: str
    changed: float
    by: str
    option: str


@dataclass(frozen=True)
class StateChange:
    """The content of one transaction, which is written completely or not at all.

    Attributes:
        put: jobs that are new or replace the ones of their names; ``deleted``: names, known or not.
        drained: everything that is drained from now on; ``None``: as before.
        mode, learning: ``None``: as before.
        plans: records to add, in any order (several after a time without the store); one of a known epoch replaces it.
    """

    put: tuple[AdmittedJob, ...] = ()
    deleted: tuple[str, ...] = ()
    drained: frozenset[str] | None = None
    mode: ModeSetting | None = None
    learning: LearningSetting | None = None
    plans: tuple[PlanRecord, ...] = ()


@dataclass(frozen=True)
class SavedState:
    """The values with which a controller continues after a restart.

    Attributes:
        jobs: by position, without their traffic, which is not saved.
        mode, learning: ``None``: never set on a running controller.
        plan: the newest, with its paths.
    """

    jobs: tuple[AdmittedJob, ...] = ()
    drained: frozenset[str] = frozenset()
    mode: ModeSetting | None = None
    learning: LearningSetting | None = None
    plan: PlanRecord | None = None

    @property
    def epoch(self) -> int:
        """The newest plan's; 0 before the first."""
        return 0 if self.plan is None else self.plan.epoch
