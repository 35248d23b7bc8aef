"""The UDP source port of every flow, and of every piece of a split flow.

Switches distinguish flows (and pieces) by it; hosts learn it from ``/v1/routes``. How it is chosen depends on how the
plan is enforced:

* *per_flow*, *segment_routing*: a flow keeps its port. Of a split flow the first piece keeps it, and each further one
  gets a port that no flow of the same two hosts has.
* *source_port*: the port selects the path. Its low bits are the choices of the path, those of leaves first, the bits
  above them a number that no other flow of the two hosts has. So pieces of a split flow differ by their path, and a
  port changes only with the path.

The numbers and ports that are handed out here are wishes, made from the flow's own port, and granted unless two flows
of the same hosts wish the same; then the flow with the smaller port has it, and the other takes the next one free. So
neither the order of jobs nor flows of other hosts have a say in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.choices.enforcement import Enforcement
from controller.model.errors import InputError
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.traffic import ANY_PORT, FIRST_PORT, LAST_PORT, Int64Array, Traffic, unit_key

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
        udp_src: [R] UDP source port of its packets, or ``ANY_PORT``.
    """

    flow: IntArray
    path: IntArray
    share: FloatArray
    udp_src: IntArray


def encode_flows(fabric: Fabric, traffic: Traffic, assignment: Assignment, enforcement: Enforcement) -> FlowEncoding:
    """Return the source port of every row of an assignment.

    Raises:
        InputError: two hosts have more flows than there are ports for them; or ``source_port`` is asked of a flow
            whose port is unknown or below 49152.
        ValueError: a flow is split whose port is unknown.
    """
    if enforcement == "source_port":
        port = _steering(fabric, traffic, assignment)
    else:
        port = _told_apart(fabric, traffic, assignment)
    return FlowEncoding(assignment.flow, assignment.path, assignment.share, port)


def choice_bits(fabric: Fabric) -> tuple[int, ...]:
    """Return how many bits of the port select each choice of a path in ``source_port``, from that of leaves up."""
    return tuple(max(int(width) - 1, 0).bit_length() for width in fabric.ways.width)


def class_bits(fabric: Fabric) -> int:
    """Return how many low bits of the port select the path in ``source_port``."""
    return sum(choice_bits(fabric))


def path_bits(fabric: Fabric, path: IntArray) -> IntArray:
    """Return the low bits [N] of the port for paths [N]: the choices side by side, 0 above those that a path has."""
    ways, bits = fabric.ways, choice_bits(fabric)
    found = np.zeros(len(path), dtype=np.int32)
    for top in range(ways.n_tiers):
        rows = (path >= ways.first[top]) & (path < ways.first[top + 1])
        rest = path[rows] - ways.first[top]
        for tier in range(top, -1, -1):
            rest, choice = np.divmod(rest, ways.width[tier])
            found[rows] |= (choice << sum(bits[tier + 1 :])).astype(np.int32)
    return found


def _steering(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> IntArray:
    outside = np.flatnonzero(traffic.udp_src < FIRST_PORT)
    if len(outside):
        flow, given = int(outside[0]), int(traffic.udp_src[outside[0]])
        what = "its source port is unknown" if given == ANY_PORT else f"its source port {given} is below {FIRST_PORT}"
        raise InputError(f"{what}, so source_port enforcement does not support it", field=traffic.flow_id(flow))
    bits = class_bits(fabric)
    key = _key(fabric, traffic)
    units, unit = np.unique(key, return_inverse=True)
    room = 1 << max(PORT_BITS - bits, 0)
    number = _granted(fabric, units >> 16, (units & 0xFFFF) - FIRST_PORT, np.zeros(0, np.int64), room)
    row = number[unit.reshape(-1)[assignment.flow]]
    port: IntArray = (FIRST_PORT + ((row << bits) | path_bits(fabric, assignment.path))).astype(np.int32)
    return port


def _told_apart(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> IntArray:
    flow = assignment.flow
    port = traffic.udp_src[flow]
    first = np.searchsorted(flow, flow)
    piece = np.arange(len(flow)) - first
    further = np.flatnonzero(piece)
    if not len(further):
        return port
    if (port[further] == ANY_PORT).any():
        split = int(flow[further[port[further] == ANY_PORT][0]])
        raise ValueError(f"{traffic.flow_id(split)} is split, and its source port is unknown")
    key = _key(fabric, traffic)
    pair = key >> 16
    further = further[np.lexsort((piece[further], port[further], pair[flow[further]]))]
    taken = np.unique(key)
    wish = port[further] - FIRST_PORT + piece[further] * PIECE_STEP
    room = LAST_PORT - FIRST_PORT + 1
    port[further] = FIRST_PORT + _granted(fabric, pair[flow[further]], wish, taken, room)
    return port


def _key(fabric: Fabric, traffic: Traffic) -> Int64Array:
    """Return the key [F] by which packets of flows differ: the ports of a bond are one host."""
    address = fabric.planes.address
    return unit_key(address[traffic.src], address[traffic.dst], traffic.udp_src)


def _granted(fabric: Fabric, pair: Int64Array, wish: Int64Array, taken: Int64Array, room: int) -> Int64Array:
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
