"""Kernels that place, exchange, colour and search."""
