"""Topologies for Mininet's ``mn``."""
