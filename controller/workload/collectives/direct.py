"""Direct algorithms: each rank sends its data directly to the receivers."""

from __future__ import annotations

from fractions import Fraction

from controller.workload.collectives.flows import Flows, alike, every_pair


def all_reduce(n: int, size: Fraction) -> Flows:
    """Reduce one n-th of the buffer on each rank: it receives that part from every other rank and sends the sum back.

    This is a direct reduce-scatter, then a direct all-gather: 2 S / n from each rank to each other.
    """
    return every_pair(n, 2 * size / n)


def reduce_scatter(n: int, size: Fraction) -> Flows:
    """Send each rank its n-th of the buffer from every other rank: S / n from each to each.

    R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
    2005, section 4.4 (pairwise exchange).
    """
    return every_pair(n, size / n)


def all_gather(n: int, size: Fraction) -> Flows:
    """Send each rank's n-th to every other rank: S / n from each to each, the reduce-scatter reversed."""
    return every_pair(n, size / n)


def all_to_all(n: int, size: Fraction) -> Flows:
    """Cut each rank's S bytes in n parts, of which it keeps one: S / n from each rank to each other.

    nccl-tests, doc/PERFORMANCE.md (alltoall: (n - 1) / n of S leaves each rank); Thakur et al. 2005, section 4.3.
    """
    return every_pair(n, size / n)


def send_recv(n: int, size: Fraction) -> Flows:
    """Send S bytes from the first rank to the second (pipeline stages)."""
    first = list(range(min(1, n - 1)))
    return alike(first, [rank + 1 for rank in first], size)
