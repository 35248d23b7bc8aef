"""Fixtures of tests of clusters."""

from tests.rig.cluster import cluster, fabric_file

__all__ = ["cluster", "fabric_file"]
