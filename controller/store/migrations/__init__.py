"""Create and upgrade the database tables: one file in ``versions`` for each step (docs/reference/store.md)."""
