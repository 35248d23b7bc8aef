"""Paths between hosts that plans avoid, although their cables are up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic


@dataclass(frozen=True)
class BarredPaths:
    """Numbers of the paths that plans avoid, by the numbers of the sending and of the receiving host."""

    of_pair: Mapping[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    def allowed(self, fabric: Fabric, src: int, dst: int) -> list[int]:
        """Return the live paths between two hosts below different leaves that are not barred, ascending."""
        barred = self.of_pair.get((src, dst), frozenset())
        live = fabric.live_paths(int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])).tolist()
        return [path for path in live if path not in barred]

    def rows(self, fabric: Fabric, traffic: Traffic, assignment: Assignment) -> list[int]:
        """Return the rows of an assignment on barred paths whose hosts have another live path."""
        if not self.of_pair:
            return []
        rows = np.flatnonzero(assignment.path >= 0)
        flow = assignment.flow[rows]
        columns = rows, traffic.src[flow], traffic.dst[flow], assignment.path[rows]
        return [
            row
            for row, src, dst, path in zip(*(column.tolist() for column in columns), strict=True)
            if path in self.of_pair.get((src, dst), ()) and self.allowed(fabric, src, dst)
        ]


NONE_BARRED = BarredPaths()
"""All paths may be used."""
