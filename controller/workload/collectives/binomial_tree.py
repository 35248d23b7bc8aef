"""Binomial trees: in each step of a broadcast, all ranks that have the data send it to one more each.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
2005, sections 4.2 and 4.5: ceil(log2 n) steps, the whole buffer in each.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from controller.model.fabric import IntArray
from controller.workload.collectives.flows import Flows, alike


def broadcast(n: int, size: Fraction) -> Flows:
    """Return S bytes from each parent to each of its children; the first rank is the root."""
    child = np.arange(1, n, dtype=np.int32)
    return alike(_parent(child), child, size)


def reduce(n: int, size: Fraction) -> Flows:
    """Return S bytes from each rank to its parent, the broadcast reversed; the first rank is the root."""
    child = np.arange(1, n, dtype=np.int32)
    return alike(child, _parent(child), size)


def _parent(child: IntArray) -> IntArray:
    """Clear the lowest bit of a rank's number: it receives in that bit's step; the highest bit's step is the first."""
    return child & (child - 1)
