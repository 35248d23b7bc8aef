"""Paths for jobs that state computing times: the lowest mean expected slowdown, not the levels.

The expected slowdown is defined in docs/explanation/objective.md.

Starts are the plan with the best levels, ``greedy``, ``coloring`` and ``first_fit``; from each, ``kernels.overlap``
searches for paths on which jobs that send at the same moments share fewer links. Of all plans, the starts included,
the one with the lowest expected slowdown is taken, so it is never worse than any of them in that respect. For this
choice links are shared flow by flow (``flow_estimate``) where that is not too much work.

Where jobs state what collectives wait for, each start is also searched as if only those stages counted that a phase
waits for, and the plan taken is refined by single moves, each judged by the expected slowdown itself.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array
from controller.routing.base import Options
from controller.routing.kernels.times import overlap
from controller.routing.placing import place_units as placing
from controller.routing.policies import coloring, first_fit, greedy
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan
from controller.routing.times.expected import DRAWS
from controller.routing.times.flow_estimate import (
    Estimate,
    expected_slowdown,
    fastest,
    flow_slowdowns,
    is_unhindered,
)
from controller.routing.times.phase_order import PhaseOrder
from controller.routing.times.stages import Stages

MOST_MOMENTS = 256
"""Most combinations of the jobs' states that are enumerated; above, this number of them is drawn."""

MOST_BYTES = 1 << 29
"""Most memory of a search: for each link, 8 bytes a moment and 17 a stage. Larger problems are not searched."""

FEW_DRAWS = 4
"""Draws of phases for choosing among plans of many jobs: the same for all plans."""

SPARE = 0.01
"""Cost of a slower stage that has slack, where a search is to spare the others."""

REFINED = 3
"""Number of times that the probabilities of moments are recomputed from the resulting slowdowns."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """The search problem: a traffic's stages, and the part of each that a unit carries.

    Attributes:
        part_stage: [P] stage of each part, -1 where its job has no stages.
        part_gbps: [P] its rate at speed 1.
        digits: [J, M] state of each job at each moment: 0 if it computes, else the number of the stage it sends.
        sends: [S, M] whether each stage is sent at each moment.
        known_chance: [M] the probability of each moment; ``None``: that for jobs with independent random phases.
    """

    demand: Demand
    stages: Stages
    part_stage: IntArray
    part_gbps: FloatArray
    digits: Int64Array
    sends: BoolArray
    known_chance: FloatArray | None = None

    @staticmethod
    def of(demand: Demand) -> Overlap:
        """Set up the search for the units of ``demand``."""
        stages = Stages.of(demand)
        order = stages.order
        stage_of = np.full(len(stages.demand.traffic.collectives), -1, dtype=np.int32)
        stage_of[stages.row] = np.arange(len(stages.row), dtype=np.int32)
        flow = demand.part_flow
        digits = _moments(stages) if order is None else np.zeros((len(stages.names), MOST_MOMENTS), dtype=np.int64)
        within = np.arange(len(stages.row)) - stages.first[stages.job] + 1
        return Overlap(
            demand,
            stages,
            stage_of[stages.demand.traffic.collective[flow]],
            stages.demand.gbps[flow],
            digits,
            digits[stages.job] == within.reshape(-1, 1) if order is None else _sends_in_order(stages, order),
            None if order is None else np.full(MOST_MOMENTS, 1.0 / MOST_MOMENTS),
        )

    def at(self, states: Int64Array, seconds: FloatArray) -> Overlap:
        """Return the problem for the moments of a schedule.

        Args:
            states: [N, J] the stage that each job sends, -1 while it computes.
            seconds: [N] the duration of each state; the longest ``MOST_MOMENTS`` of the different ones count.
        """
        different, which = np.unique(states, axis=0, return_inverse=True)
        total = np.bincount(which.reshape(-1), weights=seconds, minlength=len(different))
        longest = np.argsort(-total, kind="stable")[:MOST_MOMENTS]
        at = different[longest].T.copy()
        sends = at[self.stages.job] == np.arange(len(self.stages.row)).reshape(-1, 1)
        digits = np.where(at >= 0, at - self.stages.first[:-1].reshape(-1, 1) + 1, 0)
        chance = total[longest] / total[longest].sum()
        return dataclasses.replace(self, digits=digits, sends=sends, known_chance=chance)

    def slowdowns(self, paths: Sequence[IntArray]) -> list[float]:
        """Return the mean expected slowdown of each plan of one path [U] a unit, by the finest affordable estimate."""
        plans = [self.demand.assignment(path) for path in paths]
        by_flow = flow_slowdowns(self.stages, plans)
        if by_flow is not None:
            return by_flow
        draws = DRAWS if _enumerable(self.stages) else FEW_DRAWS
        return [expected_slowdown(self.stages, plan, draws) for plan in plans]

    def fastest(self, paths: Sequence[IntArray]) -> IntArray:
        """Return the plan [U] with the lowest expected slowdown, the first of equal ones."""
        different = list({path.tobytes(): path for path in paths}.values())
        if len(different) == 1:
            return paths[0]
        first = fastest(self.stages, [self.demand.assignment(path) for path in different])
        return different[int(np.argmin(self.slowdowns(different))) if first is None else first]

    def search(
        self, path: IntArray, movable: BoolArray, rounds: int, seed: int, urgency: FloatArray | None = None
    ) -> IntArray:
        """Search better paths for the movable units, with the jobs' moments as the model.

        ``urgency`` [S] multiplies the costs of stages.
        """
        took, stages = self.stages.send, self.stages
        if self.demand.fabric.n_links * (8 * self.sends.shape[1] + 17 * self.sends.shape[0]) > MOST_BYTES:
            return path
        for _ in range(REFINED if self.known_chance is None else 0):
            slower: FloatArray = overlap.costs(self._problem(took, np.ones(len(took))), path)
            took = stages.send * slower
        share = stages.weight / stages.alone / stages.weight.sum()
        cost = share[stages.job] * stages.send
        problem = self._problem(took, cost if urgency is None else cost * urgency)
        descended: IntArray = overlap.descend(problem, path, movable, rounds, seed & 0xFFFFFFFF)
        return descended

    def _problem(self, took: FloatArray, factor: FloatArray) -> overlap.OverlapProblem:
        demand, fabric = self.demand, self.demand.fabric
        return overlap.OverlapProblem(
            demand.unit_src,
            demand.unit_dst,
            demand.part_ptr,
            self.part_stage,
            self.part_gbps,
            fabric.live_ways,
            fabric.link_gbps,
            self.sends,
            self._chance(took),
            factor,
        )

    def _chance(self, took: FloatArray) -> FloatArray:
        """Return the probability [M] of each moment, for stages of these durations in independent jobs."""
        if self.known_chance is not None:
            return self.known_chance
        stages = self.stages
        if not _enumerable(stages):
            return np.full(self.digits.shape[1], 1.0 / self.digits.shape[1])
        period = stages.by_job(stages.compute + took)
        chance = np.ones(self.digits.shape[1])
        for j in range(len(stages.names)):
            first, last = stages.first[j], stages.first[j + 1]
            part = took[first:last] / period[j]
            chance *= np.concatenate([[max(0.0, 1.0 - part.sum())], part])[self.digits[j]]
        return chance


def _enumerable(stages: Stages) -> bool:
    combinations: int = math.prod((np.diff(stages.first) + 1).tolist())
    return combinations <= MOST_MOMENTS


def _moments(stages: Stages) -> Int64Array:
    """Return the states [J, M] of jobs: every combination, or draws in proportion to the states' durations.

    Draws are a Latin hypercube (McKay, Beckman and Conover 1979) over the iterations of the jobs in isolation.
    """
    if _enumerable(stages):
        every = list(itertools.product(*(range(n + 1) for n in np.diff(stages.first).tolist())))
        return np.array(every, dtype=np.int64).reshape(len(every), len(stages.names)).T.copy()
    drawn = np.random.default_rng(0)
    rows = []
    for j in range(len(stages.names)):
        at = (drawn.permutation(MOST_MOMENTS) + 0.5) / MOST_MOMENTS
        send = stages.send[stages.first[j] : stages.first[j + 1]]
        # First the sending of all stages, then the computing: only their durations matter.
        digit = np.searchsorted(np.cumsum(send) / stages.alone[j], at, side="right") + 1
        rows.append(np.where(digit > len(send), 0, digit))
    return np.array(rows, dtype=np.int64)


def _sends_in_order(stages: Stages, order: PhaseOrder) -> BoolArray:
    """Return whether each stage [S] is sent at each of ``MOST_MOMENTS`` moments, drawn as by ``_moments``."""
    drawn = np.random.default_rng(0)
    sends = np.zeros((len(stages.row), MOST_MOMENTS), dtype=np.bool_)
    for j in range(len(stages.names)):
        at = (drawn.permutation(MOST_MOMENTS) + 0.5) / MOST_MOMENTS * stages.alone[j]
        for p in range(int(order.first[j]), int(order.first[j + 1])):
            for s in range(int(order.stage_first[p]), int(order.stage_first[p + 1])):
                sends[s] = (order.begin[s] <= at) & (at < order.begin[s] + stages.send[s])
            at = at - order.alone[p]
    return sends


def plan(
    demand: Demand, path: IntArray, previous: PreviousPlan | None, rounds: int, seed: int, options: Options
) -> IntArray:
    """Return the path class [U] of each unit.

    Args:
        demand: the units to place.
        path: [U] the plan with the best levels.
        previous: the previous plan: its paths stay except where a move gains what ``options.churn_price`` requires.
        rounds: effort of the search.
        seed: the seed of the search.
        options: the options of the policy.
    """
    problem = Overlap.of(demand)
    if previous is None:
        return _fresh(problem, path, rounds, seed, options)
    old_path, new = kept(demand, previous)
    if new.any():
        old_path = problem.search(old_path, new, rounds, seed)
        other = _fresh(problem, path, rounds, seed, options)
    else:
        # No new units: improving the plan in force is worth a search, a plan from nothing is not.
        other = problem.search(old_path, np.ones(demand.n_units, dtype=np.bool_), rounds // 8, seed)
    if (other == old_path).all():
        return old_path
    old = ~new
    moved = float((old_path[old] != other[old]).mean()) if old.any() else 0.0
    before, after = problem.slowdowns([old_path, other])
    return other if after < before * (1.0 - options.churn_price * moved) * (1.0 - TOLERANCE) else old_path


def _fresh(problem: Overlap, path: IntArray, rounds: int, seed: int, options: Options) -> IntArray:
    """Return a plan that ignores any earlier one."""
    demand = problem.demand
    if is_unhindered(problem.stages, demand.assignment(path)):
        return path
    fastest_path = problem.fastest(plans_to_compare(problem, path, rounds, seed, options))
    return fastest_path if problem.stages.order is None else refined(problem, fastest_path, seed)


def refined(problem: Overlap, path: IntArray, seed: int) -> IntArray:
    """Return a plan [U] that no single move of a unit, or exchange of two, is expected to make faster, if work allows.

    The estimate is that of all draws, and is computed for each plan that is tried.
    """
    demand, estimate = problem.demand, Estimate(problem.stages)
    order = np.random.default_rng(seed).permutation(demand.n_units)
    least = estimate.slowdown(demand.assignment(path))
    improved = True
    while improved and least > 1.0 + TOLERANCE:
        improved = False
        for other in _near(demand, path, order):
            if not estimate.affords_one_more:
                return path
            slowdown = estimate.slowdown(demand.assignment(other))
            if slowdown < least * (1.0 - TOLERANCE):
                path, least, improved = other, slowdown, True
                break
    return path


def _near(demand: Demand, path: IntArray, order: Int64Array) -> Iterator[IntArray]:
    """Yield the plans [U] that differ by one unit's path, unit by unit in this order, then by an exchange of two."""
    live = demand.fabric.live_ways
    choices = [live.between(a, b).tolist() for a, b in zip(demand.unit_src, demand.unit_dst, strict=True)]
    units = order.tolist()
    for unit in units:
        for choice in choices[unit]:
            if choice != path[unit]:
                other = path.copy()
                other[unit] = choice
                yield other
    for one, two in itertools.combinations(units, 2):
        if path[one] != path[two] and path[two] in choices[one] and path[one] in choices[two]:
            other = path.copy()
            other[one], other[two] = path[two], path[one]
            yield other


def plans_to_compare(problem: Overlap, path: IntArray, rounds: int, seed: int, options: Options) -> list[IntArray]:
    """Return a plan [U], those of the simple placements, and what a search finds from each."""
    demand = problem.demand
    everyone = np.ones(demand.n_units, dtype=np.bool_)
    starts = [
        path,
        greedy.place_units(demand),
        coloring.color_units(demand, seed),
        first_fit.place_units(demand, seed, options),
    ]
    order = problem.stages.order
    # Where stages have slack, what the others gain counts more: half of the effort.
    weights = [None] if order is None else [None, np.where(order.slack(problem.stages.send) > 0, SPARE, 1.0)]
    effort = rounds // (len(starts) * len(weights))
    return starts + [problem.search(start, everyone, effort, seed, weight) for weight in weights for start in starts]


def kept(demand: Demand, previous: PreviousPlan) -> tuple[IntArray, BoolArray]:
    """Return the earlier path [U] of each unit, new and stranded ones on their least loaded; and which those are."""
    fabric = demand.fabric
    before = previous.on(fabric).single_paths(demand.traffic)[demand.part_flow[demand.part_ptr[:-1]]]
    a, b = demand.unit_src, demand.unit_dst
    live = (before >= 0) & fabric.live_ways.joined(a, b, before)
    path = np.where(live, before, -1).astype(np.int32)
    placing.repair(demand, path)
    return path, ~live
