"""The saved state of the controller: jobs, drains, the mode, and plans (docs/reference/store.md)."""
