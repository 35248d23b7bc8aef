"""Demand: the placement problem as arrays, from flows with bytes to placement units with loads.

The load of a flow is the rate on its links when its collective is at level 1 (``weight * bits / A_k``, Gbit/s):
a link whose loads add up to its capacity allows exactly level 1. So the lowest level of a plan is the smallest
ratio of capacity to load, and loads of different jobs are comparable whatever their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.paths.ways import Tier
from controller.model.traffic import Traffic
from controller.routing.kernels import units
from controller.routing.problem.live_planes import on_live_planes
from controller.routing.relaxation.ideal import cut_times, ideal_times

NETWORK = 0
"""In ``Demand.fixed``: this flow crosses spines and needs a path."""


@dataclass(frozen=True, eq=False)
class Demand:
    """The F flows of a traffic on a fabric, and the U placement units among them that need a path.

    Attributes:
        leaf_src, leaf_dst: [F] leaf of each end.
        fixed: [F] ``NETWORK``, or the path that is already determined: ``LOCAL`` or ``UNROUTABLE``.
        ideal_seconds: [K] A_k; NaN for a collective without flows or with an unroutable one (it has no level).
        ideal_within: [K] by what part A_k may be longer (``IdealTimes.within``).
        gbps: [F] rate of each flow when its collective has speed 1; 0 where the collective has no level.
    """

    fabric: Fabric
    traffic: Traffic
    leaf_src: IntArray
    leaf_dst: IntArray
    fixed: IntArray
    ideal_seconds: FloatArray
    ideal_within: FloatArray
    gbps: FloatArray

    @staticmethod
    def of(fabric: Fabric, traffic: Traffic) -> Demand:
        """Classify the flows and compute the ideal times."""
        return Demand.at_cuts(fabric, traffic).proved()

    @staticmethod
    def at_cuts(fabric: Fabric, traffic: Traffic) -> Demand:
        """Return a demand whose ideal times are those of the cuts, which may be too short: see ``proved``."""
        ways, ends = fabric.live_ways, (traffic.src, traffic.dst, fabric.host_leaf, fabric.link_up[: fabric.n_hosts])
        # Both say the same where they can; that for one tier and one network takes a tenth of the time.
        if ways.n_tiers == 1 and fabric.planes.n_networks == 1:
            leaf_src, leaf_dst, fixed = units.classify(*ends, fabric.tiers[0])
        else:
            leaf_src, leaf_dst, fixed = units.classify_on_ways(*ends, ways)
        seconds = cut_times(fabric, traffic, leaf_src, leaf_dst, fixed)
        gbps = units.rates(traffic.bytes, traffic.collective, seconds)
        return Demand(fabric, traffic, leaf_src, leaf_dst, fixed, seconds, np.zeros(len(seconds)), gbps)

    def proved(self) -> Demand:
        """Return a demand ``at_cuts`` with the ideal times that are proved; itself where they are the same.

        A plan that gives every collective speed 1 at the times of the cuts proves them, too; this is then not needed.
        """
        flows = (self.leaf_src, self.leaf_dst, self.fixed)
        ideal = ideal_times(self.fabric, self.traffic, *flows, self.ideal_seconds)
        if ideal.seconds is self.ideal_seconds:
            return self
        if not ideal.within.any() and np.array_equal(ideal.seconds, self.ideal_seconds, equal_nan=True):
            return self
        gbps = units.rates(self.traffic.bytes, self.traffic.collective, ideal.seconds)
        return Demand(self.fabric, self.traffic, *flows, ideal.seconds, ideal.within, gbps)

    def without_failures(self) -> Demand:
        """Return the demand of the same flows on the fabric without its failures; itself if there are none."""
        return on_healthy(self.fabric, self.traffic, known=self)

    @property
    def tier(self) -> Tier:
        """The live links of the choice that each unit makes; of the first one where paths may have several."""
        return self.fabric.tiers[0]

    @property
    def one_choice(self) -> bool:
        """Whether a path is one choice; else units also make choices in the tiers above (``by_tier``)."""
        return len(self.fabric.tiers) == 1

    @cached_property
    def meet(self) -> IntArray:
        """[U] the lowest tier of cables above which the two leaves of each unit meet."""
        tiers: IntArray = units.meet(self.unit_src, self.unit_dst, self.fabric.live_ways.group)
        return tiers

    @cached_property
    def load(self) -> FloatArray:
        """[F] Gbit/s at level 1."""
        weight = self.traffic.weight
        if len(weight) == 0 or (weight == 1.0).all():
            return self.gbps
        return self.gbps * weight[self.traffic.collective]

    @cached_property
    def in_game(self) -> BoolArray:
        """[K] whether each collective has a level to optimise."""
        return ~np.isnan(self.ideal_seconds)

    # -- phases ------------------------------------------------------------------------------------------------

    @cached_property
    def group(self) -> IntArray:
        """[K] phase groups, within which loads add up: 0 for jobs with one phase, else one number per job and phase.

        What a later phase waits for may be sent in several: it has 0, so that it counts beside each phase of its job.
        """
        phase = self.traffic.phase
        group = np.zeros(len(phase), dtype=np.int32)
        if not len(phase) or (phase == phase[0]).all():
            return group
        job = self.traffic.job_index
        spans = np.fromiter((row.waits.until is not None for row in self.traffic.collectives), np.bool_, len(phase))
        if spans.any():
            # Numbers of jobs that do not exist, with one phase each.
            job = np.where(spans, job + int(job.max()) + 1, job)
            phase = np.where(spans, 0, phase)
        pairs, inverse = np.unique(np.stack([job, phase], axis=1), axis=0, return_inverse=True)
        several = np.bincount(pairs[:, 0], minlength=int(job.max()) + 1)[pairs[:, 0]] > 1
        number = np.where(several, np.cumsum(several), 0)
        group[:] = number[inverse.reshape(-1)]
        return group

    @cached_property
    def group_job(self) -> IntArray:
        """[G] the job of each group, renumbered from 1 (0: all jobs with one phase); groups of a job are adjacent."""
        group = self.group
        if not group.any():
            return np.zeros(1, dtype=np.int32)
        job = np.zeros(int(group.max(initial=0)) + 1, dtype=np.int32)
        job[group[group > 0]] = self.traffic.job_index[group > 0]
        _, dense = np.unique(job[1:], return_inverse=True)
        job[1:] = dense.reshape(-1) + 1
        return job

    # -- placement units -----------------------------------------------------------------------------------------

    @cached_property
    def _one_each(self) -> bool:
        """Whether each flow is a unit of its own, as switches can tell all flows apart."""
        traffic = self.traffic
        return bool(units.all_distinct(traffic.src, traffic.dst, traffic.udp_src, self.fabric.n_hosts))

    @cached_property
    def unit_of_flow(self) -> IntArray:
        """[F] unit of each flow, numbered by first appearance among the flows that need a path; -1 for the rest."""
        needs = np.flatnonzero(self.fixed == NETWORK)
        unit = np.full(self.traffic.n_flows, -1, dtype=np.int32)
        if self._one_each:
            unit[needs] = np.arange(len(needs), dtype=np.int32)
            return unit
        _, first, inverse = np.unique(self.traffic.unit[needs], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
        unit[needs] = rank[inverse.reshape(-1)]
        return unit

    @cached_property
    def part_flow(self) -> IntArray:
        """[P] the flows that need a path, in order of their units."""
        needs = np.flatnonzero(self.fixed == NETWORK).astype(np.int32)
        if self._one_each:
            return needs
        unit = self.unit_of_flow[needs]
        if len(unit) and (unit[1:] < unit[:-1]).any():
            needs = needs[np.argsort(unit, kind="stable")]
        return needs

    @cached_property
    def part_ptr(self) -> IntArray:
        """[U+1] where each unit's flows begin in ``part_flow``."""
        if self._one_each:
            return np.arange(len(self.part_flow) + 1, dtype=np.int32)
        count = np.bincount(self.unit_of_flow[self.part_flow]) if len(self.part_flow) else np.zeros(0, np.int64)
        ptr = np.zeros(len(count) + 1, dtype=np.int32)
        np.cumsum(count, out=ptr[1:])
        return ptr

    @cached_property
    def part_group(self) -> IntArray:
        """[P] phase group of each part."""
        if len(self.group_job) == 1:
            return np.zeros(len(self.part_flow), dtype=np.int32)
        return self.group[self.traffic.collective[self.part_flow]]

    @property
    def n_units(self) -> int:
        """The number U of placement units that need a path."""
        return len(self.part_ptr) - 1

    @cached_property
    def unit_src(self) -> IntArray:
        """[U] source leaf."""
        return self.leaf_src[self._first_flow]

    @cached_property
    def unit_dst(self) -> IntArray:
        """[U] destination leaf."""
        return self.leaf_dst[self._first_flow]

    @cached_property
    def _first_flow(self) -> IntArray:
        """[U] the first flow of each unit."""
        return self.part_flow if len(self.part_flow) == self.n_units else self.part_flow[self.part_ptr[:-1]]

    @cached_property
    def part_load(self) -> FloatArray:
        """[P] load of each part at level 1."""
        return self.load[self.part_flow]

    @cached_property
    def unit_load(self) -> FloatArray:
        """[U] load of a unit at level 1."""
        return self.units_of(self.part_load)

    # -- orders of flows -----------------------------------------------------------------------------------------

    def order_of_ends(self) -> IntArray:
        """Return the flows [F] in an order that depends on hosts and on what flows are, not on that of the files.

        Flows that are alike in all of it stay as they are.
        """
        traffic, of = self.traffic, self.traffic.collective
        size = np.bincount(of, minlength=len(traffic.collectives))
        kinds = (traffic.udp_src, traffic.number, size[of], traffic.phase[of], traffic.weight[of], traffic.bytes)
        order: IntArray = np.lexsort((*kinds, traffic.dst, traffic.src)).astype(np.int32)
        return order

    def in_order(self, order: IntArray) -> Demand:
        """Return the demand of the same flows in another order [F]."""
        traffic = self.traffic
        return Demand(
            self.fabric,
            Traffic(
                traffic.src[order],
                traffic.dst[order],
                traffic.bytes[order],
                traffic.collective[order],
                traffic.number[order],
                traffic.udp_src[order],
                traffic.collectives,
            ),
            self.leaf_src[order],
            self.leaf_dst[order],
            self.fixed[order],
            self.ideal_seconds,
            self.ideal_within,
            self.gbps[order],
        )

    def from_order(self, other: Demand, order: IntArray, path: IntArray) -> IntArray:
        """Return the path of each unit [U] of this demand from those of ``other``, which has its flows in ``order``."""
        of_flow: IntArray = np.empty(self.traffic.n_flows, dtype=np.int32)
        of_flow[order] = other.assignment(path).path
        return of_flow[self._first_flow]

    def units_of(self, part_load: FloatArray) -> FloatArray:
        """Return the loads [U] of units from those of their parts [P]; of each job the heaviest phase counts."""
        if len(part_load) == self.n_units:
            return part_load
        total: FloatArray = units.unit_loads(self.part_ptr, self.part_group, part_load, self.group_job)
        return total

    def assignment(self, unit_path: IntArray) -> Assignment:
        """Return an Assignment of all flows with one path for each unit."""
        if len(self.part_flow) == self.traffic.n_flows == self.n_units:
            return Assignment.single(unit_path)
        path = self.fixed.copy()
        one_each = len(self.part_flow) == self.n_units
        path[self.part_flow] = unit_path if one_each else np.repeat(unit_path, np.diff(self.part_ptr))
        return Assignment.single(path)


def on_healthy(fabric: Fabric, traffic: Traffic, *, known: Demand | None = None) -> Demand:
    """Return the demand of a traffic on a fabric without its failures, with each stripe in its own plane.

    Args:
        fabric: the fabric.
        traffic: the flows, in whatever planes they are.
        known: the demand on the fabric as it is.
    """
    healthy = fabric.healthy()
    own = on_live_planes(healthy, traffic)
    # Stripes may be off their planes although all links are up: where a plane is drained.
    if known is not None and healthy is known.fabric and own is known.traffic:
        return known
    return Demand.of(healthy, own)
