"""Conversion of transfers and an assignment to movers, which are the units that get a rate, and their loads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.traffic import Int64Array, Traffic
from controller.model.units import GBIT
from controller.routing.problem.demand import Demand
from emulation.fluid.state import NO_LINK, Movers

"""Gbit in a byte."""


class Allocation(StrEnum):
    """How links are shared.

    ``FLOW``: every piece of a flow for itself, as ideal congestion control does. ``PACED``: a flow at a time, its
    pieces in proportion to their shares. ``COLLECTIVE``: a group at a time, its transfers in proportion to their bytes,
    as the objective has it. ``PLANNED``: as ``FLOW``, but hosts keep the paces of the plan. ``HOSTS``: as ``FLOW``, but
    as unevenly as packets of hosts that keep no pace.
    """

    FLOW = "flow"
    PACED = "paced"
    COLLECTIVE = "collective"
    PLANNED = "planned"
    HOSTS = "hosts"

    @property
    def by_flow(self) -> bool:
        """Whether each piece of a flow has a rate for itself."""
        return self not in (Allocation.PACED, Allocation.COLLECTIVE)


@dataclass(frozen=True, eq=False)
class Transfers:
    """T transfers in order of their groups.

    Attributes:
        group: [T].
        flow: [T] of the traffic.
        bytes: [T] of one run of the group, positive.
        n_groups: how many groups there are.
    """

    group: IntArray
    flow: IntArray
    bytes: FloatArray
    n_groups: int


@dataclass(frozen=True, eq=False)
class TransferPieces:
    """Pieces of transfers, in R rows in order of transfers: the share of a transfer on each path.

    Attributes:
        transfer: [R].
        row: [R] of the assignment.
        share: [R].
        link: [R, 2T+2] host, T uplinks, T downlinks, host, for T tiers of cables.
    """

    transfer: Int64Array
    row: Int64Array
    share: FloatArray
    link: IntArray


def pieces_of(fabric: Fabric, traffic: Traffic, assignment: Assignment, transfers: Transfers) -> TransferPieces:
    """Return the pieces of all transfers. Without a live path, a piece is on link E, which has no capacity."""
    first = np.searchsorted(assignment.flow, np.arange(traffic.n_flows + 1))
    count = np.diff(first)[transfers.flow]
    transfer = np.repeat(np.arange(len(transfers.flow)), count)
    offset = np.arange(len(transfer)) - np.repeat(np.cumsum(count) - count, count)
    row = first[transfers.flow[transfer]] + offset
    sends = assignment.share[row] > 0
    transfer, row = transfer[sends], row[sends]
    path, flow = assignment.path[row], transfers.flow[transfer]
    src, dst = traffic.src[flow], traffic.dst[flow]
    link = np.full((len(row), 2 * len(fabric.tiers) + 2), NO_LINK, dtype=np.int32)
    link[:, 0], link[:, -1] = src, fabric.n_hosts + dst
    link[:, 1:-1] = fabric.ways.links(fabric.host_leaf[src], fabric.host_leaf[dst], path)
    stranded = path == UNROUTABLE
    link[stranded, 1], link[stranded, -1] = fabric.n_links, NO_LINK
    return TransferPieces(transfer, row, assignment.share[row].astype(np.float64), link)


def movers_of(transfers: Transfers, pieces: TransferPieces, allocation: Allocation, alone: FloatArray) -> Movers:
    """Return the movers, the units among which links are shared.

    Args:
        transfers: the transfers.
        pieces: the pieces of the transfers.
        allocation: how links are shared.
        alone: [G] seconds of a run of each group alone, over its weight: with ``COLLECTIVE`` the unit of a rate is the
            level, so that groups share as collectives do in the objective.
    """
    gbit = transfers.bytes * GBIT
    piece_gbit = gbit[pieces.transfer] * pieces.share
    n_rows = len(pieces.transfer)
    if allocation.by_flow:
        group, owner = transfers.group[pieces.transfer], pieces.transfer
        amount, load, mover = piece_gbit, np.ones(n_rows), np.arange(n_rows)
    elif allocation is Allocation.PACED:
        group, owner = transfers.group, np.arange(len(transfers.group))
        amount, load, mover = gbit, pieces.share, pieces.transfer
    else:
        group = owner = np.unique(transfers.group)
        mover = np.searchsorted(group, transfers.group[pieces.transfer])
        amount, load = alone[group], piece_gbit / alone[group[mover]]
    return Movers(
        group=group.astype(np.int32),
        owner=owner.astype(np.int32),
        group_ptr=np.searchsorted(group, np.arange(transfers.n_groups + 1)).astype(np.int64),
        amount=np.ascontiguousarray(amount, dtype=np.float64),
        row_ptr=np.searchsorted(mover, np.arange(len(group) + 1)).astype(np.int64),
        link=np.ascontiguousarray(pieces.link),
        load=np.ascontiguousarray(load, dtype=np.float64),
        row_mover=mover.astype(np.int32),
    )


def seconds_alone(fabric: Fabric, traffic: Traffic, transfers: Transfers) -> FloatArray:
    """[G] ideal seconds of a run of each group (docs/explanation/objective.md) over its weight; 1 if it cannot run."""
    owner = np.zeros(transfers.n_groups, dtype=np.int32)
    owner[transfers.group] = traffic.collective[transfers.flow]
    table = tuple(traffic.collectives[k] for k in owner.tolist())
    runs = Traffic(
        traffic.src[transfers.flow],
        traffic.dst[transfers.flow],
        np.ceil(transfers.bytes).astype(np.int64),
        transfers.group,
        np.arange(len(transfers.flow), dtype=np.int32),
        traffic.udp_src[transfers.flow],
        table,
    )
    ideal = Demand.of(fabric, runs).ideal_seconds
    return np.where(ideal > 0, ideal, 1.0) / runs.weight
