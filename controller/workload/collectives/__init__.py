"""The flows of each collective operation: one pure function an algorithm, from ranks and bytes to flows.

All return arrays (sender, receiver, bytes) of equal length, where sender and receiver are positions 0..n-1 in
the collective's list of ranks. Fractions of a byte are rounded up. A collective of one rank sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from controller.model.fabric import IntArray
from controller.model.job import Algorithm, CollectiveCall, Op
from controller.workload.collectives import binomial_tree, chain, direct, double_tree, halving_doubling, ring
from controller.workload.collectives.flows import Flows

__all__ = [
    "ALGORITHMS",
    "Flows",
    "algorithm_of",
    "count_of",
    "flows_of",
    "is_in_turns",
    "is_pairwise",
    "one_channel",
    "rounds_of",
]

_BY_RANKS: dict[tuple[Op, Algorithm], Callable[[int, Fraction], Flows]] = {
    ("all_reduce", "ring"): ring.all_reduce,
    ("all_reduce", "direct"): direct.all_reduce,
    ("all_reduce", "halving_doubling"): halving_doubling.all_reduce,
    ("all_gather", "ring"): ring.all_gather,
    ("all_gather", "direct"): direct.all_gather,
    ("reduce_scatter", "ring"): ring.reduce_scatter,
    ("reduce_scatter", "direct"): direct.reduce_scatter,
    ("all_to_all", "direct"): direct.all_to_all,
    ("broadcast", "chain"): chain.broadcast,
    ("broadcast", "tree"): binomial_tree.broadcast,
    ("reduce", "chain"): chain.reduce,
    ("reduce", "tree"): binomial_tree.reduce,
    ("send_recv", "direct"): direct.send_recv,
}

_BY_SERVERS: dict[tuple[Op, Algorithm], Callable[[IntArray, Fraction], Flows]] = {
    ("all_reduce", "tree"): double_tree.all_reduce,
}


def _by_operation() -> dict[Op, tuple[Algorithm, ...]]:
    algorithms: dict[Op, tuple[Algorithm, ...]] = {}
    for op, algorithm in (*_BY_RANKS, *_BY_SERVERS):
        algorithms[op] = (*algorithms.get(op, ()), algorithm)
    return algorithms


ALGORITHMS = _by_operation()
"""The algorithms of each operation; the first is the default."""

_PAIRWISE = ("direct", "halving_doubling")
_IN_TURNS = ("tree", "chain", "halving_doubling")


def algorithm_of(call: CollectiveCall) -> Algorithm:
    """Return the algorithm of a call, by default the first of its operation."""
    return call.algorithm or ALGORITHMS[call.op][0]


def is_pairwise(call: CollectiveCall) -> bool:
    """Return whether a rank's data is for the receiver alone, and is not forwarded by other ranks of either server."""
    return algorithm_of(call) in _PAIRWISE


def is_in_turns(call: CollectiveCall) -> bool:
    """Return whether some of its flows wait for others, so that not all are sent from its begin to its end.

    A flow of a ring also waits for the one before, but all of them send in each step.
    """
    return algorithm_of(call) in _IN_TURNS


def rounds_of(call: CollectiveCall) -> tuple[tuple[int, int], ...]:
    """Return (flows, round) in order of the flows of ``one_channel``, if it is known which are sent after others."""
    match call.op, algorithm_of(call):
        case "all_reduce", "halving_doubling":
            return halving_doubling.rounds(len(call.ranks))
        case "all_reduce", "tree":
            return double_tree.rounds(len(call.ranks))
        case _:
            return ()


def flows_of(call: CollectiveCall, server: IntArray | None = None) -> Flows:
    """Return the flows of one collective, channel by channel; ``src`` and ``dst`` are positions in ``call.ranks``.

    Args:
        call: the collective.
        server: [n] server number of each rank, from which trees are formed; ``None``: each rank has its own.
    """
    flows = one_channel(call, server)
    channels = call.channels or 1
    return Flows(np.tile(flows.src, channels), np.tile(flows.dst, channels), np.tile(flows.bytes, channels))


def one_channel(call: CollectiveCall, server: IntArray | None = None) -> Flows:
    """Return the flows of any one of the collective's channels: all have the same part of the bytes.

    Args:
        call: the collective.
        server: as for ``flows_of``.
    """
    key = call.op, algorithm_of(call)
    n, size = len(call.ranks), Fraction(call.bytes, call.channels or 1)
    if key in _BY_RANKS:
        return _of_few(key, n, size) if n <= _FEW else _BY_RANKS[key](n, size)
    return _BY_SERVERS[key](np.arange(n, dtype=np.int32) if server is None else server, size)


_FEW = 16
"""Most ranks of collectives whose flows are kept: thousands of small jobs send the same ones."""


@lru_cache(maxsize=1024)
def _of_few(key: tuple[Op, Algorithm], n: int, size: Fraction) -> Flows:
    flows = _BY_RANKS[key](n, size)
    for column in flows:
        column.setflags(write=False)
    return flows


def count_of(call: CollectiveCall) -> int:
    """Return the number of flows that ``flows_of`` would make, without making them."""
    return _per_channel(call) * (call.channels or 1)


def _per_channel(call: CollectiveCall) -> int:
    n = len(call.ranks)
    if n < 2:
        return 0
    if call.op == "send_recv":
        return 1
    match algorithm_of(call):
        case "ring":
            return n
        case "direct":
            return n * (n - 1)
        case "chain":
            return n - 1
        case "tree":
            # Two trees, each edge up and down; a broadcast or a reduction has one tree and one direction.
            return 4 * (n - 1) if call.op == "all_reduce" else n - 1
        case "halving_doubling":
            power = 1 << (n.bit_length() - 1)
            return 2 * (n - power) + power * (power.bit_length() - 1)
