"""Expected iteration times over random phases, and the lower bound of any schedule (docs/explanation/objective.md)."""

from __future__ import annotations

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, FloatArray
from controller.model.tolerances import ROUNDING
from controller.model.traffic import Int64Array
from controller.routing.kernels.times import iterations as kernel
from controller.routing.objective.incidence import Incidence
from controller.routing.times.stages import Stages

DRAWS = 16
"""Draws of the jobs' starting points in their iterations; the expected time is the mean over the draws."""

ITERATIONS = 8
"""Length of each draw, in iterations of the longest job."""

MOST_EVENTS = 4000
"""Most events of each draw; a limit for short jobs beside long ones."""

SLOTS = 1 << 14
"""Largest number of sets of sending jobs for which speeds are cached."""


def mean_slowdown(stages: Stages, seconds: FloatArray) -> float:
    """Return the mean of the ratios of expected to isolated iteration time [J], by weight."""
    if not len(seconds):
        return 1.0
    return float(np.average(seconds / stages.alone, weights=stages.weight))


def expected_seconds(stages: Stages, assignment: Assignment, draws: int = DRAWS) -> FloatArray:
    """Return expected iteration times [J]: means over uniform draws of each job's starting point in its iteration."""
    return stages.by_job(stages.compute + sending_seconds(stages, assignment, draws))


def sending_seconds(stages: Stages, assignment: Assignment, draws: int) -> FloatArray:
    """Return the expected seconds [S] that each stage is sent."""
    problem, cache = iterations_of(stages, assignment)
    n_jobs, n_stages = len(stages.names), len(stages.row)
    busy, sent = np.zeros(n_stages), np.zeros(n_stages)
    horizon = ITERATIONS * float(stages.alone.max(initial=0.0))
    for draw in np.random.default_rng(0).random((draws, n_jobs)):
        played = kernel.play(
            problem, cache, draw * stages.alone, np.zeros(n_jobs), horizon, MOST_EVENTS, *log_arrays(n_jobs)
        )
        busy += played.busy
        sent += played.sent
    took = np.where(sent > 0, busy / np.where(sent > 0, sent, 1.0), stages.send)
    # Apart from rounding, no job is faster than alone.
    sending: FloatArray = np.maximum(took, stages.send)
    return sending


def iterations_of(stages: Stages, assignment: Assignment) -> tuple[kernel.Iterations, kernel.SpeedCache]:
    """Return the jobs and their links for the simulation under an assignment, and an empty cache of speeds."""
    n_stages, n_jobs = len(stages.row), len(stages.names)
    link, stage, part = _contended(stages, Incidence.of(stages.demand, assignment))
    by_stage = np.argsort(stage, kind="stable")
    n_links = int(link.max(initial=-1)) + 1
    problem = kernel.Iterations(
        stages.first,
        stages.job,
        _proportion(stages, assignment),
        stages.compute,
        stages.send,
        _begins(link, n_links),
        stage,
        _begins(stage, n_stages),
        link[by_stage],
        part[by_stage],
    )
    code = np.random.default_rng(0).integers(1, 1 << 63, n_stages, dtype=np.uint64)
    cache = kernel.SpeedCache(
        code,
        np.zeros(SLOTS, dtype=np.uint64),
        np.zeros((SLOTS, n_jobs)),
        np.zeros(n_links),
        np.zeros(n_links),
        np.zeros(n_links, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    return problem, cache


def _proportion(stages: Stages, assignment: Assignment) -> FloatArray:
    """Return the proportions [S] of the speeds of stages that share a full link; the largest is 1.

    Flows that share a link have equal rates, times the share of their stage, and the largest flow of a stage decides.
    """
    if not len(stages.row):
        return np.zeros(0)
    rate = np.zeros(len(stages.demand.traffic.collectives))
    row = assignment.flow
    np.maximum.at(rate, stages.demand.traffic.collective[row], stages.demand.gbps[row] * assignment.share)
    proportion: FloatArray = stages.rate_share / rate[stages.row]
    proportion /= proportion.max()
    return proportion


def _begins(number: Int64Array, n: int) -> Int64Array:
    """Return [N+1] where each number begins among sorted ones."""
    return np.concatenate([[0], np.cumsum(np.bincount(number, minlength=n))]).astype(np.int64)


def log_arrays(n_jobs: int, states: int = 0) -> tuple[Int64Array, FloatArray]:
    """Return arrays for the log of a simulation, [M, J] and [M]; by default for none."""
    return np.zeros((states, n_jobs), dtype=np.int64), np.zeros(states)


def _contended(stages: Stages, incidence: Incidence) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Return link, stage and part of the link [N], by link, for the links (renumbered) that can limit speeds."""
    n_links = len(incidence.capacity)
    link = np.repeat(np.arange(n_links), np.diff(incidence.link_ptr))
    stage_of = np.full(len(stages.demand.traffic.collectives), -1, dtype=np.int64)
    stage_of[stages.row] = np.arange(len(stages.row))
    stage = stage_of[incidence.link_coll]
    kept = stage >= 0
    link, stage = link[kept], stage[kept]
    part = (incidence.link_gbps[kept] / incidence.capacity[link]).astype(np.float64)
    heaviest = np.zeros((n_links, len(stages.names)))
    np.maximum.at(heaviest, (link, stages.job[stage]), part)
    # Links that all jobs together cannot fill limit none.
    fills = (heaviest.sum(axis=1) > 1.0 + ROUNDING)[link]
    link, stage, part = link[fills], stage[fills], part[fills]
    limits: BoolArray = kernel.binding(_begins(link, n_links), stage, part, len(stages.row))[link]
    return np.unique(link[limits], return_inverse=True)[1].reshape(-1), stage[limits], part[limits]


def schedule_bound(stages: Stages) -> float:
    """Return a lower bound of the mean slowdown, valid for all paths, splits and shifts.

    In the long run no cut (a host's link, a leaf's uplinks or downlinks together) exceeds its capacity: with
    iteration times T_j, the sum of ``part_j * send_j / T_j`` over jobs is at most 1. Each cut alone gives a bound.
    """
    if not len(stages.names):
        return 1.0
    incidence = Incidence.relaxed(stages.demand)
    stage_of = np.full(len(stages.demand.traffic.collectives), -1, dtype=np.int64)
    stage_of[stages.row] = np.arange(len(stages.row))
    link = np.repeat(np.arange(len(incidence.capacity)), np.diff(incidence.link_ptr))
    stage = stage_of[incidence.link_coll]
    kept = (stage >= 0) & (incidence.capacity[link] > 0)
    link, stage = link[kept], stage[kept]
    seconds = np.zeros((len(incidence.capacity), len(stages.names)))
    part = incidence.link_gbps[kept] / incidence.capacity[link]
    np.add.at(seconds, (link, stages.job[stage]), part * stages.send[stage])
    weight = stages.weight / stages.weight.sum()
    crowded = np.flatnonzero((seconds / stages.alone).sum(axis=1) > 1.0)
    return max([1.0, *(_least_mean(seconds[cut], stages.alone, weight) for cut in crowded.tolist())])


def _least_mean(seconds: FloatArray, alone: FloatArray, weight: FloatArray) -> float:
    """Return the least sum of ``weight / (alone x)`` for rates x [J] <= ``1 / alone`` whose ``seconds`` add up to 1.

    By Lagrange, x is ``sqrt(weight / (alone seconds)) / theta`` where that is not above its limit.
    """
    used = seconds > 0
    free = np.sqrt(weight[used] / (alone[used] * seconds[used]))
    limit, low, high = 1.0 / alone[used], 0.0, 1.0
    while (np.minimum(limit, free / high) * seconds[used]).sum() > 1.0:
        low, high = high, high * 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        fits = middle > 0 and (np.minimum(limit, free / middle) * seconds[used]).sum() <= 1.0
        low, high = (low, middle) if fits else (middle, high)
    # ``low`` allows slightly too much: on the safe side of a bound.
    rate = np.minimum(limit, free / low) if low > 0 else limit
    return float((weight[used] / (alone[used] * rate)).sum() + weight[~used].sum())
