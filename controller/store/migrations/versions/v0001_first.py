"""Jobs, drains, settings, plans."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "jobs",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("udp_src", sa.LargeBinary, nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("changed", sa.Double, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
    )
    op.create_table("drains", sa.Column("name", sa.Text, primary_key=True))
    settings = op.create_table(
        "settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("changed", sa.Double),
        sa.Column("changed_by", sa.Text),
    )
    op.bulk_insert(settings, [{"name": "last_change", "value": ""}])
    op.create_table(
        "plans",
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
    )
    op.create_table(
        "plan_paths",
        sa.Column(
            "epoch",
            sa.BigInteger,
            sa.ForeignKey("plans.epoch", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("paths", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # They are compressed already, and the server need not try.
        for table, column in (("jobs", "document"), ("jobs", "udp_src"), ("plan_paths", "paths")):
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")


def downgrade() -> None:
    """Drop the tables."""
    for table in ("plan_paths", "plans", "settings", "drains", "jobs"):
        op.drop_table(table)
