"""Routes over circuits that are given: those of now, or those that stay while others change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.kernels.moves import FREE
from controller.circuits.planning.direct import join
from controller.circuits.planning.layers import CircuitEnds, Layers
from controller.circuits.planning.routes import CircuitRoutes, searched_routes
from controller.model.fabric import IntArray


class RoutedCircuits(NamedTuple):
    """Circuits among some servers, as the members of a ``ShardPlan``.

    Layers are the NICs that send, if no server then receives by two NICs on one layer.
    """

    succ: IntArray
    ends: CircuitEnds
    routes: CircuitRoutes
    circuits: tuple[Circuit, ...]


def routed(
    fabric: OpticalFabric,
    servers: Iterable[int],
    demand: ShardDemand,
    circuits: Iterable[Circuit],
    passes: int,
    seed: int,
) -> RoutedCircuits | None:
    """Return how servers (numbers in the fabric) send over those circuits that join them.

    ``None``: some of them do not reach each other.
    """
    index = {server: i for i, server in enumerate(servers)}
    own: list[_Given] = []
    for each in circuits:
        (u, sending), (v, receiving) = fabric.ends(each)
        if u in index and v in index:
            own.append(_Given(sending, index[u], index[v], receiving, each))
    if len({(each.sending, each.v) for each in own}) == len(own):
        rows = [(each.sending, each) for each in own]
    else:
        rows = _in_layers(own, fabric.nics, len(index))
    succ: IntArray = np.tile(np.arange(len(index), dtype=np.int32), (fabric.nics, 1))
    sender: IntArray = np.repeat(np.arange(fabric.nics, dtype=np.int32)[:, None], len(index), axis=1)
    ends = CircuitEnds(sender, sender.copy())
    for layer, row in rows:
        succ[layer, row.u], ends.sender[layer, row.u], ends.receiver[layer, row.u] = row.v, row.sending, row.receiving
    routes = searched_routes(succ, demand, passes, seed)
    in_order = tuple(row.circuit for _, row in sorted(rows, key=lambda each: (each[0], each[1].u)))
    return None if routes is None else RoutedCircuits(succ, ends, routes, in_order)


class _Given(NamedTuple):
    """A circuit from NIC ``sending`` of server u to NIC ``receiving`` of server v."""

    sending: int
    u: int
    v: int
    receiving: int
    circuit: Circuit


def _in_layers(own: Sequence[_Given], d: int, m: int) -> list[tuple[int, _Given]]:
    """Give circuits layers in which each server sends once and receives once: d are enough (D. König, 1916)."""
    succ: IntArray = np.tile(np.arange(m, dtype=np.int32), (d, 1))
    pred = succ.copy()
    layers = Layers(np.full(d, FREE, dtype=np.int64), np.ones((d, m), dtype=np.bool_), np.zeros(d, dtype=np.int32))
    between: dict[tuple[int, int], list[_Given]] = {}
    for each in own:
        joined = join(succ, pred, layers, each.u, each.v)
        assert joined, "a server has d NICs"
        between.setdefault((each.u, each.v), []).append(each)
    return [(k, between[u, int(succ[k, u])].pop()) for k in range(d) for u in range(m) if succ[k, u] != u]
