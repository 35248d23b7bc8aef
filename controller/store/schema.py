"""The tables as this program uses them; ``migrations`` creates and changes them in a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import sqlalchemy as sa

from controller.core.saved.plan_record import PlanRecord
from controller.store.migrations import EARLIER

METADATA = sa.MetaData()

VERSION_TABLE = "fairspine_version"
"""Alembic's table: the migration step of the tables. It also distinguishes a store from another program's database."""

JOBS = sa.Table(
    "jobs",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("udp_src", sa.LargeBinary, nullable=False),
    sa.Column("revision", sa.Text, nullable=False),
    sa.Column("changed", sa.Double, nullable=False),
    sa.Column("changed_by", sa.Text, nullable=False),
)

DRAINS = sa.Table("drains", METADATA, sa.Column("name", sa.Text, primary_key=True))

SETTINGS = sa.Table(
    "settings",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("changed", sa.Double),
    sa.Column("changed_by", sa.Text),
)
"""``mode``, ``enforcement``, ``enforcement_option``, ``instance``, and ``last_change``: the id of the last change, by
which a change is found out that was kept although its acknowledgement was lost."""

PLAN_COLUMN_NAMES = {"by": "caused_by"}
"""Columns that have another name than their field: ``by`` is a word of SQL."""

_TYPES: Mapping[Any, Any] = {int: sa.BigInteger, float: sa.Double, str: sa.Text, tuple[str, ...]: sa.JSON}
"""Column types by the type of a field; optional fields are nullable columns."""


def _plan_columns() -> Iterator[sa.Column[Any]]:
    """Yield a column for every field of ``PlanRecord`` but its paths."""
    for name, hint in get_type_hints(PlanRecord).items():
        if name == "paths":
            continue
        kinds = set(get_args(hint)) if isinstance(hint, UnionType) else {hint}
        (kind,) = kinds - {NoneType}
        column = PLAN_COLUMN_NAMES.get(name, name)
        if column == "epoch":
            yield sa.Column(column, _TYPES[kind], primary_key=True, autoincrement=False)
        else:
            default = EARLIER if column == "enforcement" else None
            yield sa.Column(column, _TYPES[kind], nullable=NoneType in kinds, server_default=default)


PLANS = sa.Table("plans", METADATA, *_plan_columns())

PLAN_PATHS = sa.Table(
    "plan_paths",
    METADATA,
    sa.Column(
        "epoch",
        sa.BigInteger,
        sa.ForeignKey("plans.epoch", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("paths", sa.LargeBinary, nullable=False),
)
"""Apart from the plans, so that lists of those do not read through megabytes."""

CLUSTER = sa.Table(
    "cluster",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("term", sa.BigInteger, nullable=False),
    sa.Column("leader", sa.Text, nullable=False),
    sa.Column("beats", sa.BigInteger, nullable=False),
    sa.Column("fabric", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("lease", sa.Double, nullable=False),
    sa.Column("elected", sa.Double, nullable=False),
)
"""One row: the present term of the cluster and its leader, who counts up ``beats`` while it works. ``fabric`` (a hash),
``version`` and ``lease`` are the leader's. Empty for a single controller."""

REPLICAS = sa.Table(
    "replicas",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("heard", sa.Double, nullable=False),
    sa.Column("switches", sa.Integer, nullable=False),
)
"""The replicas that have been heard, and when, by the server's clock: for people, and to see that it changes. ``step``:
the newest step of the tables that the replica knows; ``switches``: how many are connected to it. No later step may
change ``cluster`` and ``replicas``: replicas of a later version use them before the tables are changed."""
