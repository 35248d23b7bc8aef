"""Answers of a controller to commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.rest import schemas
from tests.unit.cli.live.plan_document import AT

DRAWN = {"mean": 0.4, "min": 0.25, "max": 0.5}


def thing(name: str, drained: bool, epoch: int = 4, still_used: Sequence[str] = ()) -> dict[str, Any]:
    """Return a ``DrainDocument``."""
    cables = [f"leaf{n}-{name}" for n in (1, 2)]
    outcome = (
        ("not possible" if len(still_used) == 2 else "partly" if still_used else "drained") if drained else "in use"
    )
    document = {"id": name, "kind": "spine", "drained": drained, "epoch": epoch, "cables": cables, "outcome": outcome}
    return schemas.DrainDocument.model_validate(document | {"still_used": list(still_used)}).model_dump()


def drains(
    *things: dict[str, Any], epoch: int = 5, moved: int = 7, changed: Sequence[str] | None = None
) -> tuple[int, Any]:
    """Return an answer with a ``DrainList``."""
    names = [each["id"] for each in things] if changed is None else list(changed)
    document = {"epoch": epoch, "moved": moved, "changed": names, "links": list(things)}
    return 200, schemas.DrainList.model_validate(document).model_dump()


def mode(name: str) -> tuple[int, Any]:
    """Return an answer with the mode."""
    return 200, {"mode": name, "enforcement": "per_flow", "since": AT, "by": "ops", "epoch": 4}


VALUE = {
    "policy": "fair",
    "seed": 0,
    "mode": "planned",
    "enforcement": "per_flow",
    "slowest": 1.0,
    "expected": None,
    "most_rules": 8,
    "min_speed": 1.0,
    "min_level": 1.0,
    "bound_split": 1.0,
    "bound_single": None,
    "gap": None,
    "levels": [],
    "flows": 16,
    "unroutable": 0,
}


PREVIEW = {
    "epoch": 4,
    "before": VALUE,
    "after": VALUE | {"policy": "ecmp", "slowest": 0.5},
    "moved_count": 12,
    "moved": [f"a/b/{n}" for n in range(12)],
    "jobs": [{"job": "a", "before": 1.0, "after": None, "before_expected": None, "after_expected": DRAWN}],
    "drains": [],
    "still_used": ["leaf1-spine2"],
}
