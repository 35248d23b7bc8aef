"""Scenarios, grids of simulations over them, and what is reported of the results."""
