"""In which plane each switch and link is, where NICs have a port in each of several planes.

A plane is called by its number, from 1, or ``plane2``. A leaf that has ports of one plane only is in it, and so is a
switch above such leaves, unless leaves of another plane have cables to it, too (dual-ToR).
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, IntArray


def plane_names(fabric: Fabric) -> tuple[str, ...]:
    """Return ``plane1``, ``plane2``, ..; none where NICs have one port."""
    count = fabric.planes.count
    return tuple(f"plane{number}" for number in range(1, count + 1)) if count > 1 else ()


def planes_of_cables(fabric: Fabric) -> IntArray:
    """Return the plane [C], from 0, of each cable, that of its lower switch; -1: it serves several planes."""
    plane = np.full(len(fabric.cables), -1, dtype=np.int32)
    for tier in range(len(fabric.layers) - 1):
        (own,) = np.nonzero(fabric.cable_tier == tier)
        plane[own] = fabric.planes.of_layer(tier)[fabric.cable_lower[own]]
    return plane


def plane_numbers(fabric: Fabric) -> list[int | None]:
    """Return the number, from 1, of the plane of each directed link [E]; ``None``: in none, or NICs have one port."""
    if fabric.planes.count == 1:
        return [None] * fabric.n_links
    host = fabric.planes.of_host
    every = np.concatenate([host, host, np.repeat(planes_of_cables(fabric), 2)])
    return [plane + 1 if plane >= 0 else None for plane in every.tolist()]
