"""Circuits that give each group rings of its own, for demands whose groups are smaller than the job."""

from __future__ import annotations

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.kernels.moves import DUPLEX_RING, RING
from controller.circuits.planning.layers import Layers, set_ring
from controller.model.fabric import IntArray


def group_rings(
    layers: Layers, demand: ShardDemand, rng: np.random.Generator, *, whole_last: bool = False
) -> IntArray | None:
    """Return circuits [d, m]: in each layer, rings of disjoint groups with the most bytes that are left.

    Servers in none of these groups make one more ring. With ``whole_last``, the last duplex ring is of all servers,
    which else would often not reach each other. ``None``: there are no groups, or no layers for rings.
    """
    d, m = layers.shape
    rings = np.flatnonzero((layers.kinds == RING) | (layers.kinds == DUPLEX_RING)).tolist()
    if not demand.groups or not rings:
        return None
    out, into = demand.sent
    fill = float(np.maximum(out.sum(axis=0), into.sum(axis=0)).max()) / d
    left = [group.edge_bytes for group in demand.groups]
    succ = layers.drawn(rng) if layers.duplex else np.tile(np.arange(m, dtype=np.int32), (d, 1))
    for k in rings[:-1] if layers.duplex and whole_last else rings:
        both = bool(layers.kinds[k] == DUPLEX_RING)
        # The circuits of a duplex ring over two switches take turns.
        even = both and layers.switch_of[k] != layers.switch_of[k + 1]
        succ[k : k + 1 + both] = np.arange(m)
        free = layers.usable[k].copy()
        for g in sorted(range(len(left)), key=lambda g: -left[g] * rng.uniform(0.5, 1.0)):
            members = np.array(demand.groups[g].members, dtype=np.int32)
            if left[g] > 0 and free[members].all() and not (even and len(members) % 2):
                set_ring(succ, k, rng.permutation(members), both=both)
                free[members] = False
                left[g] -= fill * (1 + both)
        rest = rng.permutation(np.flatnonzero(free).astype(np.int32))
        if even and len(rest) % 2:
            rest = rest[1:]
        if len(rest) > 1:
            set_ring(succ, k, rest, both=both)
    return succ
