"""Background load: what traffic in no plan takes of each link, in steps with hysteresis, and plans beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.planning.headroom import with_headroom
from controller.planning.remaining_capacity import STEPS

STAYS = 0.75
"""Steps by which a load may differ from the one that is counted without a change: half a step is rounding, and a
quarter more has to come before a load between two steps changes what is counted again."""

CERTAIN = 2.0
"""Standard errors by which a load must differ from the one that is counted."""

Background = Mapping[str, int]
"""Load by directed link, in sixteenths (``STEPS``) of its capacity; links without load are left out."""


def stepped(load: FloatArray, error: FloatArray, counted: IntArray) -> IntArray:
    """Return the load [E] in steps to count from now on.

    Args:
        load: [E] part of each link's capacity; NaN where it is not known.
        error: [E] standard error of ``load``.
        counted: [E] steps that were counted until now; they stay where the load is near them or not known.
    """
    off = np.abs(load * STEPS - counted)
    far = (off > STAYS) & (off > CERTAIN * STEPS * error)
    steps: IntArray = np.where(far, nearest(load, counted), counted)
    return steps


def nearest(load: FloatArray, counted: IntArray) -> IntArray:
    """Return the load [E] in the nearest steps; those that were counted until now where it is not known (NaN)."""
    # A link that is full all the same keeps the least capacity: flows may have no other path.
    steps = np.clip(np.rint(load * STEPS), 0, STEPS - 1)
    return np.where(np.isnan(steps), counted, steps).astype(np.int32)


def on_links(fabric: Fabric, background: Background) -> IntArray:
    """Return the load [E] of each link in steps."""
    return np.array([background.get(link, 0) for link in fabric.link_ids], dtype=np.int32)


def by_link(fabric: Fabric, steps: IntArray) -> Background:
    """Return loads [E] by link."""
    return {link: n for link, n in zip(fabric.link_ids, steps.tolist(), strict=True) if n}


def beside_background(fabric: Fabric, headroom: float, background: Background) -> Fabric:
    """Return the fabric to plan on: each link without its load, or without the headroom where that is more."""
    left = with_headroom(fabric, headroom)
    if not background:
        return left
    share = np.minimum(1.0, (1 - on_links(fabric, background) / STEPS) / (1 - headroom))
    if (share == 1).all():
        return left
    return dataclasses.replace(left, link_share=tuple(share.tolist()))
