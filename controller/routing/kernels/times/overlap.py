"""Search for paths on which jobs that compute by turns slow each other down the least (compiled).

Sets of sending jobs are given as M moments, each with its probability. At a moment a stage is as slow as its fullest
cable, if all stages sending there share it in proportion; its expected speed is the mean over the moments at
which it sends. That is slightly pessimistic compared with max-min sharing, and cheap to update: a move of one unit
changes the links of two paths.

Descent by single moves and swaps of units on crowded links; where no exchange helps, a few units are moved at random
and the descent begins again from there (iterated local search: Lourenco, Martin and Stutzle 2003).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.drawing import draw
from controller.routing.kernels.paths import met, path_links
from controller.routing.kernels.without_runtime import without_runtime

TRIAL = 16
"""The least number of rounds that a tried move counts."""

STEPS = 400
"""Number of link-moment pairs examined that count as one more round; a round then takes about as long as one of
``kernels.breakout_search``."""

THROWN = 8
"""One unit in this many is moved at random, but at least two units."""


class OverlapProblem(NamedTuple):
    """The units to place, and the sets of sending stages (arrays, because compiled code reads them).

    Attributes:
        src: [U] source leaf of each unit.
        dst: [U] destination leaf of each unit.
        part_ptr: [U+1] first part of each unit.
        part_stage: [P] stage of each part; -1: none that counts.
        part_load: [P] Gbit/s while the stage has speed 1.
        ways: the live paths.
        gbps: [E] capacity of each link.
        sends: [S, M] whether each stage sends at each moment.
        chance: [M] probability of the moment.
        factor: [S] cost of each stage without any slowdown.
    """

    src: Any
    dst: Any
    part_ptr: Any
    part_stage: Any
    part_load: Any
    ways: Any
    gbps: Any
    sends: Any
    chance: Any
    factor: Any


class OverlapState(NamedTuple):
    """The state of a search.

    Attributes:
        path: [U] path of each unit.
        part: [S, E] the part of a link that each stage takes.
        full: [E, M] the part of a link that is taken at each moment.
        peak: [E] the maximum of ``full`` over the moments.
        lists: [S, E] the links that a stage has used so far.
        listed: [S, E] whether a link is in the stage's list.
        length: [S] number of links in the list.
        cost: [S] cost of each stage.
        slow: [M] scratch.
        before, after: [2T] scratch: the links of a path.
        work: [1] rounds spent on examining links.
        random: [1] state of the generator.
    """

    path: Any
    part: Any
    full: Any
    peak: Any
    lists: Any
    listed: Any
    length: Any
    cost: Any
    slow: Any
    before: Any
    after: Any
    work: Any
    random: Any


@without_runtime
def _put(problem, state, stage, link, gbps):
    """Add ``gbps`` to a stage's load on a link, at all moments when it sends."""
    if not state.listed[stage, link]:
        state.listed[stage, link] = True
        state.lists[stage, state.length[stage]] = link
        state.length[stage] += 1
    amount = gbps / problem.gbps[link]
    state.part[stage, link] += amount
    full, highest = state.full[link], 0.0
    for m in range(len(full)):
        if problem.sends[stage, m]:
            full[m] += amount
        highest = max(highest, full[m])
    state.peak[link] = highest


@without_runtime
def _cost(problem, state, stage):
    """Return the present cost of a stage."""
    slow = state.slow
    slow[:] = 1.0
    n_moments, n_listed = len(slow), state.length[stage]
    looked = n_listed // 8
    for i in range(n_listed):
        link = state.lists[stage, i]
        # Most links are never full and slow no stage down.
        if state.peak[link] > 1.0 + ROUNDING and state.part[stage, link] > ROUNDING:
            looked += n_moments
            for m in range(n_moments):
                slow[m] = max(slow[m], state.full[link, m])
    state.work[0] += looked // STEPS + 1
    speed, total = 0.0, 0.0
    for m in range(n_moments):
        if problem.sends[stage, m]:
            speed += problem.chance[m] / slow[m]
            total += problem.chance[m]
    return problem.factor[stage] * total / speed if speed > 0.0 else problem.factor[stage]


@without_runtime
def _all_costs(problem, state):
    """Compute the costs of all stages and return their sum."""
    for s in range(len(state.cost)):
        state.cost[s] = _cost(problem, state, s)
    return state.cost.sum()


@without_runtime
def _gain(problem, state, links, n_links):
    """Return the decrease of the sum of costs since the last sum, where only these links have changed."""
    gain = 0.0
    for s in range(len(state.cost)):
        for i in range(n_links):
            if state.listed[s, links[i]]:
                gain += state.cost[s] - _cost(problem, state, s)
                break
    return gain


@without_runtime
def _move(problem, state, unit, k):
    """Move a unit to path k, which has as many links as its path."""
    a, b, before, after = problem.src[unit], problem.dst[unit], state.before, state.after
    n = path_links(problem.ways, a, b, state.path[unit], before)
    path_links(problem.ways, a, b, k, after)
    state.path[unit] = k
    for p in range(problem.part_ptr[unit], problem.part_ptr[unit + 1]):
        stage, load = problem.part_stage[p], problem.part_load[p]
        if stage >= 0 and load > 0.0:
            for i in range(n):
                if before[i] != after[i]:
                    _put(problem, state, stage, before[i], -load)
                    _put(problem, state, stage, after[i], load)


@without_runtime
def _live_links(problem, unit, k, links):
    """Write the links of path k to ``links`` and return their number; 0: it is not live for the unit."""
    n = path_links(problem.ways, problem.src[unit], problem.dst[unit], k, links)
    for i in range(n):
        if links[i] < 0:
            return 0
    return n


@without_runtime
def _may_share(problem, top, one, other):
    """Return whether paths of two units over tier ``top`` can have a link in common: at a leaf, or above a pod."""
    a, b, c, d = problem.src[one], problem.dst[one], problem.src[other], problem.dst[other]
    if top == 0:
        return a == c or b == d
    group = problem.ways.group
    return group[top - 1, a] == group[top - 1, c] or group[top - 1, b] == group[top - 1, d]


@nb.njit(nogil=True, cache=True)
def _begin(problem, path, seed):
    """Return the initial state of a search with these paths."""
    n_stages, n_moments = problem.sends.shape
    n_links = len(problem.gbps)
    state = OverlapState(
        path.copy(),
        np.zeros((n_stages, n_links)),
        np.zeros((n_links, n_moments)),
        np.zeros(n_links),
        np.zeros((n_stages, n_links), np.int64),
        np.zeros((n_stages, n_links), np.bool_),
        np.zeros(n_stages, np.int64),
        np.zeros(n_stages),
        np.zeros(n_moments),
        np.empty(2 * len(problem.ways.width), np.int64),
        np.empty(2 * len(problem.ways.width), np.int64),
        np.zeros(1, np.int64),
        np.array([np.uint64(seed) * np.uint64(2) + np.uint64(1)]),
    )
    for u in range(len(path)):
        n = path_links(problem.ways, problem.src[u], problem.dst[u], path[u], state.before)
        for p in range(problem.part_ptr[u], problem.part_ptr[u + 1]):
            stage, load = problem.part_stage[p], problem.part_load[p]
            if stage >= 0 and load > 0.0:
                for i in range(n):
                    _put(problem, state, stage, state.before[i], load)
    return state


@nb.njit(nogil=True, cache=True)
def costs(problem, path):
    """Return the cost [S] of each stage on these paths [U]."""
    state = _begin(problem, path, 0)
    _all_costs(problem, state)
    return state.cost


@nb.njit(nogil=True, cache=True)
def _improve(problem, state, unit, free, total, rounds):
    """Find the best move of a unit, or the best swap where no move helps.

    Returns:
        path (-1: none), the unit that takes the unit's place (-1: none), moves tried.
    """
    here, first = state.path[unit], problem.ways.first
    top = met(problem.ways, problem.src[unit], problem.dst[unit])
    n = 2 * (top + 1)
    links = np.empty(4 * n, np.int64)
    chosen, partner, most, tried = -1, -1, ROUNDING * total, 0
    for k in range(first[top], first[top + 1]):
        if k == here or not _live_links(problem, unit, k, links[:n]):
            continue
        _live_links(problem, unit, here, links[n : 2 * n])
        _move(problem, state, unit, k)
        gain = _gain(problem, state, links, 2 * n)
        tried += 1
        if gain > most:
            chosen, partner, most = k, -1, gain
        if chosen < 0:
            for other in free:
                if other == unit or state.path[other] != k or not _may_share(problem, top, unit, other):
                    continue
                if not _live_links(problem, other, here, links[2 * n : 3 * n]):
                    continue
                _live_links(problem, other, k, links[3 * n :])
                _move(problem, state, other, here)
                gain = _gain(problem, state, links, 4 * n)
                tried += 1
                if gain > most:
                    chosen, partner, most = k, other, gain
                _move(problem, state, other, k)
                if tried * TRIAL + state.work[0] >= rounds:
                    break
        _move(problem, state, unit, here)
    return chosen, partner, tried


@nb.njit(nogil=True, cache=True)
def descend(problem, path, movable, rounds, seed):
    """Search paths with a lower sum of costs.

    Args:
        problem: the units to place.
        path: [U] live; not changed.
        movable: [U] whether each unit may move.
        rounds: effort, see ``TRIAL`` and ``STEPS``.
        seed: the seed of the search.

    Returns:
        path [U].
    """
    state = _begin(problem, path, seed)
    total, least = _all_costs(problem, state), problem.factor.sum()
    best, best_total = path.copy(), total
    free = np.flatnonzero(movable)
    order, links = free.copy(), np.empty(2 * len(problem.ways.width), np.int64)
    used = 0
    while used + state.work[0] < rounds and len(free) > 0 and best_total > least * (1.0 + ROUNDING):
        improved = False
        for i in range(len(order) - 1, 0, -1):
            j = draw(state.random, i + 1)
            order[i], order[j] = order[j], order[i]
        for unit in order:
            here = state.path[unit]
            if used + state.work[0] >= rounds:
                break
            peak = 0.0
            for i in range(_live_links(problem, unit, here, links)):
                peak = max(peak, state.peak[links[i]])
            if peak <= 1.0 + ROUNDING:
                continue
            k, partner, tried = _improve(problem, state, unit, free, total, rounds - used)
            used += tried * TRIAL
            if k >= 0:
                _move(problem, state, unit, k)
                if partner >= 0:
                    _move(problem, state, partner, here)
                total = _all_costs(problem, state)
                improved = True
        if total < best_total * (1.0 - ROUNDING):
            best[:] = state.path
            best_total = total
        if improved:
            continue
        for unit in free:
            if state.path[unit] != best[unit]:
                _move(problem, state, unit, best[unit])
        for _ in range(max(2, len(free) // THROWN)):
            unit = free[draw(state.random, len(free))]
            top = met(problem.ways, problem.src[unit], problem.dst[unit])
            first = problem.ways.first[top]
            k = first + draw(state.random, problem.ways.first[top + 1] - first)
            if _live_links(problem, unit, k, links):
                _move(problem, state, unit, k)
        used += TRIAL
        total = _all_costs(problem, state)
    return best
