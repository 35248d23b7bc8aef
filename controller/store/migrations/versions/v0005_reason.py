"""The reason that a caller gave for a change; earlier plans have none."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column ``reason`` to the plans."""
    op.add_column("plans", sa.Column("reason", sa.Text, nullable=True))


def downgrade() -> None:
    """Drop the column ``reason`` of the plans."""
    op.drop_column("plans", "reason")
