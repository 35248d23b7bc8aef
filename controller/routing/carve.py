"""Splitting from the other end: begin with whole flows, and cut one more only when the search cannot place them."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import IntArray
from controller.model.traffic import ANY_PORT
from controller.routing.demand import Demand
from controller.routing.pieces import Pieces

MOST_UNITS = 2_000
"""Above this many units the loop is not worth its time: there, loads are small against links."""

ROUNDS = 20_000
"""Moves and swaps tried before one more flow is cut."""

MOST_CUTS = 150
"""More cuts than that are not tried: each waits for the search to give up."""

SLIVER = 0.01
"""No piece is cut down to less than this part of itself."""


def carve(demand: Demand, path: IntArray, level: float, extra: int, seed: int) -> Pieces | None:
    """Pieces with which every collective can have ``level``, at most ``extra`` more than flows; ``None``: not found.

    Each time the search gets stuck, the largest piece on an overloaded link is cut: what is too much there becomes a
    piece of its own; a piece that is too much as a whole is halved.

    Args:
        path: [U] where each unit is to begin.
    """
    if not 0 < demand.n_units <= MOST_UNITS or len(demand.part_flow) > demand.n_units:
        return None
    load = demand.load[demand.part_flow]
    loaded = np.flatnonzero(load > 0).astype(np.int64)
    pieces = Pieces(loaded, path[loaded].astype(np.int64), load[loaded])
    cuttable = demand.traffic.udp_src[demand.part_flow] != ANY_PORT
    # Pieces of a flow that meet are one again, so there may be more cuts than extra pieces in the end.
    for turn in range(min(2 * extra, MOST_CUTS) + 1):
        pieces, reached = pieces.searched(demand, level, ROUNDS, seed + turn)
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
