"""How a database comes to the tables that this program uses: one file in ``versions`` for each step (docs/store.md)."""
