"""Small scenarios for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulation.evaluation.scenario import Scenario, parse_scenario


def document(**more: Any) -> dict[str, Any]:
    """Two rings of four on a fabric of 4 x 4 x 4, two epochs, under two policies."""
    return {
        "name": "small",
        "fabric": {"clos": {"spines": 4, "leaves": 4, "hosts_per_leaf": 4}},
        "cases": [{"collective": {"algorithms": ["ring"], "bytes": [10**8], "groups": 4, "order": "random"}}],
        "policies": ["ecmp", "fair"],
        "epochs": 2,
        **more,
    }


def scenario(base: Path = Path(), **more: Any) -> Scenario:
    return parse_scenario(document(**more), base)
