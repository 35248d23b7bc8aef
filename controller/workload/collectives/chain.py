"""Chains: the data goes from rank to rank in small pieces, along the ring without its last edge.

NCCL does broadcast and reduce this way (its only algorithm for both is ring; src/device/broadcast.h and reduce.h):
nccl-tests, doc/PERFORMANCE.md: the bus bandwidth of both is S over the time, each edge carries S.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from controller.workload.collectives.flows import Flows, alike


def broadcast(n: int, size: Fraction) -> Flows:
    """Return S bytes from each rank to the next, and none from the last; the first rank is the root."""
    src = np.arange(n - 1, dtype=np.int32)
    return alike(src, src + 1, size)


def reduce(n: int, size: Fraction) -> Flows:
    """Return S bytes over each edge from the second rank around the ring to the first, which is the root."""
    src = np.arange(1, n, dtype=np.int32)
    return alike(src, (src + 1) % np.int32(n), size)
