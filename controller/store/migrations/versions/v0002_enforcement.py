"""By which kind of rules a plan was enforced; until now there was one."""

import sqlalchemy as sa
from alembic import op

from controller.store.migrations import EARLIER

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column ``enforcement`` to the plans."""
    op.add_column("plans", sa.Column("enforcement", sa.Text, nullable=False, server_default=EARLIER))


def downgrade() -> None:
    """Drop the column ``enforcement`` of the plans."""
    op.drop_column("plans", "enforcement")
