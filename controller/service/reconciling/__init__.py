"""Reconciliation: changes and network changes to states, plans and records."""
