"""Duplex circuits that join all servers where no NIC numbers are enough for a ring of them: pairs in each layer.

Where servers have few NICs, an odd number of servers is on each switch, or ports are dead, drawn pairs seldom join all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from controller.circuits.fabric.optical_fabric import BoolArray
from controller.model.fabric import IntArray

_STEPS = 400
"""Changes that are tried from each of some random begins. In 6,000 cases without a circuit to spare, of up to six
servers, they always led to circuits where there are some."""
_BEGINS = 6
_TURN = 0.05
"""How often a change is kept that joins fewer servers."""

Edge = tuple[int, int]


@dataclass
class _Graph:
    """Pairs of servers on each switch, and the servers that have NICs there without a circuit, once for each.

    Attributes:
        m: the number of servers.
        edges, free: by the number of the switch.
    """

    m: int
    edges: list[list[Edge]]
    free: list[list[int]] = field(default_factory=list)

    def copy(self) -> _Graph:
        return _Graph(self.m, [list(each) for each in self.edges], [list(each) for each in self.free])

    def parts(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the part of each server, and (switch, index) of the edges without which parts stay joined."""
        root, spare = list(range(self.m)), []

        def of(u: int) -> int:
            while root[u] != u:
                root[u] = root[root[u]]
                u = root[u]
            return u

        for switch, edges in enumerate(self.edges):
            for i, (u, v) in enumerate(edges):
                a, b = of(u), of(v)
                if a == b:
                    spare.append((switch, i))
                root[a] = b
        return [of(u) for u in range(self.m)], spare

    def join_free(self, part: list[int]) -> bool:
        """Join two parts by NICs that have no circuits."""
        for switch, free in enumerate(self.free):
            for i, u in enumerate(free):
                for j in range(i):
                    if part[free[j]] != part[u]:
                        self.edges[switch].append((free[j], u))
                        del free[i], free[j]
                        return True
        return False

    def join_by(self, part: list[int], spare: list[tuple[int, int]]) -> bool:
        """Join two parts by a circuit that one of them does not need."""
        for switch, i in spare:
            u, v = self.edges[switch][i]
            for j, (x, y) in enumerate(self.edges[switch]):
                if part[x] != part[u]:
                    self.edges[switch][i], self.edges[switch][j] = (u, x), (v, y)
                    return True
            for j, x in enumerate(self.free[switch]):
                if part[x] != part[u]:
                    self.edges[switch][i], self.free[switch][j] = (u, x), v
                    return True
        return False

    def turn(self, rng: np.random.Generator) -> None:
        """Exchange the ends of two circuits of a switch, or of a circuit and a NIC without one."""
        switch = int(rng.integers(len(self.edges)))
        edges, free = self.edges[switch], self.free[switch]
        if not edges:
            return
        i, j = int(rng.integers(len(edges))), int(rng.integers(len(edges) + len(free)))
        u, v = edges[i] if rng.random() < 0.5 else edges[i][::-1]
        if j >= len(edges):
            x = free[j - len(edges)]
            if x != u:
                edges[i], free[j - len(edges)] = (u, x), v
            return
        x, y = edges[j]
        if i != j and u != x and v != y:
            edges[i], edges[j] = (u, x), (v, y)


def linked_pairs(usable: BoolArray, switch_of: IntArray, rng: np.random.Generator) -> IntArray:
    """Return duplex circuits [d, m] as pairs in each layer; they join all servers, if it is seen how.

    Args:
        usable: [d, m]; a server is in as many layers of a switch as are usable for it, but in any of these.
        switch_of: [d] the switch of each layer.
        rng: random numbers.
    """
    switches = np.unique(switch_of).tolist()
    layers = [np.flatnonzero(switch_of == switch).tolist() for switch in switches]
    rooms = np.array([usable[each].sum(axis=0) for each in layers])
    graph = _joined(rooms, rng)
    return _in_layers(graph, rooms, layers, usable.shape, rng)


def _drawn(rooms: IntArray, rng: np.random.Generator) -> _Graph:
    """Return a graph where each switch pairs its NICs at random."""
    n_switches, m = rooms.shape
    graph = _Graph(m, [[] for _ in range(n_switches)], [[] for _ in range(n_switches)])
    for switch in range(n_switches):
        stubs = rng.permutation(np.repeat(np.arange(m), rooms[switch])).tolist()
        for u, v in zip(stubs[::2], stubs[1::2], strict=False):
            if u == v:
                graph.free[switch] += [u, v]
            else:
                graph.edges[switch].append((u, v))
        graph.free[switch] += stubs[len(stubs) // 2 * 2 :]
    return graph


def _joined(rooms: IntArray, rng: np.random.Generator) -> _Graph:
    """Return a graph that joins all servers, or one that joins many of them."""
    m = rooms.shape[1]
    graph = _drawn(rooms, rng)
    if int((rooms.sum(axis=1) // 2).sum()) < m - 1 or not _share_switches(rooms):
        return graph
    for begin in range(_BEGINS):
        if begin:
            graph = _drawn(rooms, rng)
        part, spare = graph.parts()
        for _ in range(_STEPS):
            while graph.join_free(part) or graph.join_by(part, spare):
                part, spare = graph.parts()
            if len(set(part)) == 1:
                return graph
            other = graph.copy()
            other.turn(rng)
            other_part, other_spare = other.parts()
            if len(set(other_part)) <= len(set(part)) or rng.random() < _TURN:
                graph, part, spare = other, other_part, other_spare
    return graph


def _share_switches(rooms: IntArray) -> bool:
    """Return whether all servers reach each other where NICs of one switch can all be joined."""
    on = rooms > 0
    inside = np.arange(on.shape[1]) == 0
    for _ in rooms:
        inside = inside | on[on[:, inside].any(axis=1)].any(axis=0)
    return bool(inside.all())


def _in_layers(
    graph: _Graph, rooms: IntArray, layers: list[list[int]], shape: tuple[int, ...], rng: np.random.Generator
) -> IntArray:
    """Return the circuits [d, m] of a graph: those of a tree that joins all servers, then others that layers can take.

    The circuits of a tree at a switch need no more layers than a server has there: each gets one that is free at both
    ends, the nearest to the root first. Others, such as those of a ring of three, may need more; servers that lose them
    are paired at random.
    """
    succ: IntArray = np.tile(np.arange(shape[1], dtype=np.int32), (shape[0], 1))
    used = np.zeros_like(rooms)

    def place(switch: int, u: int, v: int) -> None:
        for k in layers[switch]:
            if succ[k, u] == u and succ[k, v] == v:
                succ[k, u], succ[k, v] = v, u
                used[switch, [u, v]] += 1
                return

    tree, rest = _tree_first(graph)
    for switch, u, v in (*tree, *rest):
        place(switch, u, v)
    for switch, own in enumerate(layers):
        for k in own:
            free = np.flatnonzero((succ[k] == np.arange(shape[1])) & (used[switch] < rooms[switch]))
            order = rng.permutation(free).tolist()
            for u, v in zip(order[::2], order[1::2], strict=False):
                succ[k, u], succ[k, v] = v, u
                used[switch, [u, v]] += 1
    return succ


def _tree_first(graph: _Graph) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Return (switch, u, v) of the circuits of trees, the nearest to a root first, and those of all others."""
    at: list[list[tuple[int, int, int]]] = [[] for _ in range(graph.m)]
    for switch, edges in enumerate(graph.edges):
        for i, (u, v) in enumerate(edges):
            at[u].append((switch, i, v))
            at[v].append((switch, i, u))
    seen, tree, taken = [False] * graph.m, [], set()
    for root in range(graph.m):
        queue = [] if seen[root] else [root]
        seen[root] = True
        for u in queue:
            for switch, i, v in at[u]:
                if not seen[v]:
                    seen[v] = True
                    queue.append(v)
                    tree.append((switch, u, v))
                    taken.add((switch, i))
    rest = [
        (switch, u, v)
        for switch, edges in enumerate(graph.edges)
        for i, (u, v) in enumerate(edges)
        if (switch, i) not in taken
    ]
    return tree, rest
