"""Fixtures of tests of programs beside the controller."""

from tests.rig.slurm import live

__all__ = ["live"]
