"""Recursive halving and doubling: pairs exchange half of their current part, and then in reverse order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from controller.workload.collectives.flows import Flows, alike, joined


def all_reduce(n: int, size: Fraction) -> Flows:
    """Return a reduce-scatter by recursive halving and an all-gather by recursive doubling.

    They run among a power of two p of the ranks.

    In step i = 0, 1 .. of the halving, ranks whose numbers differ in bit i send each other S / 2^(i+1): neighbours
    exchange most. The doubling is the same in reverse; so each of the two sends the other S / 2^i in total.
    Ranks beyond the largest power of two are folded in first: of the first 2 (n - p) ranks, each even one sends its
    whole buffer to the odd one behind it, takes no part, and receives the result at the end.

    R. Rabenseifner's algorithm: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
    Operations in MPICH", IJHPCA 19(1), 2005, section 4.5; MPICH, allreduce_intra_reduce_scatter_allgather, begins with
    ranks that are next to each other.
    """
    power = 1 << (n.bit_length() - 1)
    outside = 2 * np.arange(n - power, dtype=np.int32)
    inside = np.setdiff1d(np.arange(n, dtype=np.int32), outside)
    parts = [alike(outside, outside + 1, size)]
    for i in range(power.bit_length() - 1):
        parts.append(alike(inside, inside[np.arange(power) ^ (1 << i)], size / (1 << i)))
    parts.append(alike(outside + 1, outside, size))
    return joined(*parts)


def rounds(n: int) -> tuple[tuple[int, int], ...]:
    """Return (flows, round) in order of the flows of ``all_reduce``; those of a halving are sent again in doubling."""
    power = 1 << (n.bit_length() - 1)
    outside = n - power
    every = [many for many in (outside, *[power] * (power.bit_length() - 1), outside) if many]
    return tuple((many, number) for number, many in enumerate(every))
