"""Pieces from a program over whole paths: few at a vertex of the linear one, the fewest by the integer one.

Both are for instances on which quicker methods do not reach the level.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import FloatArray
from controller.model.packets.flow_ports import can_be_split
from controller.model.tolerances import SOLVED
from controller.routing.placing.pairs import Pairs
from controller.routing.placing.pieces import Pieces
from controller.routing.problem.demand import Demand
from controller.routing.relaxation.solver import LinearProgram

MOST_PAIRS = 1_000
"""Most (unit, path class) pairs for which the program is tried."""

MOST_COLUMNS = 20_000
"""Most (unit, path class) pairs for which the linear program is solved: about a second."""

NODES = 100
"""Limit of branch-and-bound nodes: some tenths of a second at that size."""


def fewest_pieces(demand: Demand, level: float, extra: int) -> Pieces | None:
    """Return pieces that let every collective have ``level``, at most ``extra`` more than flows; ``None``: not found.

    Units of several flows, or with an unknown port, stay whole.
    """
    pairs = Pairs.of(demand)
    n = len(pairs.unit)
    if not 0 < n <= MOST_PAIRS:
        return None
    program = LinearProgram()
    share = program.columns(n, upper=1.0)
    used = program.columns(n, upper=1.0, cost=1.0, integer=True)
    program.add(program.rows(demand.n_units, lower=1.0, upper=1.0)[pairs.unit], share, 1.0)
    only_if_used = program.rows(n, upper=0.0)
    program.add(only_if_used, share, 1.0)
    program.add(only_if_used, used, -1.0)
    first = demand.part_flow[demand.part_ptr[:-1]]
    whole = (np.diff(demand.part_ptr) > 1) | ~can_be_split(demand.traffic.udp_src[first])
    once = program.rows(demand.n_units, upper=np.where(whole, 1.0, float(demand.n_units + extra)))
    program.add(once[pairs.unit], used, 1.0)
    program.add(np.full(n, program.rows(1, upper=demand.n_units + extra)[0]), used, 1.0)
    load = demand.load[demand.part_flow]
    rows = program.rows(len(pairs.links), upper=demand.fabric.link_gbps[pairs.links] / level)
    pairs.add_loads(program, demand, rows, share[pairs.pair], load[pairs.part])
    x = program.solve(nodes=NODES).x
    if x is None:
        return None
    return _pieces(demand, pairs, x[share])


def vertex_pieces(demand: Demand, level: float) -> Pieces | None:
    """Return pieces that let every collective have ``level`` where cables limit it; ``None``: too large, or too high.

    Shares are a vertex of the linear program, which has at most one more piece than units for each full link.
    """
    pairs = Pairs.of(demand)
    if not 0 < len(pairs.unit) <= MOST_COLUMNS:
        return None
    program = LinearProgram()
    share = program.columns(len(pairs.unit))
    program.add(program.rows(demand.n_units, lower=1.0, upper=1.0)[pairs.unit], share, 1.0)
    rows = program.rows(len(pairs.links), upper=demand.fabric.link_gbps[pairs.links] / level)
    pairs.add_loads(program, demand, rows, share[pairs.pair], demand.part_load[pairs.part])
    solution = program.solve()
    return _pieces(demand, pairs, solution.x[share]) if solution.optimal and solution.x is not None else None


def _pieces(demand: Demand, pairs: Pairs, share: FloatArray) -> Pieces:
    """Return the pieces for these shares [N] of units on paths."""
    # Each part of a unit takes the unit's shares; shares below the solver's tolerance count as zero.
    kept = np.flatnonzero(share > SOLVED)
    total = np.bincount(pairs.unit[kept], weights=share[kept], minlength=demand.n_units)
    parts = np.diff(demand.part_ptr)[pairs.unit[kept]]
    row = np.repeat(kept, parts)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    part = demand.part_ptr[pairs.unit[row]] + offset
    amount = demand.part_load[part] * share[row] / total[pairs.unit[row]]
    loaded = amount > 0
    return Pieces(part[loaded].astype(np.int64), pairs.path[row][loaded], amount[loaded])
