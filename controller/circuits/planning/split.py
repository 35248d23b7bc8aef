"""Routes with several trees to a destination, and the part of the bytes that goes by each.

The best split routes of given circuits are a linear program. A flow to one destination without circles is a mean of
trees to it, so the program may choose among trees; they are made one by one where their prices say that they help
(column generation: L. R. Ford and D. R. Fulkerson, 1958).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.routes import ChosenRing, CircuitRoutes, loads_of, pinned_orders
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.routing.relaxation.solver import LinearProgram

MOST_PATHS = 16
"""Most trees to a destination."""
_ROUNDS = 60
_LARGE, _ROUNDS_OF_LARGE = 48, 8
"""Servers from which fewer trees are tried: the program takes seconds there."""
_NEAR = 1e-3
"""Part of the time by which all trees that were not tried can improve it at most, for an end."""
_FEWER_HOPS = 1e-4
"""Price of a circuit that is not full, as part of the mean price."""


@dataclass(frozen=True, eq=False)
class _Tree:
    """A tree to a destination in one phase: the layer [m] on which servers send, and bytes [d * m] on circuits."""

    phase: int
    target: int
    layer: IntArray
    load: FloatArray


@dataclass(frozen=True, eq=False)
class _Weights:
    """The time of phases, the part of each tree, the share of each pinned ring, and prices [P, d * m] of circuits."""

    seconds: float
    trees: FloatArray
    rings: FloatArray
    prices: FloatArray
    of_targets: FloatArray
    """[P, m] the price of the bytes for each destination."""


def split_routes(succ: IntArray, demand: ShardDemand, routes: CircuitRoutes, paths: int) -> CircuitRoutes:
    """Return routes with up to ``paths`` trees to each destination, never slower than those with one.

    Rings keep their orders, and loose ones their shares; those that are pinned to circuits divide their bytes anew.

    Args:
        succ: [d, m] the circuits.
        demand: what servers send.
        routes: those with one tree.
        paths: the most trees to a destination.
    """
    m = demand.n
    if paths <= 1 or m <= 2 or not demand.total_bytes:
        return routes
    program = _Program(succ, demand, routes)
    trees = program.first_trees()
    solved = program.solve(trees)
    for _ in range(_ROUNDS if m < _LARGE else _ROUNDS_OF_LARGE):
        if solved is None:
            return routes
        new, gain = program.cheaper_trees(solved)
        if gain <= _NEAR * solved.seconds:
            break
        trees += new
        solved = program.solve(trees)
    if solved is None:
        return routes
    kept = _largest(trees, solved.trees, program.sent, paths)
    final = program.solve(program.in_all_phases(kept))
    if final is None:
        return routes
    split = program.routes(program.in_all_phases(kept), final)
    before, after = (float(loads_of(succ, demand, each).max(axis=(1, 2)).sum()) for each in (routes, split))
    return split if after < before else routes


class _Program:
    """The linear program of one shard; bytes are over the mean of a circuit."""

    def __init__(self, succ: IntArray, demand: ShardDemand, routes: CircuitRoutes) -> None:
        self.succ, self.demand, self.before = succ, demand, routes
        d, m = succ.shape
        self.scale = demand.total_bytes / (d * m)
        self.sent = demand.messages / self.scale
        self.loose = tuple(ring for ring in routes.rings if ring.layer == LOOSE)
        for ring in self.loose:
            group, order = demand.groups[ring.group], np.array(ring.order)
            self.sent[group.slot, order, np.roll(order, -1)] += ring.share * group.edge_bytes / self.scale
        self.pinned = tuple(
            ring
            for g in {ring.group for ring in routes.rings if ring.layer != LOOSE}
            for ring in pinned_orders(succ, g, demand.groups[g].members)
        )
        self.pinned_part = {
            g: 1.0 - sum(ring.share for ring in self.loose if ring.group == g) for g in {r.group for r in self.pinned}
        }
        self.into: list[list[tuple[int, int]]] = [[] for _ in range(m)]
        for k, u in np.ndindex(d, m):
            if succ[k, u] != u:
                self.into[succ[k, u]].append((k, u))

    def tree(self, phase: int, target: int, layer: IntArray) -> _Tree:
        """Return a tree with what it carries if it gets all bytes for its destination."""
        d, m = self.succ.shape
        load = np.zeros((d, m))
        size, at = self.sent[phase, :, target].copy(), np.arange(m)
        for _ in range(m):
            moving = (at != target) & (size > 0)
            if not moving.any():
                break
            at, size = at[moving], size[moving]
            np.add.at(load, (layer[at], at), size)
            at = self.succ[layer[at], at]
        return _Tree(phase, target, layer, load.reshape(-1))

    def first_trees(self) -> list[_Tree]:
        """Return the trees of the routes with one path."""
        phases, m = len(self.sent), self.demand.n
        return [
            self.tree(p, t, self.before.layer[t]) for p in range(phases) for t in range(m) if self.sent[p, :, t].any()
        ]

    def in_all_phases(self, kept: Sequence[Sequence[IntArray]]) -> list[_Tree]:
        """Return the trees of each destination as those of every phase in which it receives."""
        return [
            self.tree(p, t, layer)
            for p in range(len(self.sent))
            for t, own in enumerate(kept)
            for layer in own
            if self.sent[p, :, t].any()
        ]

    def solve(self, trees: Sequence[_Tree]) -> _Weights | None:
        """Return the parts of trees and rings for which phases take the least time."""
        phases, m = len(self.sent), self.demand.n
        circuits = self.succ.size
        program = LinearProgram()
        times = program.columns(phases, cost=1.0)
        parts = program.columns(len(trees))
        shares = program.columns(len(self.pinned))
        rows = program.rows(phases * circuits, upper=0.0).reshape(phases, circuits)
        program.add(rows.reshape(-1), np.repeat(times, circuits), -1.0)
        received = np.argwhere(self.sent.any(axis=1))
        whole = np.full((phases, m), -1)
        whole[received[:, 0], received[:, 1]] = program.rows(len(received), lower=1.0, upper=1.0)
        for column, tree in zip(parts.tolist(), trees, strict=True):
            on = np.flatnonzero(tree.load)
            program.add(rows[tree.phase, on], column, tree.load[on])
            program.add(whole[tree.phase, tree.target : tree.target + 1], column, 1.0)
        for g, part in self.pinned_part.items():
            total = program.rows(1, lower=part, upper=part)
            for column, ring in zip(shares.tolist(), self.pinned, strict=True):
                if ring.group == g:
                    group = self.demand.groups[g]
                    order = ring.layer * m + np.array(ring.order)
                    program.add(rows[group.slot, order], column, group.edge_bytes / self.scale)
                    program.add(total, column, 1.0)
        solution = program.solve()
        if solution.x is None or solution.prices is None:
            return None
        of_targets = np.where(whole >= 0, solution.prices[whole], 0.0)
        return _Weights(
            solution.value, solution.x[parts], solution.x[shares], np.maximum(0.0, -solution.prices[rows]), of_targets
        )

    def cheaper_trees(self, solved: _Weights) -> tuple[list[_Tree], float]:
        """Return trees that are cheaper by prices than those in use, and by how much the time can sink at most."""
        d, m = self.succ.shape
        new: list[_Tree] = []
        gain = 0.0
        for p in range(len(self.sent)):
            price = solved.prices[p].reshape(d, m)
            least = _FEWER_HOPS * float(price.mean())
            for t in range(m):
                if not self.sent[p, :, t].any():
                    continue
                tree = self.tree(p, t, self._cheapest(price + least, t))
                saved = float(solved.of_targets[p, t] - tree.load @ solved.prices[p])
                if saved > TOLERANCE:
                    new.append(tree)
                    gain += saved
        return new, gain

    def _cheapest(self, price: FloatArray, target: int) -> IntArray:
        """Return the tree of least prices to a server (E. W. Dijkstra, 1959)."""
        m = self.demand.n
        distance, layer = np.full(m, np.inf), np.full(m, -1, dtype=np.int32)
        distance[target] = 0.0
        queue, closed = [(0.0, target)], np.zeros(m, dtype=np.bool_)
        while queue:
            length, v = heapq.heappop(queue)
            if closed[v]:
                continue
            closed[v] = True
            for k, u in self.into[v]:
                if length + price[k, u] < distance[u]:
                    distance[u], layer[u] = length + price[k, u], k
                    heapq.heappush(queue, (float(distance[u]), u))
        return layer

    def routes(self, trees: Sequence[_Tree], solved: _Weights) -> CircuitRoutes:
        """Return trees with their parts, the one with the most bytes first, and rings with their shares."""
        phases, m = len(self.sent), self.demand.n
        of_target: list[dict[bytes, FloatArray]] = [{} for _ in range(m)]
        layers: dict[bytes, IntArray] = {}
        for tree, part in zip(trees, solved.trees.tolist(), strict=True):
            key = tree.layer.tobytes()
            layers[key] = tree.layer
            own = of_target[tree.target].setdefault(key, np.zeros(phases))
            own[tree.phase] = max(0.0, part)
        received = self.sent.sum(axis=1)
        count = 1
        rows: list[list[tuple[IntArray, FloatArray]]] = []
        for t in range(m):
            sizes = {key: float(part @ received[:, t]) for key, part in of_target[t].items()}
            order = sorted((key for key in sizes if of_target[t][key].max() > ROUNDING), key=lambda key: -sizes[key])
            rows.append(
                [(layers[key], of_target[t][key]) for key in order] or [(self.before.layer[t], np.ones(phases))]
            )
            count = max(count, len(rows[-1]))
        all_trees = np.full((count, m, m), -1, dtype=np.int32)
        shares = np.zeros((phases, count, m))
        for t, own_rows in enumerate(rows):
            for s, (layer, part) in enumerate(own_rows):
                all_trees[s, t], shares[:, s, t] = layer, part
            # A phase in which nobody sends to this server, and rounding.
            total = shares[:, :, t].sum(axis=1)
            shares[total <= 0, 0, t] = 1.0
            shares[:, :, t] /= np.where(total > 0, total, 1.0)[:, None]
        rings = [
            replace(ring, share=float(s)) for ring, s in zip(self.pinned, solved.rings, strict=True) if s > ROUNDING
        ]
        untouched = [ring for ring in self.before.rings if ring.layer == LOOSE]
        return CircuitRoutes(all_trees, shares, tuple(_whole([*rings, *untouched])))


def _whole(rings: Sequence[ChosenRing]) -> list[ChosenRing]:
    """Return rings in order of groups, with shares that add up to 1 for each."""
    total: dict[int, float] = {}
    for ring in rings:
        total[ring.group] = total.get(ring.group, 0.0) + ring.share
    return sorted((replace(ring, share=ring.share / total[ring.group]) for ring in rings), key=lambda ring: ring.group)


def _largest(trees: Sequence[_Tree], parts: FloatArray, sent: FloatArray, paths: int) -> list[list[IntArray]]:
    """Return the trees to each destination that have the most bytes."""
    received = sent.sum(axis=1)
    sizes: list[dict[bytes, float]] = [{} for _ in range(sent.shape[1])]
    layers: dict[bytes, IntArray] = {}
    for tree, part in zip(trees, parts.tolist(), strict=True):
        key = tree.layer.tobytes()
        layers[key] = tree.layer
        own = sizes[tree.target]
        own[key] = own.get(key, 0.0) + part * float(received[tree.phase, tree.target])
    return [[layers[key] for key in sorted(own, key=lambda key: -own[key])[:paths]] for own in sizes]
