"""The QPs of a connection over as many paths as possible, at no cost.

QPs of equal load between the same two leaves, in the same collective, can exchange their paths without any change of a
link's load. So each such class keeps the paths that a plan gave it, and deals them to its connections in turn. Path by
path, copies of a path go to connections one after the other: a connection gets a path twice only where the class has
more copies of it than connections. No other way to deal gives the connections more distinct paths in total.

Distinct paths multiplex (the load of a connection is more even over time), and a failed uplink then takes one of its
QPs and not all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import BoolArray, IntArray
from controller.routing.demand import Demand

IndexArray = NDArray[np.intp] | IntArray


def spread_qps(demand: Demand, path: IntArray) -> IntArray:
    """Return path classes [U] that load every link as ``path`` [U] does, with the QPs of each connection spread."""
    traffic = demand.traffic
    if all(row.qps.count == 1 for row in traffic.collectives) or not demand.n_units:
        return path
    # A unit of several flows has no connection of its own.
    alone = np.flatnonzero(np.diff(demand.part_ptr) == 1)
    flow = demand.part_flow[demand.part_ptr[alone]]
    _, load = np.unique(demand.unit_load[alone], return_inverse=True)
    collective, connection = traffic.collective[flow], traffic.connection[flow]
    columns = (load.reshape(-1), collective, demand.unit_dst[alone], demand.unit_src[alone])
    # Connection by connection, QP by QP within each class; paths in order within it.
    by_place = alone[np.lexsort((traffic.number[flow], *columns))]
    by_path = alone[np.lexsort((path[alone], *columns))]
    new_class = np.ones(len(alone), dtype=np.bool_)
    ranked = np.stack(columns)[:, np.lexsort(columns)]
    new_class[1:] = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
    member_of = np.empty(traffic.n_flows, dtype=np.int32)
    member_of[flow] = connection
    owner = member_of[demand.part_flow[demand.part_ptr[by_place]]]
    return _dealt(path, by_place, by_path, new_class, owner)


def _dealt(
    path: IntArray, by_place: IndexArray, by_path: IndexArray, new_class: BoolArray, owner: IntArray
) -> IntArray:
    """Return ``path`` with the paths of each class dealt to its connections in turn.

    Args:
        path: [U].
        by_place: [N] units in order of classes, of connections within a class, and of QPs within these.
        by_path: [N] the units of each class in order of their paths.
        new_class: [N] whether a class begins here.
        owner: [N] connection of each unit of ``by_place``.
    """
    number = np.cumsum(new_class) - 1
    begins = new_class.copy()
    begins[1:] |= owner[1:] != owner[:-1]
    connection = np.cumsum(begins) - 1
    turn = np.arange(len(owner)) - np.flatnonzero(begins)[connection]
    # First QP of every connection of the class, then the second of every one, and so on.
    order = np.lexsort((connection, turn, number))
    spread = path.copy()
    spread[by_place[order]] = path[by_path]
    return spread
