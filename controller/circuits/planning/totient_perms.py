"""TotientPerms, SelectPermutations and coin change of TopoOpt (W. Wang et al., NSDI 2023).

A ring of n servers with step p visits all of them if p and n have no common divisor. TotientPerms takes the rings of
all such steps; SelectPermutations takes of them, for as many NICs as all-reduces get by their part of the bytes, steps
in geometric progression; the other NICs get matchings of the heaviest messages. Coin change routes by the least number
of steps that add up to the distance.

The paper gives NICs to all-reduces by their part of the bytes; its public code gives them all NICs.
"""

from __future__ import annotations

import math

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.kernels.assignment import heaviest_matching
from controller.circuits.kernels.hop_counts import hop_counts
from controller.circuits.planning.layers import Layers, set_ring
from controller.circuits.planning.routes import PINNED_BY_ROUTES, ChosenRing, CircuitRoutes
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import ROUNDING


def steps_of(n: int) -> list[int]:
    """Return the steps of all rings of n servers (1 .. n - 1 without a common divisor with n)."""
    return [step for step in range(1, n) if math.gcd(step, n) == 1]


def select_permutations(steps: list[int], count: int) -> list[int]:
    """Return some steps near a geometric progression from the least to the largest; all, again and again, if few."""
    if len(steps) <= count:
        return [steps[i % len(steps)] for i in range(count)]
    ratio = (steps[-1] / steps[0]) ** (1 / max(1, count - 1))
    chosen: list[int] = []
    for i in range(count):
        wanted = steps[0] * ratio**i - ROUNDING
        left = [step for step in steps if step not in chosen]
        chosen.append(next((step for step in left if step >= wanted), left[-1]))
    return chosen


def totient_circuits(layers: Layers, demand: ShardDemand, *, by_bytes: bool) -> IntArray | None:
    """Return the circuits [d, m], or ``None`` where dead ports or duplex pairs leave no such rings.

    Args:
        layers: what circuits may be.
        demand: what the servers send.
        by_bytes: whether messages get NICs, by their part of the bytes.
    """
    d, n = layers.shape
    if not layers.whole:
        return None
    if layers.duplex:
        succ = np.empty((d, n), dtype=np.int32)
        half = [step for step in steps_of(n) if step <= n / 2]
        for i, step in enumerate(select_permutations(half, d // 2)):
            set_ring(succ, 2 * i, (np.arange(n, dtype=np.int32) * np.int32(step)) % np.int32(n), both=True)
        return succ
    by_size: dict[int, float] = {}
    for group in demand.groups:
        by_size[len(group.members)] = by_size.get(len(group.members), 0.0) + group.total_bytes
    of_rings, total = sum(by_size.values()), demand.total_bytes
    nics = max(1, math.ceil(d * of_rings / total - ROUNDING)) if total and by_bytes else d
    rows: list[IntArray] = []
    for size, part in sorted(by_size.items(), key=lambda row: -row[1]):
        count = min(nics - len(rows), math.ceil(nics * part / of_rings)) if of_rings else 0
        if count > 0 and n % size == 0:
            rows += [_ring(n, step * (n // size)) for step in select_permutations(steps_of(size), count)]
    if len(rows) < nics:
        rows += [_ring(n, step) for step in select_permutations(steps_of(n), nics - len(rows))]
    weights = demand.messages.sum(axis=0)
    while len(rows) < d:
        matching = heaviest_matching(weights)
        rows.append(matching)
        weights[np.arange(n), matching] /= 2
    return np.array(rows, dtype=np.int32)


def _ring(n: int, step: int) -> IntArray:
    ring: IntArray = ((np.arange(n) + step) % n).astype(np.int32)
    return ring


def coin_change(succ: IntArray, demand: ShardDemand, rng: np.random.Generator) -> CircuitRoutes | None:
    """Return one path per destination with the fewest hops; equal ones are drawn, equally for equal distances.

    All-reduces have equal shares on the rings that consist of just their members, or else go around in the order of
    ranks by these paths. ``None``: some pair has no path.
    """
    d, n = succ.shape
    hops = hop_counts(succ)
    if hops.max() >= n:
        return None
    everyone = np.arange(n)
    circulant = all(len(set(((row - everyone) % n).tolist())) == 1 for row in succ)
    layer = np.full((n, n), -1, dtype=np.int32)
    draw = rng.random((n, d)) if circulant else rng.random((n, n, d))
    for u in range(n):
        # [d, n]: whether a layer leads nearer to each destination.
        nearer = hops[succ[:, u], :] == hops[u][None, :] - 1
        preference = draw[(everyone - u) % n].T if circulant else draw[u].T
        layer[:, u] = np.where(nearer.any(axis=0), np.where(nearer, preference, -1.0).argmax(axis=0), -1)
        layer[u, u] = -1
    return CircuitRoutes.single(
        layer, tuple(ring for g in range(len(demand.groups)) for ring in _rings(succ, demand, g))
    )


def _rings(succ: IntArray, demand: ShardDemand, group: int) -> list[ChosenRing]:
    members = demand.groups[group].members
    rings = []
    for k, row in enumerate(succ):
        order, u = [members[0]], int(row[members[0]])
        while u != members[0] and len(order) < len(members):
            order.append(u)
            u = int(row[u])
        if u == members[0] and set(order) == set(members):
            rings.append((tuple(order), k))
    rings = rings or [(members, PINNED_BY_ROUTES)]
    return [ChosenRing(group, order, k, 1 / len(rings)) for order, k in rings]


def heaviest_matchings(layers: Layers, weights: FloatArray) -> IntArray | None:
    """Return simplex circuits that are matchings of the largest weights [m, m], each half as heavy for the next one."""
    d, n = layers.shape
    if layers.duplex or not layers.usable.all():
        return None
    left, rows = weights.copy(), []
    for _ in range(d):
        rows.append(heaviest_matching(left))
        left[np.arange(n), rows[-1]] /= 2
    return np.array(rows, dtype=np.int32)
