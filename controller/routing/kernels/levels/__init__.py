"""Kernels of the objective and its bounds."""
