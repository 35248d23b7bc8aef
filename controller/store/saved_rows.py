"""All that a restart reads: the rows of the store's tables, and the state that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from controller.core.saved_state import SavedState
from controller.store.schema import DRAINS, JOBS, PLAN_PATHS, PLANS
from controller.store.store_mapping import SELECT_SETTINGS, job_from, learning_from, mode_from, plan_from

PLAN_WITH_PATHS = sa.select(PLANS, PLAN_PATHS.c.paths).join(
    PLAN_PATHS, PLANS.c.epoch == PLAN_PATHS.c.epoch, isouter=True
)


@dataclass(frozen=True)
class SavedRows:
    """Rows as the database returns them.

    Attributes:
        jobs: in the order of their admission.
        drains: names.
        settings: of the mode and of learning.
        plan: the newest one with its paths, if there is one.
    """

    jobs: Sequence[sa.Row[Any]]
    drains: Sequence[sa.Row[Any]]
    settings: Sequence[sa.Row[Any]]
    plan: sa.Row[Any] | None


def load_rows(connection: sa.Connection) -> SavedRows:
    """Read everything but the older plans."""
    return SavedRows(
        jobs=connection.execute(sa.select(JOBS).order_by(JOBS.c.position, JOBS.c.name)).all(),
        drains=connection.execute(sa.select(DRAINS)).all(),
        settings=connection.execute(SELECT_SETTINGS).all(),
        plan=connection.execute(PLAN_WITH_PATHS.order_by(PLANS.c.epoch.desc()).limit(1)).one_or_none(),
    )


def state_of(rows: SavedRows) -> SavedState:
    """Return what rows mean.

    Raises:
        DamagedError: they were not written by ``controller.store.store_mapping``.
    """
    return SavedState(
        tuple(job_from(row) for row in rows.jobs),
        frozenset(row.name for row in rows.drains),
        mode_from(rows.settings),
        learning_from(rows.settings),
        None if rows.plan is None else plan_from(rows.plan, rows.plan.paths),
    )
