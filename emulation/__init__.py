"""Emulation of fabrics on one machine, and flow-level simulation of them."""
