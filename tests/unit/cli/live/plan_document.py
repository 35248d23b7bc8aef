"""A plan as the controller tells it."""

from __future__ import annotations

from typing import Any

from controller.rest import schemas

AT = "2026-01-02T03:12:00+01:00"


def plan(epoch: int, **changes: Any) -> dict[str, Any]:
    """Return a ``PlanSummary``."""
    document = {
        "epoch": epoch,
        "at": AT,
        "cause": "spine2 drained",
        "by": "ops",
        "policy": "fair",
        "seed": 0,
        "mode": "planned",
        "enforcement": "per_flow",
        "fabric_version": "f",
        "traffic_version": "t",
        "links_down": [],
        "drained": ["spine2"],
        "jobs": ["a"],
        "min_speed": 0.75,
        "slowest": 0.75,
        "min_level": 0.75,
        "bound_split": None,
        "bound_single": None,
        "gap": None,
        "seconds": 0.1,
        "flows": 9,
        "moved": 7,
        "unroutable": 0,
        "rollback_of": None,
        "reason": None,
    }
    return schemas.PlanSummary.model_validate(document | changes).model_dump(mode="json")
