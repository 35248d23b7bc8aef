"""All that a restart reads: the rows of the store's tables, and the state that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from controller.core.desired_state import AdmittedJob
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import SavedState
from controller.store.schema import DRAINS, JOBS, PLAN_PATHS, PLANS
from controller.store.store_mapping import SELECT_SETTINGS, job_from, learning_from, mode_from, plan_from

PLAN_WITH_PATHS = sa.select(PLANS, PLAN_PATHS.c.paths).join(
    PLAN_PATHS, PLANS.c.epoch == PLAN_PATHS.c.epoch, isouter=True
)


NAMES_AT_ONCE = 500
"""Values in one IN (...); databases bound them."""


@dataclass(frozen=True)
class SavedRows:
    """Rows as the database returns them, and values that were read before and are the same.

    Attributes:
        jobs, same_jobs: in any order.
        drains: names.
        settings: of the mode and of learning.
        plan: the newest one with its paths, if there is one.
    """

    jobs: Sequence[sa.Row[Any]]
    same_jobs: Sequence[AdmittedJob]
    drains: Sequence[sa.Row[Any]]
    settings: Sequence[sa.Row[Any]]
    plan: sa.Row[Any] | PlanRecord | None


def snapshot(connection: sa.Connection) -> None:
    """Let all that the present transaction reads be of one moment."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))


def load_rows(connection: sa.Connection, known: SavedState | None = None) -> SavedRows:
    """Read everything but the older plans, and but what is the same as ``known``."""
    before = {} if known is None else {job.name: job for job in known.jobs}
    rows = connection.execute(sa.select(JOBS.c.name, JOBS.c.position, JOBS.c.revision, JOBS.c.changed)).all()
    same = [before[row.name] for row in rows if row.name in before and _is(before[row.name], row)]
    kept = {job.name for job in same}
    changed = [row.name for row in rows if row.name not in kept]
    jobs: list[sa.Row[Any]] = []
    for begin in range(0, len(changed), NAMES_AT_ONCE):
        names = changed[begin : begin + NAMES_AT_ONCE]
        jobs += connection.execute(sa.select(JOBS).where(JOBS.c.name.in_(names))).all()
    return SavedRows(
        jobs=jobs,
        same_jobs=same,
        drains=connection.execute(sa.select(DRAINS)).all(),
        settings=connection.execute(SELECT_SETTINGS).all(),
        plan=_newest_plan(connection, None if known is None else known.plan),
    )


def _is(job: AdmittedJob, row: Any) -> bool:
    return (job.position, job.revision, job.changed) == (row.position, row.revision, row.changed)


def _newest_plan(connection: sa.Connection, known: PlanRecord | None) -> sa.Row[Any] | PlanRecord | None:
    newest = sa.select(PLANS.c.epoch, PLANS.c.at).order_by(PLANS.c.epoch.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    if row is None:
        return None
    if known is not None and (known.epoch, known.at) == (row.epoch, row.at):
        return known
    return connection.execute(PLAN_WITH_PATHS.where(PLANS.c.epoch == row.epoch)).one()


def state_of(rows: SavedRows) -> SavedState:
    """Return what rows mean.

    Raises:
        DamagedError: they were not written by ``controller.store.store_mapping``.
    """
    jobs = [*rows.same_jobs, *(job_from(row) for row in rows.jobs)]
    plan = rows.plan
    return SavedState(
        tuple(sorted(jobs, key=lambda job: (job.position, job.name))),
        frozenset(row.name for row in rows.drains),
        mode_from(rows.settings),
        learning_from(rows.settings),
        plan if plan is None or isinstance(plan, PlanRecord) else plan_from(plan, plan.paths),
    )
