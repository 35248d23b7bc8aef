"""Assignment: which path each flow takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.fabric import FloatArray, IntArray

LOCAL = -1
"""Path of a flow between two hosts of one leaf: only the two host links."""

UNROUTABLE = -2
"""Path of a flow without a live path between its leaves (or whose host link is down)."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """R rows (flow, path, share), ascending by flow; a flow that is split has several rows, shares adding up to 1.

    Attributes:
        flow: [R] flow index into the Traffic.
        path: [R] path class of the Fabric, or ``LOCAL`` or ``UNROUTABLE``.
        share: [R] part of the flow's bytes on this path, in (0, 1].
    """

    flow: IntArray
    path: IntArray
    share: FloatArray

    def __post_init__(self) -> None:
        """Convert the columns to one type and memory layout."""
        # Compiled code is specialised by type and layout: all policies' arrays are converted to one kind.
        for name, dtype in (("flow", np.int32), ("path", np.int32), ("share", np.float64)):
            object.__setattr__(self, name, np.require(getattr(self, name), dtype, ["C", "W"]))

    @staticmethod
    def single(paths: IntArray) -> Assignment:
        """Assign one path to each flow; ``paths`` is [F]."""
        n = len(paths)
        return Assignment(np.arange(n, dtype=np.int32), paths, np.ones(n))

    @property
    def n_rows(self) -> int:
        """The number R of rows."""
        return len(self.flow)

    def is_split(self) -> bool:
        """Return whether some flow has more than one path."""
        return bool(len(self.flow) and np.any(self.flow[1:] == self.flow[:-1]))
