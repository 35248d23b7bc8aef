"""The speed of the slowest job by the rules for a plan; of earlier plans it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column ``slowest`` to the plans."""
    op.add_column("plans", sa.Column("slowest", sa.Double, nullable=True))


def downgrade() -> None:
    """Drop the column ``slowest`` of the plans."""
    op.drop_column("plans", "slowest")
