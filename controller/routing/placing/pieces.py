"""Pieces: flows cut for several paths, a form from which an Assignment is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.packets.flow_ports import can_be_split
from controller.model.paths.ways import NO_LINK, LinkTable
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.kernels.placing import splitting
from controller.routing.placing import place_units as placing
from controller.routing.placing.raise_level import Movable, Wanted, raise_level
from controller.routing.problem.demand import Demand


@dataclass(frozen=True, eq=False)
class Pieces:
    """R rows (part, path class, load): part p of ``demand.part_flow`` sends that load over that path."""

    part: Int64Array
    path: Int64Array
    load: FloatArray

    @staticmethod
    def joined(blocks: list[Pieces]) -> Pieces:
        """Concatenate the rows of several blocks."""
        none = np.zeros(0, dtype=np.int64)
        rows = [(block.part, block.path, block.load) for block in blocks] or [(none, none, np.zeros(0))]
        part, path, load = (np.concatenate(column) for column in zip(*rows, strict=True))
        return Pieces(part.astype(np.int64), path.astype(np.int64), load)

    def merged(self) -> Pieces:
        """Merge rows of equal part and path, in order of parts and paths."""
        width = int(self.path.max(initial=0)) + 1
        key, inverse = np.unique(self.part * width + self.path, return_inverse=True)
        load = np.bincount(inverse.reshape(-1), weights=self.load, minlength=len(key)).astype(np.float64)
        return Pieces(key // width, key % width, load)

    @property
    def extra(self) -> int:
        """The number of pieces minus the number of flows."""
        return len(self.part) - len(np.unique(self.part))

    def reunited(self, demand: Demand, seconds: float, budget: int) -> Pieces:
        """Merge pieces while links stay busy at most ``seconds``, and beyond that until ``budget`` extra are left."""
        fabric, flow = demand.fabric, demand.part_flow[self.part]
        path = self.path.astype(np.int32)
        limit = fabric.link_gbps * (seconds * (1 + ROUNDING))
        splitting.reunite(
            self.part,
            demand.part_group[self.part],
            demand.leaf_src[flow],
            demand.leaf_dst[flow],
            self.load,
            path,
            fabric.live_ways,
            limit,
            budget,
            demand.group_job,
        )
        return Pieces(self.part, path.astype(np.int64), self.load).merged()

    def searched(self, demand: Demand, level: float, rounds: int, seed: int) -> tuple[Pieces, bool]:
        """Search other paths for the same pieces, and return whether every collective can then have ``level``.

        Pieces are in order of parts. If the search fails, the pieces have its last paths.
        """
        flow = demand.part_flow[self.part]
        unit, bound = _units(demand)
        # Flows that no switch can tell apart move together: their rows are one unit of the search.
        apart = np.ones(len(flow), dtype=np.bool_)
        apart[1:] = ~bound[self.part[1:]] | (unit[self.part[1:]] != unit[self.part[:-1]])
        first = np.flatnonzero(apart)
        path, reached = self._search(demand, first, level, rounds, seed & 0xFFFFFFFF)
        return Pieces(self.part, path[np.cumsum(apart) - 1].astype(np.int64), self.load), reached

    def _search(self, demand: Demand, first: Int64Array, level: float, rounds: int, seed: int) -> tuple[IntArray, bool]:
        """Return other paths [U] for units, the rows from ``first`` [U] on, and whether all then fit."""
        fabric, flow = demand.fabric, demand.part_flow[self.part]
        ends, path = (demand.leaf_src[flow[first]], demand.leaf_dst[flow[first]]), self.path[first].astype(np.int32)
        ptr = np.append(first, len(flow)).astype(np.int32)
        units = Movable(*ends, ptr, demand.part_group[self.part], demand.group_job)
        wanted = Wanted(np.zeros(len(flow)), self.load, level, level, 0.0)
        path, reached, _ = raise_level(fabric, units, wanted, path, rounds, seed)
        return path, reached > 0.0

    def _fill(self, demand: Demand) -> tuple[LinkTable, FloatArray]:
        """Return the links [R, 2T] of each piece, and the fill factor [E] of each link at level 1 (1: full)."""
        fabric, flow = demand.fabric, demand.part_flow[self.part]
        links = fabric.live_ways.links(demand.leaf_src[flow], demand.leaf_dst[flow], self.path)
        load = np.zeros((len(demand.group_job), fabric.n_links))
        row, place = np.nonzero(links != NO_LINK)
        np.add.at(load, (demand.part_group[self.part[row]], links[row, place]), self.load[row])
        heaviest = np.zeros((int(demand.group_job.max()) + 1, fabric.n_links))
        np.maximum.at(heaviest, demand.group_job, load)
        return links, heaviest.sum(axis=0) / fabric.link_gbps

    def lowest_level(self, demand: Demand) -> float:
        """Return the lowest level if only cables limited it."""
        fullest = float(self._fill(demand)[1].max(initial=0.0))
        return 1.0 / fullest if fullest > 0 else np.inf

    def excess(self, demand: Demand, level: float) -> FloatArray:
        """Return the excess load [R] on the fullest link of each piece at this level; at most 0 where it fits."""
        links, full = self._fill(demand)
        over = np.append((full - 1 / level) * demand.fabric.link_gbps, -np.inf)
        fullest: FloatArray = over[links].max(axis=1, initial=-np.inf)
        return fullest

    def cut(self, row: int, load: float) -> Pieces:
        """Cut ``load`` off one piece as a separate piece; both keep its path."""
        left = np.append(self.load, load)
        left[row] -= load
        return Pieces(np.append(self.part, self.part[row]), np.append(self.path, self.path[row]), left)

    def enforceable(self, demand: Demand) -> Pieces:
        """Merge the pieces that no switch could split: flows that share a unit or whose port is unknown.

        A unit takes the path that carried most of its load. Its parts without load get no piece: ``assignment`` gives
        them the path of their unit.
        """
        unit, bound = _units(demand)
        if not bound.any():
            return self
        tied = bound[self.part]
        by_unit = Pieces(unit[self.part[tied]], self.path[tied], self.load[tied]).merged()
        order = np.lexsort((by_unit.load, by_unit.part))
        last = np.searchsorted(by_unit.part[order], np.arange(demand.n_units), side="right") - 1
        members = np.flatnonzero(bound & np.isin(unit, by_unit.part))
        path = by_unit.path[order[last[unit[members]]]]
        load = np.bincount(self.part[tied], weights=self.load[tied], minlength=len(unit))[members].astype(np.float64)
        rest, loaded = ~tied, load > 0
        whole = Pieces(members[loaded], path[loaded], load[loaded])
        return Pieces.joined([Pieces(self.part[rest], self.path[rest], self.load[rest]), whole]).merged()

    def assignment(self, demand: Demand) -> Assignment:
        """Return rows for every flow of the traffic; a part without load takes its least loaded path whole."""
        idle = np.setdiff1d(np.arange(len(demand.part_flow)), self.part)
        whole = np.full(demand.n_units, -1, dtype=np.int32)
        if len(idle):
            unit = np.repeat(np.arange(demand.n_units), np.diff(demand.part_ptr))
            whole[unit[self.part]] = self.path
            placing.repair(demand, whole)
            idle_rows = Pieces(idle.astype(np.int64), whole[unit[idle]].astype(np.int64), np.ones(len(idle)))
            return Pieces.joined([self, idle_rows]).merged()._rows(demand)
        return self._rows(demand)

    def _rows(self, demand: Demand) -> Assignment:
        total = np.bincount(self.part, weights=self.load, minlength=len(demand.part_flow))
        settled = np.flatnonzero(demand.fixed != 0)
        flow = np.concatenate([demand.part_flow[self.part], settled]).astype(np.int32)
        path = np.concatenate([self.path, demand.fixed[settled]]).astype(np.int32)
        share = np.concatenate([self.load / total[self.part], np.ones(len(settled))])
        order = np.argsort(flow, kind="stable")
        return Assignment(flow[order], path[order], np.minimum(share[order], 1.0))


def _units(demand: Demand) -> tuple[Int64Array, BoolArray]:
    """Return the unit of each part [P], and whether it must stay whole.

    It must if it shares the unit, if its port is unknown, or if it is a QP that carries whole messages in turn.
    """
    traffic, parts = demand.traffic, np.diff(demand.part_ptr)
    unit = np.repeat(np.arange(demand.n_units), parts)
    in_turn = np.array([row.qps.in_turn for row in traffic.collectives])
    whole = (parts[unit] > 1) | ~can_be_split(traffic.udp_src[demand.part_flow])
    if in_turn.any():
        whole |= in_turn[traffic.collective[demand.part_flow]]
    return unit, whole
