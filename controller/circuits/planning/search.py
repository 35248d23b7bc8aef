"""The search of circuits: several starts, local search by hops or by routed time, and the best result with routes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.kernels.hop_counts import hop_counts
from controller.circuits.kernels.hop_search import search_hops
from controller.circuits.kernels.routed_search import search_routed
from controller.circuits.planning.group_rings import group_rings
from controller.circuits.planning.layers import Layers, set_ring
from controller.circuits.planning.routes import (
    CircuitRoutes,
    FlatGroups,
    loads_of,
    parts_of,
    searched_routes,
    seconds_of,
)
from controller.circuits.planning.totient_perms import coin_change, heaviest_matchings, totient_circuits
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import TOLERANCE

SMALL = 32
"""Most servers for which circuits are searched by the time of their routes from each start."""
_HEAT = 0.01
_PASSES = 4
"""Passes of the routes within a search."""
LAST_PASSES = 24
"""Passes of the routes of circuits that stay."""
_TRIES = 4
"""Orders of trees that are drawn for the routes of one choice of circuits."""
_LARGE = 200
"""Servers from which there is one such order only."""
_HOP_WORK, _MOST_HOP_STEPS = 3e9, 60_000
_ROUTED_WORK, _MOST_ROUTED_STEPS = 1.2e9, 4000
_LARGE_ROUTED_WORK = 0.36e9
"""Where the last search has little effect: of 128 servers, results are the same as with three times as many steps."""
_FROM_STARTS, _AT_LAST = 0.25, 0.5
"""Parts of these steps that the searches from each start take, and the last one: more have not improved results."""
_DRAWN_STARTS = 2
_LEAST_WEIGHT = TOLERANCE
"""Of the largest message, for pairs that send nothing: they must reach each other, too."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Circuits [d, m] with routes, and their time; it needs no unit but must be that of the others, too."""

    succ: IntArray
    routes: CircuitRoutes
    value: float


def search(
    layers: Layers, demand: ShardDemand, seed: int, effort: float, *, whole_rings: bool = False
) -> Candidate | None:
    """Return the best circuits and routes; ``None``: dead ports leave servers that none can reach.

    TotientPerms with coin change is one of the starts, so the result is never worse. Equal arguments give equal
    results.

    Args:
        layers: what circuits may be.
        demand: what the servers send.
        seed: of all that is drawn.
        effort: a factor of the numbers of steps; 1 takes a few seconds for 128 servers.
        whole_rings: whether each NIC has one ring of all servers; then no other circuits are starts.
    """
    rng = np.random.default_rng(seed)
    small = layers.shape[1] <= SMALL
    free = layers if whole_rings else layers.freely()
    best = None if whole_rings else totient(layers, demand, seed)
    for succ, kinds in _starts(layers, demand, rng, effort, whole_rings):
        began = succ
        if small:
            succ = _by_time(succ, kinds, demand, _FROM_STARTS * effort, int(rng.integers(2**31)))
        for each in {id(succ): succ, id(began): began}.values():
            best = _better(best, _with_routes(each, demand, rng))
    if best is not None and effort > 0:
        last = _AT_LAST * effort if small else effort
        succ = _by_time(best.succ, free if small else layers, demand, last, int(rng.integers(2**31)))
        best = _better(best, _with_routes(succ, demand, rng))
    return best


def _with_routes(succ: IntArray, demand: ShardDemand, rng: np.random.Generator) -> Candidate | None:
    """Return circuits with the best of some routes; ``None``: some pair has no path."""
    best = None
    for _ in range(_TRIES if demand.n < _LARGE else 1):
        best = _better(best, evaluated(succ, demand, int(rng.integers(2**31)), LAST_PASSES))
    return best


def totient(layers: Layers, demand: ShardDemand, seed: int) -> Candidate | None:
    """Return TotientPerms with coin change; ``None`` where dead ports or duplex pairs leave no such rings.

    Of two divisions of the NICs, that of the paper (by bytes) and that of its public code (none for messages), it is
    the one with less time.
    """
    best = None
    for by_bytes in (True, False):
        succ = totient_circuits(layers, demand, by_bytes=by_bytes)
        routes = None if succ is None else coin_change(succ, demand, np.random.default_rng(seed))
        if succ is not None and routes is not None:
            best = _better(best, Candidate(succ, routes, seconds_of(loads_of(succ, demand, routes), 1.0)))
    return best


def one_ring(layers: Layers, demand: ShardDemand, seed: int) -> Candidate | None:
    """Return one ring of all servers, in their order, on every NIC; ``None`` as for ``totient``."""
    d, n = layers.shape
    if not layers.whole:
        return None
    succ, order = np.empty((d, n), dtype=np.int32), np.arange(n, dtype=np.int32)
    for k in range(0, d, 2 if layers.duplex else 1):
        set_ring(succ, k, order, both=layers.duplex)
    return evaluated(succ, demand, seed, LAST_PASSES)


def evaluated(succ: IntArray, demand: ShardDemand, seed: int, passes: int) -> Candidate | None:
    """Return circuits with routes that are searched for them; ``None``: some pair has no path."""
    routes = searched_routes(succ, demand, passes, seed)
    return None if routes is None else Candidate(succ, routes, seconds_of(loads_of(succ, demand, routes), 1.0))


def _better(one: Candidate | None, other: Candidate | None) -> Candidate | None:
    return other if one is None or (other is not None and other.value < one.value) else one


def _starts(
    layers: Layers, demand: ShardDemand, rng: np.random.Generator, effort: float, whole_rings: bool
) -> Iterator[tuple[IntArray, Layers]]:
    """Yield circuits to begin with, and the layers within which they may be changed."""
    small = layers.shape[1] <= SMALL
    weights = _pair_weights(demand)
    free = layers if whole_rings else layers.freely()
    for _ in range(_DRAWN_STARTS if demand.n < _LARGE else 1):
        succ = layers.drawn(rng)
        searched = _by_hops(succ, layers, weights, effort, int(rng.integers(2**31)))
        # Pairs may come apart where few bytes are sent between parts; then all pairs count alike.
        if hop_counts(searched).max() >= demand.n:
            alike = np.maximum(weights, weights.mean())
            searched = _by_hops(succ, layers, alike, effort, int(rng.integers(2**31)))
        joined = hop_counts(searched).max() < demand.n
        yield searched if joined else succ, free if small else layers
    if whole_rings:
        return
    for succ_or_none in (
        totient_circuits(layers, demand, by_bytes=True),
        *(group_rings(layers, demand, rng, whole_last=not i) for i in range(_DRAWN_STARTS if small else 1)),
        heaviest_matchings(layers, weights + _ring_weights(demand)),
    ):
        if succ_or_none is not None:
            yield succ_or_none, free


def _pair_weights(demand: ShardDemand) -> FloatArray:
    total: FloatArray = demand.messages.sum(axis=0)
    least = float(total.max()) * _LEAST_WEIGHT
    weights = np.maximum(total, least if least > 0 else 1.0)
    np.fill_diagonal(weights, 0.0)
    return weights


def _ring_weights(demand: ShardDemand) -> FloatArray:
    weights = np.zeros(demand.messages.shape[1:])
    for group in demand.groups:
        order = np.array(group.members)
        weights[order, np.roll(order, -1)] += group.edge_bytes
    return weights


def _by_hops(succ: IntArray, layers: Layers, weights: FloatArray, effort: float, seed: int) -> IntArray:
    d, m = layers.shape
    steps = int(effort * min(_MOST_HOP_STEPS, _HOP_WORK / (m * m * d)))
    searched: IntArray = search_hops(succ, layers.kinds_of(succ), weights, steps, seed)[0]
    return searched


def _by_time(succ: IntArray, layers: Layers, demand: ShardDemand, effort: float, seed: int) -> IntArray:
    d, m = layers.shape
    flat = FlatGroups.of(demand)
    # A tree takes m^2 steps, and there are m of them; circuits have costs, which are set for each tree.
    work = m * (m * m + 20 * m * d) + 100 * m * len(demand.groups) * parts_of(d)
    most = _ROUTED_WORK if m <= SMALL else _LARGE_ROUTED_WORK
    steps = int(effort * min(_MOST_ROUTED_STEPS, most / work))
    searched: IntArray = search_routed(
        succ,
        layers.kinds_of(succ),
        demand.messages.sum(axis=0),
        flat.first,
        flat.members,
        flat.edge_bytes,
        parts_of(d),
        _PASSES,
        steps,
        _HEAT if m <= SMALL else 0.0,
        seed,
    )[0]
    return searched
