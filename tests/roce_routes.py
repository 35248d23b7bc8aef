"""UDP source ports for runs of RoCE agents without a controller."""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.traffic import FIRST_PORT
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import FlowKey, PortShare


def numbered_routes(
    collectives: Sequence[CollectiveSpec], first: int = FIRST_PORT
) -> dict[FlowKey, tuple[PortShare, ...]]:
    """Return a separate port for each flow, numbered for each pair of hosts."""
    used: dict[tuple[str, str], int] = {}
    routes: dict[FlowKey, tuple[PortShare, ...]] = {}
    for spec in collectives:
        for source, destination in spec.flows():
            pair = spec.ranks[source], spec.ranks[destination]
            routes[spec.job, spec.name, *pair] = (PortShare(first + used.get(pair, 0)),)
            used[pair] = used.get(pair, 0) + 1
    return routes
