"""A job as a graph of dependencies: computations of ranks, and messages between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]

NO_PEER = -1
"""The peer of a computation."""


@dataclass(frozen=True, eq=False)
class Dag:
    """T tasks and E edges, without a cycle (``emulation.fluid.dag`` detects cycles).

    Attributes:
        n_ranks: the number of ranks, which are 0 .. n_ranks - 1.
        rank: [T] the rank that computes, or that sends the message.
        peer: [T] the rank that receives the message; ``NO_PEER`` for a computation.
        bytes: [T] of a message; 0 for a computation.
        seconds: [T] of a computation; 0 for a message.
        lane: [T] computations of one rank in one lane (a processor, a GPU's stream) run one after the other.
        before, after: [E] a task, and one that begins when all those before it have ended.
    """

    n_ranks: int
    rank: IntArray
    peer: IntArray
    bytes: Int64Array
    seconds: FloatArray
    lane: IntArray
    before: IntArray
    after: IntArray

    @property
    def n_tasks(self) -> int:
        """The number T of tasks."""
        return len(self.rank)

    @property
    def is_message(self) -> NDArray[np.bool_]:
        """[T] whether each task is a message."""
        has_peer: NDArray[np.bool_] = self.peer != NO_PEER
        return has_peer
