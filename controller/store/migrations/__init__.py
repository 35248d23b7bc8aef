"""Create and upgrade the database tables: one file in ``versions`` for each step (docs/reference/store.md).

Nothing is imported here that imports Alembic, which takes as long to load as all of the store.
"""

EARLIER = "per_flow"
"""The enforcement of all plans before step 0002."""
