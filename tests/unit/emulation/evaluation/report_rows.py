"""Rows of a report."""

from __future__ import annotations

from typing import Any


def row(**more: Any) -> dict[str, Any]:
    return {
        "scenario": "s",
        "kind": "files",
        "case": "a",
        "failure": "none",
        "policy": "fair",
        "allocation": "flow",
        "seed": 0,
        "jobs": 1,
        "ring": None,
        "ratios": {str(p): 1.0 + p / 100 for p in (25, 50, 75, 90, 95, 99)},
        "ratio": 1.0,
        "ratio_worst": 1.5,
        "iteration": 1.0,
        "iteration_99": 1.0,
        "iteration_bound": 1.25,
        "gbps": 50.0,
        "fct": {str(p): p / 100 for p in (25, 50, 75, 90, 95, 99)},
        "link_mean": 0.25,
        "link_busiest": 0.5,
        "imbalance": 1.75,
        "planning_mean": 0.001,
        "planning_worst": 0.002,
        "moved": 3,
        "moved_sending": 1,
        "wall_seconds": 0.1,
        **more,
    }
