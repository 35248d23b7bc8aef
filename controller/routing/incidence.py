"""Levels of an assignment: progressive filling, for every combination of phases or once for an upper bound."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.traffic import Int64Array
from controller.model.ways import Ways, one_tier
from controller.routing.demand import Demand
from controller.routing.kernels import progressive_filling as kernel

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
        """Compute the loads with one uplink and one downlink of the total capacity for each leaf.

        This is exact for free splitting where all spines are alike. Links are the 2H host links, then L uplinks, then L
        downlinks.
        """
        fabric, n_flows = demand.fabric, demand.traffic.n_flows
        first, n_leaves = fabric.first_cable_link, fabric.n_leaves
        live = np.where(fabric.link_up, fabric.link_gbps, 0.0)
        up = np.bincount(fabric.cable_lower, weights=live[first::2], minlength=n_leaves)
        down = np.bincount(fabric.cable_lower, weights=live[first + 1 :: 2], minlength=n_leaves)
        leaf = np.arange(n_leaves, dtype=np.int32).reshape(-1, 1)
        return Incidence._build(
            demand,
            np.arange(n_flows + 1, dtype=np.int64),
            demand.fixed,
            np.ones(n_flows),
            one_tier(first + leaf, first + n_leaves + leaf),
            np.concatenate([fabric.link_gbps[:first], up, down]),
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
            order, ptr, row_ptr, row_path, row_share, traffic.src, traffic.dst, demand.leaf_src, demand.leaf_dst,
            demand.gbps, demand.fabric.n_hosts, ways, len(capacity),
        )  # fmt: skip
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
                found = self._fill(traffic.weight, held, active, group * 0, group_job[:1])
                level = np.where(found >= 0, np.minimum(level, found), level)
        else:
            found = self._fill(traffic.weight, held, np.ones(len(group), dtype=np.bool_), group, group_job)
            level = np.where(found >= 0, found, level)
        level[np.isinf(level)] = np.nan
        return level, exact

    def _fill(
        self, weight: FloatArray, held: FloatArray, active: BoolArray, group: IntArray, group_job: IntArray
    ) -> FloatArray:
        level: FloatArray = kernel.fill(
            self.coll_ptr, self.entry_link, self.link_ptr, self.link_coll, self.link_gbps, self.capacity, weight,
            held, active, group, group_job,
        )  # fmt: skip
        return level

    def loads(self, demand: Demand, speed: FloatArray) -> FloatArray:
        """Return the Gbit/s [E] on each link at these speeds; of the phases of a job the heaviest counts."""
        total: FloatArray = kernel.loads(
            self.link_ptr, self.link_coll, self.link_gbps, np.nan_to_num(speed), demand.group, demand.group_job
        )
        return total
