"""What outlives the controller: jobs, drains, the mode, and the plans that were made (docs/store.md)."""
