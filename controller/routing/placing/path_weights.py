"""A weight per path, for flows whose packets may take several paths at once.

All such flows between two leaves have the same weights, so hosts need one set of paths for each other host. At first
each path has a weight in proportion to its narrowest link. If the links allow more than these weights reach (after
failures, on unequal links, or beside flows that have one path each), a linear program gives weights with which the
lowest level is the highest that free splitting reaches; a second one makes these as even as that level allows, since
wide sets lose least by the next failure. Where the programs are too large, weights are moved off the fullest links in
small steps (multiplicative weights; Arora, Hazan and Kale, Theory of Computing 8, 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import FloatArray, IntArray
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Int64Array
from controller.routing.objective.bounds import cut_bound
from controller.routing.placing.place_units import live_paths
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.relaxation.solver import LinearProgram

MOST_ROWS = 20_000
"""Pairs of leaves times paths, up to which weights are found by linear programs."""

STEPS, STEP = 300, 0.25
"""Of moving weights where there are no programs."""

LEAST_WEIGHT = 1e-4
"""A path with less of a flow is left out: hosts divide packets less finely."""


def with_path_weights(demand: Demand, assignment: Assignment) -> Assignment:
    """Return an assignment in which flows that may take several paths have a weight on each.

    Args:
        demand: all flows.
        assignment: of one path or several to each flow that needs one path; its rows of other flows are ignored.
    """
    spread = demand.traffic.spreadable & (demand.fixed == NETWORK)
    flows = np.flatnonzero(spread)
    kept = ~spread[assignment.flow]
    if not len(flows):
        return assignment
    others = Assignment(assignment.flow[kept], assignment.path[kept], assignment.share[kept])
    problem = _Problem.of(demand, flows, others)
    weight = problem.best()
    begin = np.searchsorted(problem.row, np.arange(len(problem.src) + 1))
    pair = problem.pair_of_flow
    count = np.diff(begin)[pair]
    rows = np.repeat(begin[pair] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    used = weight[rows] > 0
    flow = np.concatenate([np.repeat(flows, count)[used], others.flow])
    path = np.concatenate([problem.path[rows][used], others.path])
    share = np.concatenate([weight[rows][used], others.share])
    order = np.lexsort((path, flow))
    return Assignment(flow[order].astype(np.int32), path[order].astype(np.int32), share[order])


@dataclass(frozen=True, eq=False)
class _Problem:
    """Loads at level 1 of P pairs of leaves, and the N rows of their live paths.

    Attributes:
        demand: all flows.
        src, dst: [P] leaves.
        row, path: [N] number of the pair, ascending, and path.
        links: [N, L] links of the path, -1 where there are fewer.
        pair_of_flow: of each flow that is spread.
        load: [G, P] Gbit/s of each phase group between two leaves.
        beside: [G, E] Gbit/s of the other flows on each link.
    """

    demand: Demand
    src: IntArray
    dst: IntArray
    row: Int64Array
    path: Int64Array
    links: IntArray
    pair_of_flow: Int64Array
    load: FloatArray
    beside: FloatArray

    @staticmethod
    def of(demand: Demand, flows: Int64Array, others: Assignment) -> _Problem:
        fabric, traffic = demand.fabric, demand.traffic
        ends = np.stack([demand.leaf_src[flows], demand.leaf_dst[flows]], axis=1)
        pairs, inverse = np.unique(ends, axis=0, return_inverse=True)
        pair = inverse.reshape(-1).astype(np.int64)
        src, dst = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)
        row, path = live_paths(fabric, src, dst)
        n_groups = len(demand.group_job)
        load = np.zeros((n_groups, len(src)))
        np.add.at(load, (demand.group[traffic.collective[flows]], pair), demand.load[flows])
        beside = np.zeros((n_groups, fabric.n_links))
        on = others.path >= 0
        flow, way = others.flow[on], others.path[on]
        between = fabric.ways.links(demand.leaf_src[flow], demand.leaf_dst[flow], way)
        part, place = np.nonzero(between >= 0)
        group = demand.group[traffic.collective[flow[part]]]
        np.add.at(beside, (group, between[part, place]), (demand.load[flow] * others.share[on])[part])
        return _Problem(demand, src, dst, row, path, fabric.ways.links(src[row], dst[row], path), pair, load, beside)

    @cached_property
    def even(self) -> FloatArray:
        """[N] weights in proportion to the narrowest link of each path."""
        gbps = np.where(self.links >= 0, self.demand.fabric.link_gbps[self.links], np.inf).min(axis=1)
        return self._normed(gbps)

    @cached_property
    def least_seconds(self) -> float:
        """The time that host links and cuts require, whatever the weights."""
        return 1.0 / cut_bound(self.demand)

    def best(self) -> FloatArray:
        """Return the weights [N]."""
        weight, seconds = self.even, float(self.seconds(self.even).max(initial=0.0))
        if seconds <= self.least_seconds * (1 + ROUNDING):
            return weight
        other = self._solved() if len(self.row) <= MOST_ROWS else self._moved()
        if other is None or self.seconds(other).max() >= seconds * (1 - ROUNDING):
            return weight
        return other

    def seconds(self, weight: FloatArray) -> FloatArray:
        """Return how long each link [E] is busy."""
        n_links = self.demand.fabric.n_links
        part, place = self._entries
        busy = np.zeros(n_links)
        heaviest: dict[int, FloatArray] = {}
        for group, job in enumerate(self.demand.group_job.tolist()):
            carried = (weight * self.load[group][self.row])[part]
            total = np.bincount(self.links[part, place], weights=carried, minlength=n_links) + self.beside[group]
            if job == 0:
                busy += total
            else:
                heaviest[job] = np.maximum(heaviest.get(job, 0.0), total)
        for of_job in heaviest.values():
            busy += of_job
        result: FloatArray = np.where(busy > 0, busy / np.maximum(self.demand.fabric.link_gbps, ROUNDING), 0.0)
        return result

    @cached_property
    def _entries(self) -> tuple[Int64Array, Int64Array]:
        part, place = np.nonzero(self.links >= 0)
        return part, place

    def _normed(self, weight: FloatArray) -> FloatArray:
        """Return weights that add up to 1 for each pair, without very small ones."""
        for _ in range(2):
            total = np.bincount(self.row, weights=weight, minlength=len(self.src))
            weight = weight / total[self.row]
            weight = np.where(weight < LEAST_WEIGHT, 0.0, weight)
        return weight

    def _solved(self) -> FloatArray | None:
        """Return the weights of the linear programs; ``None``: they are not solved."""
        first, _, _ = self._program()
        solution = first.solve()
        if not solution.optimal or solution.x is None:
            return None
        seconds = float(solution.x[0])
        # The second one decides among weights that are as good.
        second, weight, _ = self._program(max(seconds, self.least_seconds) * (1 + TOLERANCE))
        again = second.solve()
        better = again if again.optimal and again.x is not None else solution
        assert better.x is not None
        return self._normed(np.maximum(better.x[weight], 0.0))

    def _program(self, seconds: float | None = None) -> tuple[LinearProgram, Int64Array, int]:
        """Return the program of the least time, or of the most even weights within a time; and its columns."""
        program, n_pairs = LinearProgram(), len(self.src)
        free = seconds is None
        time = int(program.columns(1, lower=self.least_seconds if seconds is None else seconds, cost=float(free))[0])
        if seconds is not None:
            fixed = program.rows(1, upper=seconds)
            program.add(fixed, time, 1.0)
        weight = program.columns(len(self.row), upper=1.0)
        whole = program.rows(n_pairs, lower=1.0, upper=1.0)
        program.add(whole[self.row], weight, 1.0)
        self._limit(program, time, weight)
        if not free:
            total = self.load.sum(axis=0)
            most = program.columns(n_pairs, lower=1.0, cost=total / max(float(total.max()), ROUNDING))
            wide = np.flatnonzero(self.even > 0)
            rows = program.rows(len(wide), upper=0.0)
            program.add(rows, weight[wide], 1.0 / self.even[wide])
            program.add(rows, most[self.row[wide]], -1.0)
        return program, weight, time

    def _limit(self, program: LinearProgram, time: int, weight: Int64Array) -> None:
        """Let every link carry within the time what is on it; of the phases of a job only the heaviest counts."""
        part, place = self._entries
        links, at = np.unique(self.links[part, place], return_inverse=True)
        at = at.reshape(-1)
        gbps = self.demand.fabric.link_gbps[links]
        steady = np.zeros(len(links))
        for group, job in enumerate(self.demand.group_job.tolist()):
            if job == 0:
                steady = self.beside[group][links]
        capacity = program.rows(len(links), upper=-steady)
        program.add(capacity, time, -gbps)
        heavy: dict[int, Int64Array] = {}
        for group, job in enumerate(self.demand.group_job.tolist()):
            amount = self.load[group][self.row[part]]
            if job == 0:
                program.add(capacity[at], weight[part], amount)
                continue
            if job not in heavy:
                heavy[job] = program.columns(len(links))
                program.add(capacity, heavy[job], 1.0)
            rows = program.rows(len(links), upper=-self.beside[group][links])
            program.add(rows[at], weight[part], amount)
            program.add(rows, heavy[job], -1.0)

    def _moved(self) -> FloatArray:
        """Return the best of weights that are moved off full links step by step."""
        weight = best = self.even
        least = np.inf
        for step in range(STEPS):
            seconds = self.seconds(weight)
            most = float(seconds.max())
            if most < least * (1 - ROUNDING):
                least, best = most, weight
            if least <= self.least_seconds * (1 + TOLERANCE):
                break
            cost = np.where(self.links >= 0, seconds[self.links] / most, 0.0).max(axis=1)
            weight = self._normed(weight * np.exp(-STEP * cost / np.sqrt(1 + step / 10)))
        return best
