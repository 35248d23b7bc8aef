"""What each collective operation sends: one pure function an algorithm, from ranks and bytes to flows.

All answer with arrays (sender, receiver, bytes) of equal length, where sender and receiver are positions 0..n-1 in
the collective's list of ranks. Fractions of a byte are rounded up. A collective of one rank sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from controller.model.fabric import IntArray
from controller.model.job import Algorithm, CollectiveCall, Op
from controller.model.traffic import Int64Array


class Flows(NamedTuple):
    """[F] sender, [F] receiver (positions in the list of ranks), [F] bytes."""

    src: IntArray
    dst: IntArray
    bytes: Int64Array


def ring_all_reduce(n: int, size: int) -> Flows:
    """A reduce-scatter around the ring, then an all-gather: 2 (n - 1) steps of S / n bytes over each ring edge.

    P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009,
    section 3; the factor 2 (n - 1) / n is also the bus bandwidth of all_reduce in nccl-tests, doc/PERFORMANCE.md.
    """
    return _ring(n, _ceil(2 * (n - 1) * size, n))


def direct_all_reduce(n: int, size: int) -> Flows:
    """Each rank reduces one n-th of the buffer: it takes that part from every other rank and sends the sum back.

    The direct (one-hop) reduce-scatter and all-gather, 2 S / n bytes from each rank to each other: R. Thakur,
    R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005,
    section 4.4 (pairwise exchange) for the reduce-scatter.
    """
    return _every_pair(n, _ceil(2 * size, n))


def ring_all_gather(n: int, size: int) -> Flows:
    """n - 1 steps of S / n bytes over each ring edge.

    Thakur et al. 2005, section 4.1 (ring); nccl-tests, doc/PERFORMANCE.md: (n - 1) / n.
    """
    return _ring(n, _ceil((n - 1) * size, n))


def ring_reduce_scatter(n: int, size: int) -> Flows:
    """n - 1 steps of S / n bytes over each ring edge.

    Patarasuk and Yuan 2009, section 3; nccl-tests, doc/PERFORMANCE.md: (n - 1) / n.
    """
    return _ring(n, _ceil((n - 1) * size, n))


def all_to_all(n: int, size: int) -> Flows:
    """Each rank cuts its S bytes in n parts and keeps one: S / n from each rank to each other.

    nccl-tests, doc/PERFORMANCE.md (alltoall: (n - 1) / n of S leaves each rank); Thakur et al. 2005, section 4.3.
    """
    return _every_pair(n, _ceil(size, n))


def send_recv(n: int, size: int) -> Flows:
    """The first rank sends S bytes to the second (pipeline stages)."""
    first = np.zeros(min(1, n - 1), dtype=np.int32)
    return Flows(first, first + 1, np.full(len(first), size, dtype=np.int64))


ALGORITHMS: dict[Op, tuple[Algorithm, ...]] = {
    "all_reduce": ("ring", "direct"),
    "all_gather": ("ring",),
    "reduce_scatter": ("ring",),
    "all_to_all": ("direct",),
    "send_recv": ("direct",),
}
"""Of each operation; the first is the usual one."""

_FLOWS: dict[tuple[str, str], Callable[[int, int], Flows]] = {
    ("all_reduce", "ring"): ring_all_reduce,
    ("all_reduce", "direct"): direct_all_reduce,
    ("all_gather", "ring"): ring_all_gather,
    ("reduce_scatter", "ring"): ring_reduce_scatter,
    ("all_to_all", "direct"): all_to_all,
    ("send_recv", "direct"): send_recv,
}


def algorithm_of(call: CollectiveCall) -> Algorithm:
    """The one that it says, or the operation's usual one."""
    return call.algorithm or ALGORITHMS[call.op][0]


def flows_of(call: CollectiveCall) -> Flows:
    """The flows of one collective; ``src`` and ``dst`` are positions in ``call.ranks``."""
    return _FLOWS[call.op, algorithm_of(call)](len(call.ranks), call.bytes)


def count_of(call: CollectiveCall) -> int:
    """How many flows ``flows_of`` would make, before there is memory for them."""
    n = len(call.ranks)
    if call.op == "send_recv":
        return 1
    everyone = call.op == "all_to_all" or algorithm_of(call) == "direct"
    return n * (n - 1) if everyone else (n if n > 1 else 0)


def _ring(n: int, size: int) -> Flows:
    if n < 2:
        return _every_pair(n, size)
    src = np.arange(n, dtype=np.int32)
    return Flows(src, (src + 1) % np.int32(n), np.full(n, size, dtype=np.int64))


def _every_pair(n: int, size: int) -> Flows:
    src, dst = np.nonzero(~np.eye(n, dtype=np.bool_))
    return Flows(src.astype(np.int32), dst.astype(np.int32), np.full(len(src), size, dtype=np.int64))


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
