"""Incremental splitting: begin with whole flows, and cut one more only when the search cannot place them."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import IntArray
from controller.model.packets.flow_ports import can_be_split
from controller.routing.placing.pieces import Pieces
from controller.routing.problem.demand import Demand

MOST_UNITS = 2_000
"""Above this many units the loop is not tried: loads are then small against links."""

ROUNDS = 20_000
"""Moves and swaps tried before one more flow is cut."""

ROUNDS_ON_WAYS = 2_000
"""The same where paths have choices in several tiers, and a round takes longer."""

MOST_CUTS = 150
"""Most cuts that are tried: each follows a failed search."""

SLIVER = 0.01
"""The least part of a piece that a cut may leave."""


def incremental_split(demand: Demand, path: IntArray, level: float, extra: int, seed: int) -> Pieces | None:
    """Return pieces that let every collective have ``level``, at most ``extra`` more than flows; ``None``: not found.

    Each time the search fails, the largest piece on an overloaded link is cut: the excess becomes a separate piece; a
    piece that exceeds the link's room as a whole is halved.

    Args:
        demand: the units to place.
        path: [U] the initial path class of each unit.
        level: the level that every collective must have.
        extra: the most pieces beyond the number of flows.
        seed: the seed of the search.
    """
    if not 0 < demand.n_units <= MOST_UNITS or len(demand.part_flow) > demand.n_units:
        return None
    load = demand.load[demand.part_flow]
    loaded = np.flatnonzero(load > 0).astype(np.int64)
    pieces = Pieces(loaded, path[loaded].astype(np.int64), load[loaded])
    cuttable = can_be_split(demand.traffic.udp_src[demand.part_flow])
    rounds = ROUNDS if demand.one_choice else ROUNDS_ON_WAYS
    # Pieces of a flow on one path are merged, so there may be more cuts than extra pieces in the end.
    for turn in range(min(2 * extra, MOST_CUTS) + 1):
        pieces, reached = pieces.searched(demand, level, rounds, seed + turn)
        pieces = pieces.merged()
        if reached:
            pieces = pieces.reunited(demand, 1.0 / level, pieces.extra)
            return pieces if pieces.extra <= extra else None
        excess = pieces.excess(demand, level)
        load_of = np.where((excess > 0) & cuttable[pieces.part], pieces.load, 0.0)
        largest = int(np.argmax(load_of))
        if load_of[largest] <= 0:
            return None
        size, over = float(load_of[largest]), float(excess[largest])
        pieces = pieces.cut(largest, over if over < size * (1 - SLIVER) else size / 2)
    return None
