"""How often agents of hosts report while nothing is new: the more hosts, the less often."""

from __future__ import annotations

from controller.model.fabric import Fabric

REPORTS_A_SECOND = 100
"""Reports of all agents together. One takes a controller about 1 ms."""


def report_seconds(fabric: Fabric) -> float:
    """Return the seconds between two reports of an agent in which nothing is new, at least."""
    return fabric.n_hosts / REPORTS_A_SECOND
