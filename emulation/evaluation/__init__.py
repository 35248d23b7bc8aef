"""Simulated evaluation: scenarios, grids of simulations over them, and reports of the results."""
