"""A new plan during a simulation: for which flows it is made, and which paths it changes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.traffic import Int64Array, Traffic
from controller.routing import PreviousPlan
from emulation.fluid.movers import Allocation, Transfers
from emulation.fluid.state import NO_LINK, Movers, State

PlannedFlows = Literal["present", "sending"]
"""The flows that a plan is made for: of all present jobs, or those that send or begin to send."""

BUCKETS = 64
"""Size of the hash table of each leaf's connections in the simulator of arXiv 2503.05324 (``in_hash_order``)."""


def sending_since(
    transfers: Transfers, movers: Movers, state: State, allocation: Allocation, n_flows: int
) -> FloatArray:
    """Return when the present transfer of each flow [F] began, in seconds; NaN for a flow that does not send now."""
    moving = np.flatnonzero(state.limit != NO_LINK)
    owner, begun = movers.owner[moving], state.begun[moving]
    if allocation is Allocation.COLLECTIVE:
        begun_of_group = np.full(transfers.n_groups, np.nan)
        begun_of_group[owner] = begun
        owner = np.flatnonzero(~np.isnan(begun_of_group[transfers.group])).astype(np.int32)
        begun = begun_of_group[transfers.group[owner]]
    since = np.full(n_flows, np.nan)
    np.fmax.at(since, transfers.flow[owner], begun)
    return since


def in_hash_order(flows: Int64Array, begun: FloatArray, ended: FloatArray) -> Int64Array:
    """Order the flows as the simulator of arXiv 2503.05324 lists the connections of a leaf.

    It numbers connections (a transfer each) in the order in which they begin, and keeps those of a leaf in a hash
    table, so they are listed by number modulo the size of the table. The order decides which of several equal flows
    share a link. As every transfer has a new number, other flows share one after each plan.

    Args:
        flows: the flows to order.
        begun: seconds at which the transfer of each of them began.
        ended: seconds at which the transfers that have ended began, ascending.
    """
    number = np.empty(len(flows), dtype=np.int64)
    number[np.lexsort((flows, begun))] = np.arange(len(flows))
    number += np.searchsorted(ended, begun)
    return flows[np.lexsort((number, number % BUCKETS))]


def part_of(traffic: Traffic, flows: Int64Array) -> Traffic:
    """Return some of the flows with all collectives; collectives without flows have no effect."""
    return Traffic(
        traffic.src[flows],
        traffic.dst[flows],
        traffic.bytes[flows],
        traffic.collective[flows],
        traffic.number[flows],
        traffic.udp_src[flows],
        traffic.collectives,
    )


def unrouted(n_flows: int) -> Assignment:
    """Return the assignment before the first plan: no flow has a path."""
    return Assignment.single(np.full(n_flows, UNROUTABLE, dtype=np.int32))


def merged(base: Assignment, made: Assignment, flows: Int64Array) -> Assignment:
    """Return ``base`` with the paths of ``flows`` replaced by those of ``made``, whose flow i is ``flows[i]``."""
    kept = ~np.isin(base.flow, flows)
    flow = np.concatenate([flows[made.flow], base.flow[kept]])
    order = np.argsort(flow, kind="stable")
    path = np.concatenate([made.path, base.path[kept]])
    share = np.concatenate([made.share, base.share[kept]])
    return Assignment(flow[order].astype(np.int32), path[order], share[order])


def without_path(previous: PreviousPlan | None, fabric: Fabric, traffic: Traffic, flows: Int64Array) -> Int64Array:
    """Return those of some flows that had no path before, or one that has failed (of a split flow, the largest piece).

    Args:
        previous: the plan before; ``None``: there was none.
        fabric: its present state.
        traffic: of all jobs.
        flows: numbers of flows in it.
    """
    if previous is None:
        return flows
    some = part_of(traffic, flows)
    old: IntArray = previous.on(fabric).single_paths(some)
    a, b = fabric.host_leaf[some.src], fabric.host_leaf[some.dst]
    # Flows inside a leaf need no path.
    cut_off: Int64Array = flows[(a != b) & ~fabric.live_ways.joined(a, b, old)]
    return cut_off


def is_same(one: Assignment, other: Assignment) -> bool:
    """Return whether both have the same rows."""
    return one.n_rows == other.n_rows and bool(
        (one.flow == other.flow).all() and (one.path == other.path).all() and (one.share == other.share).all()
    )


def moved_flows(previous: PreviousPlan | None, fabric: Fabric, traffic: Traffic, made: Assignment) -> BoolArray:
    """[F] flows that had a live path and have another now (of a split flow, the largest piece counts)."""
    if previous is None:
        return np.zeros(traffic.n_flows, dtype=np.bool_)
    old: IntArray = previous.on(fabric).single_paths(traffic)
    new = PreviousPlan.of(fabric, traffic, made).single_paths(traffic)
    a, b = fabric.host_leaf[traffic.src], fabric.host_leaf[traffic.dst]
    moved: BoolArray = fabric.live_ways.joined(a, b, old) & (new != old)
    return moved
