"""Who leads a cluster of controllers, and its replicas; both stay empty for a single controller."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables ``cluster`` and ``replicas``."""
    op.create_table(
        "cluster",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("leader", sa.Text, nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.Column("fabric", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("lease", sa.Double, nullable=False),
        sa.Column("elected", sa.Double, nullable=False),
    )
    op.create_table(
        "replicas",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("heard", sa.Double, nullable=False),
        sa.Column("switches", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables ``cluster`` and ``replicas``."""
    for table in ("replicas", "cluster"):
        op.drop_table(table)
