"""Shards that differ in the names of servers and jobs only: their circuits are searched once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from controller.circuits.demand import ShardDemand
from controller.circuits.planning.layers import Layers
from controller.circuits.planning.routes import CircuitRoutes
from controller.model.fabric import IntArray

Chosen = tuple[IntArray, CircuitRoutes]
"""Circuits [d, m] and routes, by the numbers of servers in their shard."""


class EqualShards:
    """What was chosen for shards, by all that it follows from but the options, which have to be the same for all."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._chosen: dict[Hashable, Chosen] = {}

    def of(self, layers: Layers, demand: ShardDemand, choose: Callable[[], Chosen]) -> Chosen:
        """Return what was chosen for an equal shard, or else choose now."""
        key = equality(layers, demand)
        if key not in self._chosen:
            self._chosen[key] = choose()
        return self._chosen[key]


def equality(layers: Layers, demand: ShardDemand) -> Hashable:
    """Return a value that equal shards have in common: the same live NICs, and the same bytes between them."""
    groups = tuple((each.members, each.edge_bytes, each.slot) for each in demand.groups)
    return (
        layers.shape,
        layers.kinds.tobytes(),
        layers.usable.tobytes(),
        demand.messages.shape,
        demand.messages.tobytes(),
        groups,
    )
