"""Evaluation by simulation (``fairspine simulate``): scenarios, grids of simulations over them, reports of the results.

It needs no switch and no root. ``emulation.experiments`` measures the same jobs on packets instead.
"""
