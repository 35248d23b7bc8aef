"""The UDP source port of every flow, and of every piece of a split flow.

Switches distinguish flows (and pieces) by it; hosts learn it from ``/v1/routes``. How it is chosen depends on how the
plan is enforced. Where a flow can keep its port (``kept_ports``), the first piece of a split flow keeps it, and each
further one gets a port that no flow of the same two hosts has.

The numbers and ports that are handed out here are wishes, made from the flow's own port, and granted unless two flows
of the same hosts wish the same; then the flow with the smaller port has it, and the other takes the next one free. So
neither the order of jobs nor flows of other hosts have a say in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.packets.flow_ports import can_be_split
from controller.model.traffic import FIRST_PORT, LAST_PORT, Int64Array, Traffic, unit_key

PORT_BITS = 14
"""The ports of RoCEv2 queue pairs are all those whose first two bits are 1."""

PIECE_STEP = 10125
"""From one piece's port to the next, around the range: 2^14 over the golden ratio, so that pieces seldom meet."""


@dataclass(frozen=True, eq=False)
class FlowEncoding:
    """R rows, those of the assignment in its order.

    Attributes:
        flow: [R] flow index into the Traffic.
        path: [R] path class of the Fabric, or ``LOCAL`` or ``UNROUTABLE``.
        share: [R] part of the flow's bytes that this row carries, in (0, 1].
        udp_src: [R] UDP source port of its packets, or as in ``Traffic``.
    """

    flow: IntArray
    path: IntArray
    share: FloatArray
    udp_src: IntArray


NO_FLOWS = FlowEncoding(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int32))


def kept_ports(
    fabric: Fabric, traffic: Traffic, assignment: Assignment, *, spread: BoolArray | None = None
) -> FlowEncoding:
    """Return the encoding in which every flow keeps its port; further pieces of split flows get free ports.

    Args:
        fabric: the fabric.
        traffic: the flows.
        assignment: their paths.
        spread: [F] flows whose packets hosts spread over all their paths, so that their pieces have one port.

    Raises:
        InputError: two hosts have more flows and pieces than there are ports for them.
        ValueError: a flow is split whose port is unknown.
    """
    port = _kept(fabric, traffic, assignment, spread)
    return FlowEncoding(assignment.flow, assignment.path, assignment.share, port)


def _kept(fabric: Fabric, traffic: Traffic, assignment: Assignment, spread: BoolArray | None) -> IntArray:
    flow = assignment.flow
    port = traffic.udp_src[flow]
    first = np.searchsorted(flow, flow)
    piece = np.arange(len(flow)) - first
    further = np.flatnonzero(piece if spread is None else (piece > 0) & ~spread[flow])
    if not len(further):
        return port
    whole = further[~can_be_split(port[further])]
    if len(whole):
        split = int(flow[whole[0]])
        raise ValueError(f"{traffic.flow_id(split)} is split, and its source port is unknown")
    key = host_key(fabric, traffic)
    pair = key >> 16
    further = further[np.lexsort((piece[further], port[further], pair[flow[further]]))]
    taken = np.unique(key)
    wish = port[further] - FIRST_PORT + piece[further] * PIECE_STEP
    room = LAST_PORT - FIRST_PORT + 1
    port[further] = FIRST_PORT + granted_numbers(fabric, pair[flow[further]], wish, taken, room)
    return port


def host_key(fabric: Fabric, traffic: Traffic) -> Int64Array:
    """Return the key [F] by which packets of flows differ, as ``unit_key``: the ports of a bond are one host."""
    address = fabric.planes.address
    return unit_key(address[traffic.src], address[traffic.dst], traffic.udp_src)


def granted_numbers(fabric: Fabric, pair: Int64Array, wish: Int64Array, taken: Int64Array, room: int) -> Int64Array:
    """Return for each [N] a number from 0 to ``room - 1``, unique within a pair of hosts; earlier rows have priority.

    Args:
        fabric: the fabric of the hosts.
        pair: [N] the two hosts, as in ``unit_key`` without its port, ascending.
        wish: [N] the preferred number of each, modulo ``room``; conflicts are resolved deterministically.
        taken: ``unit_key`` with the port of each number that is not to be had.
        room: the number of different values.
    """
    granted: Int64Array = wish.astype(np.int64) % room
    key = (pair << 16) | (FIRST_PORT + granted)
    _, first = np.unique(key, return_index=True)
    late = np.ones(len(key), dtype=np.bool_)
    late[first] = False
    late |= np.isin(key, taken)
    if not late.any():
        return granted
    crowded = np.unique(pair[late])
    had = set(key[~late & np.isin(pair, crowded)].tolist())
    had.update(taken[np.isin(taken >> 16, crowded)].tolist())
    for row in np.flatnonzero(late).tolist():
        base, number = (int(pair[row]) << 16) | FIRST_PORT, int(granted[row])
        # Numbers are not reused within the call, so the probes of a pair add up to a few per flow.
        for _ in range(room):
            if base + number not in had:
                break
            number = (number + 1) % room
        else:
            src, dst = fabric.host_names[int(pair[row]) >> 24], fabric.host_names[int(pair[row]) & 0xFFFFFF]
            raise InputError(f"more flows, or pieces of split flows, than the {room} source ports from {src} to {dst}")
        had.add(base + number)
        granted[row] = number
    return granted
