"""CircuitRoutes over circuits as values, what each circuit carries under them, and exact shares of rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.kernels.routes import LOOSE, route
from controller.model.errors import InputError
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.model.units import GBIT
from controller.routing.relaxation.solver import LinearProgram

PINNED_BY_ROUTES = LOOSE
"""The layer of a ring whose bytes go by routes."""


@dataclass(frozen=True)
class ChosenRing:
    """A part of a group's bytes, and the order in which it goes around.

    Attributes:
        group: index of the group in the demand.
        order: the members in the order of the ring.
        layer: the layer of circuits on which each member sends to the next one; ``LOOSE``: members send by routes.
        share: of the group's bytes.
    """

    group: int
    order: tuple[int, ...]
    layer: int
    share: float


@dataclass(frozen=True, eq=False)
class CircuitRoutes:
    """How servers send over circuits.

    Attributes:
        trees: [S, m, m] for each tree (first) to a destination (second): the layer on which a server (third) sends on
            packets; -1 to itself, and where there is no way or no such tree.
        shares: [P, S, m] the part of the bytes for a destination (third) that goes by each tree (second) in each phase;
            P is 1 where all phases have the same.
        rings: the rings of all groups; the shares of a group add up to 1.
    """

    trees: IntArray
    shares: FloatArray
    rings: tuple[ChosenRing, ...]

    @classmethod
    def single(cls, layer: IntArray, rings: tuple[ChosenRing, ...]) -> CircuitRoutes:
        """Return routes with one tree [m, m] to each destination."""
        return cls(layer[None], np.ones((1, 1, len(layer))), rings)

    @property
    def layer(self) -> IntArray:
        """[m, m] the first tree to each destination; if there are several, the one with the most bytes."""
        first: IntArray = self.trees[0]
        return first

    def loads(self, succ: IntArray, messages: FloatArray, phase: int) -> FloatArray:
        """Return the bytes [d, m] on each circuit of messages [m, m] of one phase.

        Raises:
            InputError: a message has no way.
        """
        shares = self.shares[phase if len(self.shares) > 1 else 0]
        total = np.zeros(succ.shape)
        for layer, share in zip(self.trees, shares, strict=True):
            total += message_loads(succ, layer, messages * share)
        return total


@dataclass(frozen=True, eq=False)
class FlatGroups:
    """The groups of a demand as arrays: where each begins in ``members``, and bytes of an edge of each."""

    first: Int64Array
    members: Int64Array
    edge_bytes: FloatArray

    @classmethod
    def of(cls, demand: ShardDemand) -> FlatGroups:
        """Return those of a demand."""
        sizes = [len(group.members) for group in demand.groups]
        return cls(
            np.cumsum([0, *sizes]).astype(np.int64),
            np.array([member for group in demand.groups for member in group.members], dtype=np.int64),
            np.array([group.edge_bytes for group in demand.groups], dtype=np.float64),
        )


def searched_routes(succ: IntArray, demand: ShardDemand, passes: int, seed: int) -> CircuitRoutes | None:
    """Return routes over circuits [d, m] by which the fullest circuit carries little; ``None``: some pair has no path.

    Phases are planned as if all ran at once.
    """
    d = len(succ)
    flat = FlatGroups.of(demand)
    messages = demand.messages.sum(axis=0)
    value, layer, chosen, orders, shares, _ = route(
        succ, messages, flat.first, flat.members, flat.edge_bytes, parts_of(d), passes, seed
    )
    if not np.isfinite(value):
        return None
    rings: list[ChosenRing] = []
    for g, group in enumerate(demand.groups):
        own: dict[tuple[tuple[int, ...], int], float] = {}
        for k in np.flatnonzero(shares[g] > 0).tolist():
            order = tuple(_around(succ[k], group.members[0]))
            own[order, k] = float(shares[g, k])
        if own.keys() != set() and abs(sum(own.values()) - group.edge_bytes) <= ROUNDING * group.edge_bytes:
            loose = []
        else:
            loose = np.flatnonzero(chosen[g] == LOOSE).tolist()
        for q in loose:
            order = tuple(orders[q, flat.first[g] : flat.first[g + 1]].tolist())
            at = order.index(min(order))
            key = order[at:] + order[:at], LOOSE
            own[key] = own.get(key, 0.0) + group.edge_bytes / parts_of(d)
        total = sum(own.values())
        rings += [
            ChosenRing(g, order, k, size / total if total else 1 / len(own))
            for (order, k), size in (own or {(group.members, LOOSE): 0.0}).items()
        ]
    return with_exact_shares(succ, demand, CircuitRoutes.single(layer.astype(np.int32), tuple(rings)))


def parts_of(nics: int) -> int:
    """Return into how many parts the bytes of a group are cut whose rings are not all pinned."""
    return 2 * nics


def _around(p: IntArray, start: int) -> list[int]:
    """Return the servers from one of them on, until it is reached again or circuits end."""
    order, u = [start], int(p[start])
    while u not in (start, order[-1]):
        order.append(u)
        u = int(p[u])
    return order


def tree_hops(succ: IntArray, layer: IntArray) -> IntArray:
    """Return the hops [m, m] by one tree to each destination (first) from each server (second); 0: no way."""
    m = succ.shape[1]
    hops = np.zeros((m, m), dtype=np.int32)
    pairs = np.argwhere(layer >= 0).astype(np.int32)
    target, at = pairs[:, 0], pairs[:, 1]
    source = at.copy()
    while len(at):
        hops[target, source] += 1
        at = succ[layer[target, at], at]
        left = at != target
        target, source, at = target[left], source[left], at[left]
    return hops


def message_loads(succ: IntArray, layer: IntArray, messages: FloatArray) -> FloatArray:
    """Return the bytes [d, m] on each circuit of messages [m, m] by routes.

    Raises:
        InputError: a message has no way.
    """
    load = np.zeros(succ.shape)
    src, dst = np.nonzero(messages)
    size, at = messages[src, dst], src.copy()
    for _ in range(len(messages)):
        under_way = at != dst
        src, dst, size, at = src[under_way], dst[under_way], size[under_way], at[under_way]
        if not len(at):
            return load
        k = layer[dst, at]
        if (k < 0).any():
            lost = int(np.flatnonzero(k < 0)[0])
            raise InputError(f"there is no way from server {src[lost]} to server {dst[lost]}")
        np.add.at(load, (k, at), size)
        at = succ[k, at]
    if (at != dst).any():
        raise InputError(f"the way from server {src[0]} to server {dst[0]} is a circle")
    return load


def pinned_orders(succ: IntArray, group: int, members: Sequence[int]) -> list[ChosenRing]:
    """Return the rings of a group that are cycles of one layer's circuits, each with all bytes."""
    orders = {k: tuple(_around(row, members[0])) for k, row in enumerate(succ)}
    return [ChosenRing(group, order, k, 1.0) for k, order in orders.items() if sorted(order) == sorted(members)]


def ring_loads(succ: IntArray, routes: CircuitRoutes, ring: ChosenRing, edge_bytes: float, phase: int) -> FloatArray:
    """Return the bytes [d, m] on each circuit of a ring that carries all bytes of its group, which is of a phase."""
    order = np.array(ring.order)
    if ring.layer != LOOSE:
        load = np.zeros(succ.shape)
        load[ring.layer, order] = edge_bytes
        return load
    messages = np.zeros((succ.shape[1], succ.shape[1]))
    messages[order, np.roll(order, -1)] = edge_bytes
    return routes.loads(succ, messages, phase)


def loads_of(succ: IntArray, demand: ShardDemand, routes: CircuitRoutes) -> FloatArray:
    """Return the bytes [P, d, m] on each circuit in each phase."""
    load = np.array([routes.loads(succ, each, phase) for phase, each in enumerate(demand.messages)])
    for ring in routes.rings:
        group = demand.groups[ring.group]
        load[group.slot] += ring_loads(succ, routes, ring, group.edge_bytes * ring.share, group.slot)
    return load


def seconds_of(loads: FloatArray, gbps: float) -> float:
    """Return the time of all phases, each as long as its fullest circuit sends."""
    return float(loads.max(axis=(1, 2)).sum()) * GBIT / gbps


def with_exact_shares(succ: IntArray, demand: ShardDemand, routes: CircuitRoutes) -> CircuitRoutes:
    """Return the routes with the shares of rings for which the time is least, by a linear program."""
    several = [g for g in range(len(demand.groups)) if sum(ring.group == g for ring in routes.rings) > 1]
    if not several:
        return routes
    fixed = replace(routes, rings=tuple(ring for ring in routes.rings if ring.group not in several))
    free = [ring for ring in routes.rings if ring.group in several]
    base = loads_of(succ, demand, fixed)
    phases, circuits = len(base), base[0].size
    scale = max(float(base.max()), max(demand.groups[ring.group].edge_bytes for ring in free))
    if scale <= 0:
        return routes
    program = LinearProgram()
    times = program.columns(phases, cost=1.0)
    shares = program.columns(len(free), upper=1.0)
    rows = program.rows(phases * circuits, upper=-base.reshape(-1) / scale)
    program.add(rows, np.repeat(times, circuits), -1.0)
    for column, ring in zip(shares.tolist(), free, strict=True):
        group = demand.groups[ring.group]
        load = ring_loads(succ, routes, ring, group.edge_bytes / scale, group.slot).reshape(-1)
        on = np.flatnonzero(load)
        program.add(rows[group.slot * circuits + on], column, load[on])
    for g in several:
        own = np.array([column for column, ring in zip(shares.tolist(), free, strict=True) if ring.group == g])
        total = program.rows(1, lower=1.0, upper=1.0)
        program.add(np.repeat(total, len(own)), own, 1.0)
    solution = program.solve()
    if solution.x is None:
        return routes
    value = np.clip(solution.x[shares], 0.0, 1.0)
    return replace(routes, rings=tuple(_shared(routes.rings, free, value.tolist())))


def _shared(rings: Sequence[ChosenRing], free: Sequence[ChosenRing], shares: Sequence[float]) -> list[ChosenRing]:
    """Return all rings with their new shares, which add up to 1 for each group; rings without a share are left out."""
    share = {id(ring): each for ring, each in zip(free, shares, strict=True)}
    kept = [
        replace(ring, share=share.get(id(ring), ring.share))
        for ring in rings
        if share.get(id(ring), ring.share) > ROUNDING
    ]
    total: dict[int, float] = {}
    for ring in kept:
        total[ring.group] = total.get(ring.group, 0.0) + ring.share
    return [replace(ring, share=ring.share / total[ring.group]) for ring in kept]
