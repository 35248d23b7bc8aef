"""Levels of an assignment: progressive filling, for every combination of phases or once for an upper bound."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.paths.ways import Ways
from controller.model.traffic import Int64Array
from controller.routing.kernels import units
from controller.routing.kernels.levels import progressive_filling as kernel
from controller.routing.problem.demand import NETWORK, Demand

MAX_COMBINATIONS = 64
"""Most combinations of phases that are examined one by one; above, each job counts with its heaviest."""


@dataclass(frozen=True, eq=False)
class Incidence:
    """The load of each collective on each link at speed 1: one sparse matrix, by collective and by link.

    Attributes:
        coll_ptr [K+1], entry_link [N], entry_gbps [N]: by collective.
        link_ptr [E+1], link_coll [N], link_gbps [N]: by link.
        capacity: [E] Gbit/s.
    """

    coll_ptr: Int64Array
    entry_link: IntArray
    entry_gbps: FloatArray
    link_ptr: Int64Array
    link_coll: IntArray
    link_gbps: FloatArray
    capacity: FloatArray

    @staticmethod
    def of(demand: Demand, assignment: Assignment) -> Incidence:
        """Compute the loads of an assignment on the links of its fabric."""
        fabric = demand.fabric
        n_flows = demand.traffic.n_flows
        if assignment.n_rows == n_flows:
            row_ptr = np.arange(n_flows + 1, dtype=np.int64)
        else:
            row_ptr = np.searchsorted(assignment.flow, np.arange(n_flows + 1))
        return Incidence._build(demand, row_ptr, assignment.path, assignment.share, fabric.ways, fabric.link_gbps)

    @staticmethod
    def relaxed(demand: Demand) -> Incidence:
        """Compute the loads with one uplink and one downlink of the total capacity for each group of ``Fabric.cuts``.

        This is exact for free splitting where all paths of two leaves are alike. Links are the 2H host links, then the
        uplinks of the first tier's groups and their downlinks, then those of the tiers above.
        """
        fabric, n_flows = demand.fabric, demand.traffic.n_flows
        ways, cut_gbps = _fat_ways(fabric)
        path = demand.fixed
        if ways.n_tiers > 1:
            met = units.meet(demand.leaf_src, demand.leaf_dst, ways.group)
            path = np.where(path == NETWORK, met, path).astype(np.int32)
        return Incidence._build(
            demand,
            np.arange(n_flows + 1, dtype=np.int64),
            path,
            np.ones(n_flows),
            ways,
            np.concatenate([fabric.link_gbps[: fabric.first_cable_link], *cut_gbps]),
        )

    @staticmethod
    def _build(
        demand: Demand,
        row_ptr: Int64Array,
        row_path: IntArray,
        row_share: FloatArray,
        ways: Ways,
        capacity: FloatArray,
    ) -> Incidence:
        traffic = demand.traffic
        order, ptr = demand.traffic.by_collective
        coll_ptr, entry_link, entry_gbps = kernel.incidence(
            order,
            ptr,
            row_ptr,
            row_path,
            row_share,
            traffic.src,
            traffic.dst,
            demand.leaf_src,
            demand.leaf_dst,
            demand.gbps,
            demand.fabric.n_hosts,
            ways,
            len(capacity),
        )
        link_ptr, link_coll, link_gbps = kernel.by_link(coll_ptr, entry_link, entry_gbps, len(capacity))
        return Incidence(coll_ptr, entry_link, entry_gbps, link_ptr, link_coll, link_gbps, capacity)

    def levels(self, demand: Demand, held: FloatArray | None = None) -> tuple[FloatArray, bool]:
        """Return levels [K], NaN where a collective has none, and whether all phases were combined exactly.

        A collective's level is the worst over the combinations of phases that its job and the others can be in. Those
        with a level in ``held`` [K] (-1: none) stay there instead of rising with the others.
        """
        held = np.full(len(demand.traffic.collectives), -1.0) if held is None else held
        traffic, group, group_job = demand.traffic, demand.group, demand.group_job
        level: FloatArray = np.full(len(traffic.collectives), np.inf)
        jobs = [np.flatnonzero(group_job == job) for job in range(1, int(group_job.max()) + 1)]
        exact = math.prod(len(groups) for groups in jobs) <= MAX_COMBINATIONS
        if exact:
            for chosen in itertools.product(*jobs):
                active = np.isin(group, np.array([0, *chosen])) if chosen else np.ones(len(group), dtype=np.bool_)
                filled = self._fill(traffic.weight, held, active, group * 0, group_job[:1])
                level = np.where(filled >= 0, np.minimum(level, filled), level)
        else:
            filled = self._fill(traffic.weight, held, np.ones(len(group), dtype=np.bool_), group, group_job)
            level = np.where(filled >= 0, filled, level)
        level[np.isinf(level)] = np.nan
        return level, exact

    def levels_among(self, demand: Demand, active: BoolArray, weight: FloatArray | None = None) -> FloatArray:
        """Return levels [K] if only the ``active`` [K] collectives send, all of them at once; -1: it does not send.

        Args:
            demand: of this assignment.
            active: [K] collectives that send.
            weight: [K] of the collectives; those of the jobs by default.
        """
        none = np.full(len(active), -1.0)
        weight = demand.traffic.weight if weight is None else weight
        return self._fill(weight, none, active, demand.group * 0, demand.group_job[:1])

    def _fill(
        self, weight: FloatArray, held: FloatArray, active: BoolArray, group: IntArray, group_job: IntArray
    ) -> FloatArray:
        level: FloatArray = kernel.fill(
            self.coll_ptr,
            self.entry_link,
            self.link_ptr,
            self.link_coll,
            self.link_gbps,
            self.capacity,
            weight,
            held,
            active,
            group,
            group_job,
        )
        return level

    def loads(self, demand: Demand, speed: FloatArray) -> FloatArray:
        """Return the Gbit/s [E] on each link at these speeds; of the phases of a job the heaviest counts."""
        total: FloatArray = kernel.loads(
            self.link_ptr, self.link_coll, self.link_gbps, np.nan_to_num(speed), demand.group, demand.group_job
        )
        return total


def _fat_ways(fabric: Fabric) -> tuple[Ways, list[FloatArray]]:
    """Return ways with one choice a tier, whose switches are the groups of ``Fabric.cuts``, and the links' capacities.

    Path m is the one between leaves that meet above tier m.
    """
    first, up, down, gbps = fabric.first_cable_link, [], [], []
    sizes = [len(tier.up.gbps) for tier in fabric.cuts]
    for tier, n_groups in zip(fabric.cuts, sizes, strict=True):
        up.append(np.arange(first, first + n_groups))
        down.append(np.arange(first + n_groups, first + 2 * n_groups))
        gbps += [tier.up.gbps, tier.down.gbps]
        first += 2 * n_groups
    above = []
    for lower, higher, n_groups in zip(fabric.cuts, fabric.cuts[1:], sizes, strict=False):
        parent = np.full(n_groups, -1, dtype=np.int32)
        parent[lower.group] = higher.group
        above.append(parent)
    ways = Ways(
        first=np.arange(len(sizes) + 1, dtype=np.int64),
        width=np.ones(len(sizes), dtype=np.int64),
        table=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        up=np.concatenate(up).astype(np.int32),
        down=np.concatenate(down).astype(np.int32),
        above=np.concatenate(above) if above else np.zeros(0, dtype=np.int32),
        group=fabric.live_ways.group,
    )
    return ways, gbps
