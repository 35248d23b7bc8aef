"""Tenants: groups of jobs that share a fabric by weights, whatever the number of their jobs."""

from __future__ import annotations

from typing import NamedTuple


class Tenant(NamedTuple):
    """A tenant of a fabric; ``weight``: its share against other tenants, and jobs of none, where they compete."""

    name: str
    weight: float
