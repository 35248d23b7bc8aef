"""Kernels of iteration times and of their shifts."""
