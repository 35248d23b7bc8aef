"""Circuits where servers do not forward: each pair that sends has a circuit of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.planning.layers import Layers
from controller.circuits.planning.routes import PINNED_BY_ROUTES, ChosenRing, CircuitRoutes, with_exact_shares
from controller.model.errors import InputError
from controller.model.fabric import IntArray


def direct_plan(layers: Layers, demand: ShardDemand, names: Sequence[str]) -> tuple[IntArray, CircuitRoutes]:
    """Return circuits [d, m] and routes of one hop.

    Pairs get NICs by a colouring of edges (D. König, 1916): d NICs suffice where no server sends to, or receives from,
    more than d others. Rings keep the order of their ranks.

    Raises:
        InputError: some pair gets no circuit; names the first one.
    """
    if layers.duplex:
        raise InputError(
            "circuits without forwarding are planned for simplex circuits only", field="optical.forwarding"
        )
    d, m = layers.shape
    succ = np.tile(np.arange(m, dtype=np.int32), (d, 1))
    pred = succ.copy()
    for u, v in _pairs(demand):
        if not join(succ, pred, layers, u, v):
            raise InputError(
                f"{names[u]} to {names[v]} has no circuit: {d} NICs do not suffice where servers do not forward",
                field="optical.forwarding",
                value=False,
            )
    layer = np.full((m, m), -1, dtype=np.int32)
    for k in range(d):
        for u in np.flatnonzero(succ[k] != np.arange(m)).tolist():
            layer[succ[k, u], u] = k
    rings = tuple(ChosenRing(g, group.members, PINNED_BY_ROUTES, 1.0) for g, group in enumerate(demand.groups))
    return succ, with_exact_shares(succ, demand, CircuitRoutes.single(layer, rings))


def _pairs(demand: ShardDemand) -> list[tuple[int, int]]:
    """Return the pairs that send, those with the most bytes first."""
    total = demand.messages.sum(axis=0)
    for group in demand.groups:
        order = np.array(group.members)
        total[order, np.roll(order, -1)] += group.edge_bytes
    src, dst = np.nonzero(total)
    largest_first = np.lexsort((dst, src, -total[src, dst]))
    return list(zip(src[largest_first].tolist(), dst[largest_first].tolist(), strict=True))


def join(succ: IntArray, pred: IntArray, layers: Layers, u: int, v: int) -> bool:
    """Give a pair a NIC that is free at both; exchange NICs along a path of circuits if there is none."""
    d, _ = layers.shape
    sends = [k for k in range(d) if succ[k, u] == u and layers.usable[k, u]]
    receives = [k for k in range(d) if pred[k, v] == v and layers.usable[k, v]]
    for k in sends:
        if k in receives:
            succ[k, u], pred[k, v] = v, u
            return True
    for a in sends:
        for b in receives:
            if _exchange(succ, pred, layers, a, b, v):
                succ[a, u], pred[a, v] = v, u
                return True
    return False


def _exchange(succ: IntArray, pred: IntArray, layers: Layers, a: int, b: int, v: int) -> bool:
    """Exchange NICs a and b on the path from v that begins with a, so that a is free at v.

    The path cannot come to a sender without a circuit on a: it comes to senders by circuits on a only.
    """
    path: list[tuple[int, int, int]] = []
    receiver, k = v, a
    while pred[k, receiver] != receiver:
        sender = int(pred[k, receiver])
        path.append((k, sender, receiver))
        other = b if k == a else a
        if succ[other, sender] == sender:
            break
        receiver = int(succ[other, sender])
        path.append((other, sender, receiver))
    if any(not (layers.usable[[a, b], s].all() and layers.usable[[a, b], r].all()) for _, s, r in path):
        return False
    for k, s, r in path:
        succ[k, s], pred[k, r] = s, r
    for k, s, r in path:
        other = b if k == a else a
        succ[other, s], pred[other, r] = r, s
    return True
