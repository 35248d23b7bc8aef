"""A fat tree of four ports, and the switches that a plan uses."""

from __future__ import annotations

from tests.documented import ROOT
from tests.rig.checks.jobs import active
from tests.rig.controller import Controller

EXAMPLE = ROOT / "examples" / "fat-tree-k4.yaml"


def used(controller: Controller) -> set[str]:
    """The links of the newest plan, once it is active."""
    return {link for flow in active(controller)["flows"] for path in flow["paths"] for link in path["links"]}
