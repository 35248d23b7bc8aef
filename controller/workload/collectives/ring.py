"""Rings: each rank sends to the next in the collective's list and receives from the one before, step by step."""

from __future__ import annotations

from fractions import Fraction

from controller.workload.collectives.flows import Flows, around


def all_reduce(n: int, size: Fraction) -> Flows:
    """Return a reduce-scatter and an all-gather around the ring: 2 (n - 1) steps of S / n bytes over each ring edge.

    P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009,
    section 3; the factor 2 (n - 1) / n is also the bus bandwidth of all_reduce in nccl-tests, doc/PERFORMANCE.md.
    """
    return around(n, 2 * (n - 1) * size / n)


def all_gather(n: int, size: Fraction) -> Flows:
    """Return n - 1 steps of S / n bytes over each ring edge.

    R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
    2005, section 4.1 (ring); nccl-tests, doc/PERFORMANCE.md: (n - 1) / n.
    """
    return around(n, (n - 1) * size / n)


def reduce_scatter(n: int, size: Fraction) -> Flows:
    """Return n - 1 steps of S / n bytes over each ring edge.

    Patarasuk and Yuan 2009, section 3; nccl-tests, doc/PERFORMANCE.md: (n - 1) / n.
    """
    return around(n, (n - 1) * size / n)
