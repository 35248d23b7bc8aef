"""The capacity that one part of the traffic leaves to another: what plans count on where a link is used already."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.model.tolerances import TOLERANCE

STEPS = 16
"""Remaining capacities are rounded down to such a part of a link's, so that small changes of a load change nothing."""


def with_loads(fabric: Fabric, load: FloatArray) -> Fabric:
    """Return the fabric to plan on beside loads [E] in Gbit/s; each link keeps at least 1 / ``STEPS`` of its capacity.

    Without that rest, flows that have no other path than a full link could not be planned.
    """
    left = np.floor((1 - load / fabric.link_gbps + TOLERANCE) * STEPS) / STEPS
    share = np.clip(left, 1 / STEPS, 1.0)
    if (share == 1).all():
        return fabric
    before = np.array(fabric.link_share) if fabric.link_share else 1.0
    return dataclasses.replace(fabric, link_share=tuple((before * share).tolist()))
