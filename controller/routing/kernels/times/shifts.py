"""Search for shifts of jobs' iterations by simulation (compiled): simulated annealing over shifts and held periods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.times.iterations import play
from controller.routing.kernels.without_runtime import without_runtime

RATIOS = (1.0, 0.5, 2.0, 1.0 / 3.0, 3.0, 2.0 / 3.0, 1.5)
"""Ratios of held periods that are tried: the common period of two jobs is then short."""

LONGEST_HOLD = 1.5
"""Longest held period, in iterations of the job alone."""

HOT = 0.01
"""Temperature at the beginning: an increase of the mean slowdown by this is accepted once in e times."""


class ShiftProblem(NamedTuple):
    """What is searched (arrays, because compiled code reads them).

    Attributes:
        alone: [J] seconds of an iteration alone.
        begin: [S] seconds from the begin of the iteration to that of the stage's sending, alone.
        end: [S] seconds to its end.
        share: [J] weight of each job, all together 1.
        movable: [M] jobs whose shift and period may change.
        horizon: seconds of each simulation.
        most_events: most events of each simulation.
    """

    alone: Any
    begin: Any
    end: Any
    share: Any
    movable: Any
    horizon: Any
    most_events: Any


@nb.njit(nogil=True, cache=True)
def slowdown(iterations, cache, problem, shift, hold, log_at, log_seconds):
    """Return the mean slowdown of a schedule by ``share`` of the jobs, and the simulation."""
    played = play(iterations, cache, -shift, hold, problem.horizon, problem.most_events, log_at, log_seconds)
    mean = 0.0 if len(shift) else 1.0
    for j in range(len(shift)):
        # A job without one complete iteration counts with all of the simulated time.
        seconds = played.took[j] / played.ended[j] if played.ended[j] > 0 else played.seconds
        mean += problem.share[j] * max(1.0, seconds / problem.alone[j])
    return mean, played


@nb.njit(nogil=True, cache=True)
def anneal(iterations, cache, problem, shift, hold, plays, work, seed):
    """Search shifts and held periods with a lower mean slowdown.

    A step changes one job, or the scale of all held periods. Shifts are drawn, changed a little, or such that a stage
    of the job begins when one of another job ends, or the reverse; periods are given up, or in a simple ratio to that
    of another job.

    Args:
        iterations: the jobs and their links.
        cache: known speeds.
        problem: what is searched.
        shift: [J] of the start; not changed.
        hold: [J] held period of the start, 0 without; not changed.
        plays: simulations allowed.
        work: links and entries that they may examine (``SpeedCache.work``).
        seed: the seed of the search.

    Returns:
        shift [J], hold [J] and their mean slowdown: the best that was simulated, the start included.
    """
    np.random.seed(seed)
    n_jobs, alone, movable = len(shift), problem.alone, problem.movable
    log_at, log_seconds = np.zeros((0, n_jobs), np.int64), np.zeros(0)
    begun = cache.work[0]
    cost = slowdown(iterations, cache, problem, shift, hold, log_at, log_seconds)[0]
    shift, hold = shift.copy(), hold.copy()
    best_shift, best_hold, best = shift.copy(), hold.copy(), cost
    for i in range(plays):
        done = max(i / plays, (cache.work[0] - begun) / work)
        if best <= 1.0 + ROUNDING or done >= 1.0:
            break
        new_shift, new_hold = shift.copy(), hold.copy()
        j = movable[np.random.randint(len(movable))]
        draw = np.random.random()
        if draw < 0.45:
            _shift(iterations, problem, new_shift, new_hold, j)
        elif draw < 0.8:
            _hold(problem, new_shift, new_hold, j)
        elif len(movable) == n_jobs:
            factor = 1.0 + 0.02 * np.random.normal()
            for k in range(n_jobs):
                if new_hold[k] > 0.0:
                    new_hold[k] = min(max(new_hold[k] * factor, alone[k]), LONGEST_HOLD * alone[k])
                    new_shift[k] *= new_hold[k] / hold[k]
        changed = slowdown(iterations, cache, problem, new_shift, new_hold, log_at, log_seconds)[0]
        temperature = HOT * (1.0 - done) + ROUNDING  # not 0
        if changed <= cost or np.random.random() < np.exp((cost - changed) / temperature):
            shift, hold, cost = new_shift, new_hold, changed
            if cost < best:
                best_shift[:], best_hold[:], best = shift, hold, cost
    return best_shift, best_hold, best


@without_runtime
def _shift(iterations, problem, shift, hold, j):
    """Change the shift of job j."""
    period = hold[j] if hold[j] > 0.0 else problem.alone[j]
    draw, n_jobs = np.random.random(), len(shift)
    other = np.random.randint(n_jobs)
    if draw < 0.3:
        shift[j] = np.random.random() * period
    elif draw < 0.6 or other == j:
        shift[j] += np.random.normal() * 0.1 * period
    else:
        s = iterations.first[j] + np.random.randint(iterations.first[j + 1] - iterations.first[j])
        o = iterations.first[other] + np.random.randint(iterations.first[other + 1] - iterations.first[other])
        # The other job's iterations that begin before and after: any of them may be the neighbour.
        at = shift[other] + problem.alone[other] * np.random.randint(-1, 2)
        if draw < 0.8:
            shift[j] = at + problem.end[o] - problem.begin[s]
        else:
            shift[j] = at + problem.begin[o] - problem.end[s]
    shift[j] -= period * np.floor(shift[j] / period)


@without_runtime
def _hold(problem, shift, hold, j):
    """Change the held period of job j, and draw its shift."""
    alone, n_jobs = problem.alone, len(shift)
    other = np.random.randint(n_jobs)
    if hold[j] > 0.0 and np.random.random() < 0.4:
        hold[j] = 0.0
    else:
        base = hold[other]
        if base == 0.0:
            base = alone[other]
            if np.random.random() < 0.5:
                # Where the other job is slowed down, its iterations take longer than alone.
                base *= 1.0 + 0.03 * abs(np.random.normal())
        period = base * RATIOS[np.random.randint(len(RATIOS))]
        if period < alone[j] or period > LONGEST_HOLD * alone[j]:
            return
        hold[j] = period
    shift[j] = np.random.random() * (hold[j] if hold[j] > 0.0 else alone[j])
