"""Assignments that avoid barred paths: what a policy has placed there goes to the other paths of its hosts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paths.barred_paths import BarredPaths
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array, Traffic
from controller.routing.problem.demand import Demand

STATUS = "around barred paths"
"""The status of such a plan: what a policy has proved of its own result does not hold for it."""

MOST_MOVES = 1000
"""Of flows that are moved off the fullest link, after all are placed."""


def around(
    fabric: Fabric, traffic: Traffic, assignment: Assignment, barred: BarredPaths, demand: Demand
) -> Assignment | None:
    """Return an assignment without barred paths, wherever hosts have others; ``None``: this one has none.

    The largest flows come first; each gets the path whose fullest link is the emptiest. Then flows leave the fullest
    link while that makes it emptier.
    """
    rows = barred.rows(fabric, traffic, assignment)
    return _Placement(fabric, traffic, assignment, barred, demand).placed(rows) if rows else None


class _Choices(NamedTuple):
    """The live paths [N] of a pair of hosts that are not barred, ascending, and their links between leaves [N, L]."""

    path: Int64Array
    links: IntArray


class _Placement:
    """Loads of links, and the paths of rows."""

    def __init__(
        self, fabric: Fabric, traffic: Traffic, assignment: Assignment, barred: BarredPaths, demand: Demand
    ) -> None:
        self._fabric, self._barred, self._assignment = fabric, barred, assignment
        flow = assignment.flow
        self._src, self._dst = traffic.src[flow].tolist(), traffic.dst[flow].tolist()
        self._path: list[int] = assignment.path.tolist()
        self._gbps: list[float] = (demand.gbps[flow] * assignment.share).tolist()
        self._choices: dict[tuple[int, int], _Choices] = {}
        self._used: FloatArray = np.zeros(fabric.n_links)
        self._on: dict[int, dict[int, None]] = {}
        for row, path in enumerate(self._path):
            if path >= 0:
                self._add(row, path)

    def placed(self, rows: list[int]) -> Assignment:
        for row in rows:
            self._remove(row)
        for row in sorted(rows, key=lambda row: -self._gbps[row]):
            self._add(row, self._best(row)[1])
        for _ in range(MOST_MOVES):
            if not self._improve():
                break
        return _merged(self._assignment, self._path)

    def _improve(self) -> bool:
        """Move a flow off the fullest link, if that makes it emptier."""
        fullest = max(self._on, key=lambda link: self._used[link], default=None)
        if fullest is None:
            return False
        before = self._used[fullest]
        for row in [*self._on[fullest]]:
            path = self._path[row]
            if not len(self._allowed(row).path):
                continue
            self._remove(row)
            after, best = self._best(row)
            if best != path and after < before * (1 - ROUNDING) and self._used[fullest] < before * (1 - ROUNDING):
                self._add(row, best)
                return True
            self._add(row, path)
        return False

    def _best(self, row: int) -> tuple[float, int]:
        """Return the path of a row whose fullest link is the emptiest with it, and how full that is."""
        choices = self._allowed(row)
        used = self._used[choices.links] + self._gbps[row] / self._fabric.link_gbps[choices.links]
        most = used.max(axis=1)
        best = int(np.lexsort((choices.path, used.sum(axis=1), most))[0])
        return float(most[best]), int(choices.path[best])

    def _allowed(self, row: int) -> _Choices:
        ends = self._src[row], self._dst[row]
        if ends not in self._choices:
            path = np.array(self._barred.allowed(self._fabric, *ends), dtype=np.int64)
            src, dst = (np.full(len(path), self._fabric.host_leaf[end]) for end in ends)
            links = self._fabric.ways.links(src, dst, path)
            # Two leaves meet above one tier, so all of their paths have equally many links.
            self._choices[ends] = _Choices(path, links[:, (links >= 0).any(axis=0)])
        return self._choices[ends]

    def _links(self, row: int, path: int) -> list[int]:
        return [*self._fabric.flow_links(self._src[row], self._dst[row], path)[1:-1]]

    def _add(self, row: int, path: int) -> None:
        self._path[row] = path
        self._change(row, 1.0)

    def _remove(self, row: int) -> None:
        self._change(row, -1.0)

    def _change(self, row: int, sign: float) -> None:
        links = self._links(row, self._path[row])
        self._used[links] += sign * self._gbps[row] / self._fabric.link_gbps[links]
        for link in links:
            members = self._on.setdefault(link, {})
            if sign > 0:
                members[row] = None
            else:
                members.pop(row, None)


def _merged(before: Assignment, path: list[int]) -> Assignment:
    """Return an assignment with other paths, in which pieces of a flow that have come to one path are one."""
    shares: dict[tuple[int, int], float] = {}
    for flow, to, share in zip(before.flow.tolist(), path, before.share.tolist(), strict=True):
        shares[flow, to] = shares.get((flow, to), 0.0) + share
    flows, paths = zip(*shares, strict=True)
    return Assignment(np.array(flows, np.int32), np.array(paths, np.int32), np.array([*shares.values()]))
