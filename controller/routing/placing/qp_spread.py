"""The QPs of a connection over as many paths as possible, at no cost.

QPs of equal load between the same two leaves, in the same collective, can exchange their paths without any change of a
link's load. So each such class keeps the paths that a plan gave it, and deals them to its connections in turn. Path by
path, copies of a path go to connections one after the other: a connection gets a path twice only where the class has
more copies of it than connections. No other way to deal gives the connections more distinct paths in total.

Distinct paths multiplex (the load of a connection is more even over time), and a failed uplink then takes one of its
QPs and not all. QPs that share a path all the same get neighbouring ports (``kernels.dealing``), so that a switch needs
few rules for them.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import IntArray
from controller.model.tolerances import TOLERANCE
from controller.routing.kernels.placing.dealing import deal
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan


def spread_qps(demand: Demand, path: IntArray, previous: PreviousPlan | None = None) -> IntArray:
    """Return path classes [U] that load every link as ``path`` [U] does, with the QPs of each connection spread.

    QPs that keep their path of the previous plan stay there. The shares of one transfer differ by up to a byte; they
    count as equal loads if they are within ``TOLERANCE``.
    """
    traffic = demand.traffic
    if traffic.qps.max(initial=1) == 1 or not demand.n_units:
        return path
    # A unit of several flows has no connection of its own.
    free = np.diff(demand.part_ptr) == 1
    if previous is not None:
        old = previous.on(demand.fabric).single_paths(traffic)[demand.part_flow[demand.part_ptr[:-1]]]
        free &= path != old
        if not free.any():
            return path
    unit = np.flatnonzero(free).astype(np.int32)
    flow = demand.part_flow[demand.part_ptr[unit]]
    connection = traffic.connection[flow]
    if demand.fabric.planes.count > 1:
        # Only QPs between the same leaves can exchange their paths: those of each two leaves count as a connection.
        connection = connection.astype(np.int64) * demand.fabric.n_leaves + demand.unit_src[unit]
        connection = connection * demand.fabric.n_leaves + demand.unit_dst[unit]
    if (connection[1:] < connection[:-1]).any():
        order = np.argsort(connection, kind="stable")
        unit, flow, connection = unit[order], flow[order], connection[order]
    load = demand.unit_load[unit]
    begins = np.ones(len(unit), dtype=np.bool_)
    begins[1:] = (connection[1:] != connection[:-1]) | (np.abs(load[1:] - load[:-1]) > TOLERANCE * load[:-1])
    if begins.all():
        # No two QPs of a connection can exchange their paths: in planes, mostly each is between other leaves.
        return path
    first = np.flatnonzero(begins)
    ends = (demand.unit_dst[unit[first]], demand.unit_src[unit[first]])
    columns = (load[first], traffic.collective[flow[first]], *ends)
    run = np.lexsort(columns)
    new_class = np.ones(len(run), dtype=np.bool_)
    new_class[1:] = np.logical_or.reduce([column[run][1:] != column[run][:-1] for column in columns])
    port = np.zeros(demand.n_units, dtype=np.int32)
    port[unit] = traffic.udp_src[flow]
    run_ptr = np.append(first, len(unit))
    dealt: IntArray = deal(run, unit, run_ptr, new_class, port, demand.fabric.n_paths, path)
    return dealt
