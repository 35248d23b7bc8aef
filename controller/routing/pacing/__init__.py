"""Paces of flows: which of them hosts are asked to pace, and at which rates."""
