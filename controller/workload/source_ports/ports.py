"""UDP source ports for flows without one, by which switches distinguish the flows of a host pair.

RoCEv2 recommends varying the source port per queue pair in 49152..65535 (InfiniBand Architecture Specification
1.4, annex A17.9.2.1). The ports here look random to a switch's ECMP hash, depend only on the job and on the
ports taken before it, and are unique per pair of hosts.

The QPs of one connection get consecutive ports from a multiple of a power of two on, as long as there are such: a
switch then needs one rule for neighbours that take the same path (``southbound.enforcement.port_blocks``).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import IntArray
from controller.model.packets.mixing import splitmix64
from controller.model.traffic import FIRST_PORT, LAST_PORT, Int64Array

FIRST, LAST = FIRST_PORT, LAST_PORT
N_PORTS = LAST - FIRST + 1

_PROBES = 8  # rounds of linear probing for all flows at once, before crowded host pairs are looked at one by one


def first_choice(labels: Sequence[str], qps: IntArray, collective: IntArray, number: IntArray) -> IntArray:
    """Return the preferred port [F] of each flow, as an offset from ``FIRST``.

    SplitMix64 of the CRC-32 of ``job/collective`` and the connection's number: the same in every process, unlike
    Python's own hash.

    Args:
        labels: [K] ``job/collective`` of each collective.
        qps: [K] the QPs of a connection of each collective.
        collective: [F] the collective of each flow.
        number: [F] number of each flow in its collective, as many consecutive ones for each connection as it has QPs.
    """
    name = np.array([zlib.crc32(label.encode()) for label in labels], dtype=np.uint64)
    blocks = np.array([block_of(count) for count in qps.tolist()], dtype=np.int32)
    connection, qp = np.divmod(number, qps[collective])
    mixed = splitmix64((name[collective] << np.uint64(32)) + connection.astype(np.uint64))
    block = blocks[collective]
    choice: IntArray = (mixed >> np.uint64(50)).astype(np.int32) // block * block + qp
    return choice


def all_free(pair: Int64Array, choice: IntArray, taken: Int64Array) -> bool:
    """Return whether all flows can have the preferred port; arguments as of ``assign_ports``."""
    key = np.sort(pair | (FIRST + choice % N_PORTS))
    return not ((key[1:] == key[:-1]).any() or _contains(taken, key).any())


def block_of(qps: int) -> int:
    """Return the number of ports of the smallest aligned block in which the QPs of a connection fit."""
    return 1 << (qps - 1).bit_length()


class NoPortLeft(Exception):
    """A pair of hosts has more flows than there are ports; ``flow`` is one of them."""

    def __init__(self, flow: int) -> None:
        """Create the error for one of the flows."""
        super().__init__(flow)
        self.flow = flow


def assign_ports(
    pair: Int64Array, choice: IntArray, taken: Int64Array, connection: IntArray, block: IntArray
) -> IntArray:
    """Assign a port [F] to every flow: the preferred one or, where that is taken, one that is free.

    The flows of a connection get the ports of the next block that is free for all of them. Only where there is none
    nearby, each of them gets the next free port.

    Args:
        pair: [F] ``unit_key`` with port 0.
        choice: [F] from ``first_choice``.
        taken: ``unit_key`` of every port that is in use, ascending.
        connection: [F] number of each flow's connection.
        block: [F] ``block_of`` the connection.

    Raises:
        NoPortLeft: some pair of hosts has more flows than there are ports.
    """
    port = np.zeros(len(pair), dtype=np.int32)
    pending = np.arange(len(pair))
    for probe in range(_PROBES):
        wanted = FIRST + (choice[pending] + probe * block[pending]) % N_PORTS
        key = pair[pending] | wanted
        won = ~_contains(taken, key)
        _, first = np.unique(key, return_index=True)
        if won.all() and len(first) == len(key):
            port[pending] = wanted
            return port
        is_first = np.zeros(len(key), dtype=np.bool_)
        is_first[first] = True
        won &= is_first
        won &= ~np.isin(connection[pending], connection[pending[~won]])
        port[pending[won]] = wanted[won]
        taken = _merged(taken, key[won])
        pending = pending[~won]
        if not len(pending):
            return port
    for one in np.unique(pair[pending]):
        flows = pending[pair[pending] == one]
        start, end = np.searchsorted(taken, [one + FIRST, one + LAST + 1])
        free = np.setdiff1d(np.arange(N_PORTS), (taken[start:end] & 0xFFFF) - FIRST)
        if len(free) < len(flows):
            raise NoPortLeft(int(flows[-1]))
        free = np.roll(free, -int(np.searchsorted(free, choice[flows[0]])))
        port[flows] = FIRST + free[: len(flows)]
    return port


def _contains(ascending: Int64Array, key: Int64Array) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(key), dtype=np.bool_)
    at = np.minimum(np.searchsorted(ascending, key), len(ascending) - 1)
    contained: NDArray[np.bool_] = ascending[at] == key
    return contained


def _merged(ascending: Int64Array, more: Int64Array) -> Int64Array:
    # NumPy's stable sort of 64-bit integers merges runs that are sorted already, in linear time.
    return np.sort(np.concatenate([ascending, np.sort(more)]), kind="stable")
