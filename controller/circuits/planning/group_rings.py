"""Circuits that give each group rings of its own, for demands whose groups are smaller than the job."""

from __future__ import annotations

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.planning.layers import Layers
from controller.model.fabric import IntArray


def group_rings(layers: Layers, demand: ShardDemand, rng: np.random.Generator) -> IntArray | None:
    """Return simplex circuits [d, m]: in each layer, rings of disjoint groups with the most bytes that are left.

    Servers in none of these groups make one more ring. ``None``: there are no groups, or circuits are duplex.
    """
    d, m = layers.shape
    if layers.duplex or not demand.groups:
        return None
    out, into = demand.sent
    fill = float(np.maximum(out.sum(axis=0), into.sum(axis=0)).max()) / d
    left = [group.edge_bytes for group in demand.groups]
    succ = np.tile(np.arange(m, dtype=np.int32), (d, 1))
    for k in range(d):
        free = layers.usable[k].copy()
        for g in sorted(range(len(left)), key=lambda g: -left[g] * rng.uniform(0.5, 1.0)):
            members = np.array(demand.groups[g].members)
            if left[g] > 0 and free[members].all():
                _ring_of(succ[k], rng.permutation(members))
                free[members] = False
                left[g] -= fill
        _ring_of(succ[k], rng.permutation(np.flatnonzero(free)))
    return succ


def _ring_of(row: IntArray, order: IntArray | np.ndarray) -> None:
    if len(order) > 1:
        row[order] = np.roll(order, -1).astype(np.int32)
