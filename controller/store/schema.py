"""The tables as this program uses them. What makes and changes them in a database is ``migrations``."""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()

VERSION_TABLE = "fairspine_version"
"""Alembic's: which step the tables are at. Also what tells a store of ours from another program's database."""

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
"""``mode``, ``enforcement``, ``enforcement_option``, and ``last_change``: the id of the last change, by which a change
is found out that was kept although its acknowledgement was lost."""

PLANS = sa.Table(
    "plans",
    METADATA,
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("caused_by", sa.Text),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("fabric_version", sa.Text, nullable=False),
    sa.Column("traffic_version", sa.Text, nullable=False),
    sa.Column("links_down", sa.JSON, nullable=False),
    sa.Column("drained", sa.JSON, nullable=False),
    sa.Column("jobs", sa.JSON, nullable=False),
    sa.Column("min_speed", sa.Double, nullable=False),
    sa.Column("min_level", sa.Double, nullable=False),
    sa.Column("bound_split", sa.Double),
    sa.Column("bound_single", sa.Double),
    sa.Column("gap", sa.Double),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("flows", sa.BigInteger, nullable=False),
    sa.Column("moved", sa.BigInteger, nullable=False),
    sa.Column("unroutable", sa.BigInteger, nullable=False),
    sa.Column("rollback_of", sa.BigInteger),
    sa.Column("enforcement", sa.Text, nullable=False, server_default="per_flow"),
)

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
