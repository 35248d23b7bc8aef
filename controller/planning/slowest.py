"""The speed of the slowest of some collectives of a plan."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from controller.model.plan import Plan


def slowest(plan: Plan, collectives: Iterable[int]) -> float | None:
    """Return the lowest speed among some collectives; ``None`` where none of them is on the network."""
    speeds = plan.objective.speed[list(collectives)]
    return None if np.isnan(speeds).all() else float(np.nanmin(speeds))
