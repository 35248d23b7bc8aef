"""The mapping between values and rows, with the effect of a change on the tables and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import sqlalchemy as sa

from controller.core.desired_state import UNPLACED, AdmittedJob
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import LearningSetting, ModeSetting, StateChange
from controller.store.codec import pack, pack_paths, pack_ports, unpack, unpack_paths, unpack_ports
from controller.store.schema import DRAINS, JOBS, PLAN_COLUMN_NAMES, PLAN_PATHS, PLANS, SETTINGS

Row = dict[str, Any]

MODE, ENFORCEMENT, OPTION = MODE_ROWS = ("mode", "enforcement", "enforcement_option")
"""Names of the settings that are a ``ModeSetting``."""
LEARNING, LEARNING_OPTION = LEARNING_ROWS = ("learning", "learning_option")
"""Names of the settings that are a ``LearningSetting``."""

SELECT_SETTINGS = sa.select(SETTINGS).where(SETTINGS.c.name.in_(MODE_ROWS + LEARNING_ROWS))

_NAMES_AT_ONCE = 500
"""Values in one IN (...); databases bound them."""

_PLAN_COLUMNS = {
    field.name: PLAN_COLUMN_NAMES.get(field.name, field.name) for field in fields(PlanRecord) if field.name != "paths"
}
"""The column of each field of a record that the table of plans has."""


@dataclass(frozen=True)
class RowChanges:
    """The changes of the tables, in this order. Lists that are ``None`` leave their table as it is.

    Attributes:
        jobs_gone: names; jobs: rows to add after that.
        drains: all rows of the table.
        settings_gone: names; settings: rows to add after that.
        plans_gone: epochs; plans, paths: rows to add after that.
    """

    jobs_gone: Sequence[str] = ()
    jobs: Sequence[Row] = ()
    drains: Sequence[Row] | None = None
    settings_gone: Sequence[str] = ()
    settings: Sequence[Row] = ()
    plans_gone: Sequence[int] = ()
    plans: Sequence[Row] = ()
    paths: Sequence[Row] = ()


def rows_of(change: StateChange) -> RowChanges:
    """Return the rows of a change. This is most of the work of a commit and needs no database."""
    return RowChanges(
        jobs_gone=[*change.deleted, *(job.name for job in change.put)],
        jobs=[_job_row(job) for job in change.put],
        drains=None if change.drained is None else [{"name": name} for name in sorted(change.drained)],
        settings_gone=(MODE_ROWS if change.mode else ()) + (LEARNING_ROWS if change.learning else ()),
        settings=_mode_rows(change.mode) + _learning_rows(change.learning),
        plans_gone=[plan.epoch for plan in change.plans],
        plans=[_plan_row(plan) for plan in change.plans],
        paths=[
            {"epoch": plan.epoch, "paths": pack_paths(plan.paths)} for plan in change.plans if plan.paths is not None
        ],
    )


def inverse(connection: sa.Connection, edit: RowChanges) -> RowChanges:
    """Return the edit that undoes ``edit``, except for plans that it replaces."""
    jobs: list[Row] = []
    names = iter(edit.jobs_gone)
    while some := list(islice(names, _NAMES_AT_ONCE)):
        jobs += _rows(connection, sa.select(JOBS).where(JOBS.c.name.in_(some)))
    return RowChanges(
        jobs_gone=edit.jobs_gone,
        jobs=jobs,
        drains=None if edit.drains is None else _rows(connection, sa.select(DRAINS)),
        settings_gone=edit.settings_gone,
        settings=_rows(connection, sa.select(SETTINGS).where(SETTINGS.c.name.in_(edit.settings_gone))),
        plans_gone=edit.plans_gone,
    )


def apply(connection: sa.Connection, edit: RowChanges) -> None:
    """Do it, within the connection's transaction."""
    _delete(connection, JOBS.c.name, edit.jobs_gone)
    _insert(connection, JOBS, edit.jobs)
    if edit.drains is not None:
        connection.execute(sa.delete(DRAINS))
        _insert(connection, DRAINS, edit.drains)
    _delete(connection, SETTINGS.c.name, edit.settings_gone)
    _insert(connection, SETTINGS, edit.settings)
    _delete(connection, PLANS.c.epoch, edit.plans_gone)
    _insert(connection, PLANS, edit.plans)
    _insert(connection, PLAN_PATHS, edit.paths)


def prune_plans(connection: sa.Connection, kept: int) -> None:
    """Forget all plans but the newest ``kept`` and their paths, within the connection's transaction."""
    newest = sa.select(PLANS.c.epoch).order_by(PLANS.c.epoch.desc()).limit(kept).subquery()
    oldest_kept = sa.select(sa.func.min(newest.c.epoch)).scalar_subquery()
    connection.execute(sa.delete(PLANS).where(PLANS.c.epoch < oldest_kept))


def _rows(connection: sa.Connection, query: sa.Select[Any]) -> list[Row]:
    return [dict(row) for row in connection.execute(query).mappings()]


def _delete(connection: sa.Connection, key: sa.Column[Any], values: Sequence[Any]) -> None:
    if values:
        connection.execute(sa.delete(key.table).where(key == sa.bindparam("gone")), [{"gone": v} for v in values])


def _insert(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def _job_row(job: AdmittedJob) -> Row:
    return {
        "name": job.name,
        "position": job.position,
        "document": pack([job.document]),
        "udp_src": pack_ports(job.ports),
        "revision": job.revision,
        "changed": job.changed,
        "changed_by": job.by,
    }


def job_from(row: Any) -> AdmittedJob:
    """Return the job of a row; its traffic is expanded again once the fabric is known.

    Raises:
        DamagedError: it was not written by ``rows_of``.
    """
    (document,) = unpack(row.document, 1)
    return AdmittedJob(
        name=row.name,
        document=document,
        revision=row.revision,
        position=row.position,
        changed=row.changed,
        by=row.changed_by,
        ports=unpack_ports(row.udp_src),
        traffic=None,
        left_out=UNPLACED,
    )


def _mode_rows(mode: ModeSetting | None) -> list[Row]:
    if mode is None:
        return []
    values = zip(MODE_ROWS, (mode.mode, mode.enforcement, mode.option), strict=True)
    return [
        {"name": name, "value": value, "changed": mode.changed, "changed_by": mode.by}
        for name, value in values
        if value is not None
    ]


def _learning_rows(setting: LearningSetting | None) -> list[Row]:
    if setting is None:
        return []
    values = zip(LEARNING_ROWS, (setting.learning, setting.option), strict=True)
    return [
        {"name": name, "value": value, "changed": setting.changed, "changed_by": setting.by} for name, value in values
    ]


def mode_from(rows: Sequence[Any]) -> ModeSetting | None:
    """Return the mode of its rows; ``None`` if there are none."""
    settings = {row.name: row for row in rows}
    if MODE not in settings:
        return None
    value = {name: row.value for name, row in settings.items()}
    said = settings[MODE]
    return ModeSetting(said.value, said.changed, said.changed_by, value.get(ENFORCEMENT), value.get(OPTION))


def learning_from(rows: Sequence[Any]) -> LearningSetting | None:
    """Return what was set of learning; ``None`` if nothing was."""
    settings = {row.name: row for row in rows}
    if LEARNING not in settings or LEARNING_OPTION not in settings:
        return None
    said = settings[LEARNING]
    return LearningSetting(said.value, said.changed, said.changed_by, settings[LEARNING_OPTION].value)


def _plan_row(plan: PlanRecord) -> Row:
    values = {column: getattr(plan, name) for name, column in _PLAN_COLUMNS.items()}
    return {column: list(value) if isinstance(value, tuple) else value for column, value in values.items()}


def plan_from(row: Any, paths: bytes | None = None) -> PlanRecord:
    """Return the plan of a row, with its paths if they are given.

    Raises:
        DamagedError: the paths were not written by ``rows_of``.
    """
    values: Row = {name: getattr(row, column) for name, column in _PLAN_COLUMNS.items()}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return PlanRecord(**values, paths=None if paths is None else unpack_paths(paths))
