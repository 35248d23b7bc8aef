"""Bounds on what peers may cost: budgets, places, timers, log lines."""
