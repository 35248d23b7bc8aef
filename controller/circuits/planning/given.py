"""Routes over circuits that are given: those of now, or those that stay while others change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from controller.circuits.demand import ShardDemand
from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.layers import CircuitEnds
from controller.circuits.planning.routes import CircuitRoutes, searched_routes
from controller.model.fabric import IntArray


class RoutedCircuits(NamedTuple):
    """Circuits among some servers, as the members of a ``ShardPlan``; layers are the NICs that send."""

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
    succ: IntArray = np.tile(np.arange(len(index), dtype=np.int32), (fabric.nics, 1))
    sender: IntArray = np.repeat(np.arange(fabric.nics, dtype=np.int32)[:, None], len(index), axis=1)
    ends = CircuitEnds(sender, sender.copy())
    own = []
    for each in circuits:
        (u, sending), (v, receiving) = fabric.ends(each)
        if u in index and v in index:
            succ[sending, index[u]], ends.receiver[sending, index[u]] = index[v], receiving
            own.append((sending, index[u], each))
    routes = searched_routes(succ, demand, passes, seed)
    return None if routes is None else RoutedCircuits(succ, ends, routes, tuple(each for _, _, each in sorted(own)))
