"""Iterations of jobs that compute and send by turns, as a fluid: speeds by the set of sending jobs, and a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.compiled import inner_kernel, kernel


class Iterations(NamedTuple):
    """S stages of J jobs, and the links that they share (arrays, because compiled code reads them).

    Attributes:
        first: [J+1] first stage of each job.
        job: [S] job of each stage.
        weight: [J] weight of each job.
        compute: [S] seconds of computing before the stage.
        send: [S] seconds that the stage takes alone.
        link_ptr: [E+1] first entry of each link.
        link_stage: [N] stage of each entry.
        link_part: [N] the part of the link that the stage takes at speed 1.
    """

    first: Any
    job: Any
    weight: Any
    compute: Any
    send: Any
    link_ptr: Any
    link_stage: Any
    link_part: Any


class SpeedCache(NamedTuple):
    """Speeds by the set of sending stages; a slot holds the newest set of those that belong to it.

    Attributes:
        code: [S] random 64-bit number of each stage; a set is the exclusive or of its stages' (Zobrist 1970).
        state: [N] the set whose speeds each slot has; 0: no stage is sent.
        speed: [N, J].
    """

    code: Any
    state: Any
    speed: Any


class Played(NamedTuple):
    """The result of a simulation.

    Attributes:
        busy: [S] seconds for which each stage was sending.
        sent: [S] how often it was sent (2.5: two and a half times).
        unhindered: [S] the part of ``busy`` at speed 1.
        took: [J] seconds of the complete iterations, waiting for the next one included.
        ended: [J] number of these iterations.
        seconds: simulated time.
        logged: number of states in the log.
    """

    busy: Any
    sent: Any
    unhindered: Any
    took: Any
    ended: Any
    seconds: Any
    logged: Any


@kernel
def speeds(at, weight, job, link_ptr, link_stage, link_part, on, hot, speed):
    """Compute the speeds of the jobs that send, by progressive filling.

    Args:
        weight: [J] weight of each job.
        job: [S] job of each stage.
        at: [J] the stage that each job sends, -1 while it computes.
        link_ptr: [E+1] first entry of each link.
        link_stage: [N] stage of each entry.
        link_part: [N] the part of the link that the stage takes at speed 1.
        on: [S] scratch; false everywhere, before and after.
        hot: [E] scratch.
        speed: [J] the result; 0 for jobs that compute.
    """
    n_jobs = len(at)
    left = 0
    for j in range(n_jobs):
        speed[j] = 0.0
        if at[j] >= 0:
            on[at[j]] = True
            speed[j] = -1.0
            left += 1
    n_hot = 0
    for e in range(len(link_ptr) - 1):
        total = 0.0
        for i in range(link_ptr[e], link_ptr[e + 1]):
            if on[link_stage[i]]:
                total += link_part[i]
        # A link that can carry all of them at full speed limits none of them.
        if total > 1.0 + ROUNDING:
            hot[n_hot] = e
            n_hot += 1
    while left > 0:
        level = np.inf
        for j in range(n_jobs):
            if speed[j] < 0.0:
                level = min(level, 1.0 / weight[j])
        full = -1
        for h in range(n_hot):
            room, slope = 1.0, 0.0
            for i in range(link_ptr[hot[h]], link_ptr[hot[h] + 1]):
                if on[link_stage[i]]:
                    j = job[link_stage[i]]
                    if speed[j] < 0.0:
                        slope += link_part[i] * weight[j]
                    else:
                        room -= link_part[i] * speed[j]
            if slope > ROUNDING and max(room, ROUNDING) / slope < level:
                level = max(room, ROUNDING) / slope
                full = hot[h]
        if full >= 0:
            for i in range(link_ptr[full], link_ptr[full + 1]):
                j = job[link_stage[i]]
                if on[link_stage[i]] and speed[j] < 0.0:
                    speed[j] = level * weight[j]
                    left -= 1
        else:
            for j in range(n_jobs):
                if speed[j] < 0.0 and 1.0 / weight[j] <= level:
                    speed[j] = 1.0
                    left -= 1
    for j in range(n_jobs):
        if at[j] >= 0:
            on[at[j]] = False


@kernel
def play(problem, cache, offset, hold, horizon, most_events, log_at, log_seconds):
    """Simulate the iterations of jobs up to a horizon.

    Args:
        problem: the jobs and the links.
        cache: known speeds; further ones are added.
        offset: [J] seconds by which each job has advanced in its iteration at the beginning, as if it had been alone;
            negative: the job begins only after that time.
        hold: [J] period of the grid of times at which the job's iterations begin, less than two iterations; 0: they
            follow at once. The grid contains ``-offset``.
        horizon: seconds after which to stop.
        most_events: events after which to stop.
        log_at: [M, J] filled with the stage that each job sends (-1 while it computes), event by event.
        log_seconds: [M] filled with the duration of these states; events after the first M are not recorded.

    Returns:
        ``Played``.
    """
    first, job, weight, compute, send, link_ptr = problem[:6]
    n_jobs = len(weight)
    at = np.full(n_jobs, -1, np.int64)
    stage = first[:-1].copy()
    until, part = np.zeros(n_jobs), np.zeros(n_jobs)
    for j in range(n_jobs):
        behind = offset[j]
        for s in range(first[j], first[j + 1]):
            stage[j] = s
            if behind < compute[s] or (s == first[j + 1] - 1 and behind >= compute[s] + send[s]):
                until[j] = max(0.0, compute[s] - behind)
                break
            behind -= compute[s]
            if behind < send[s]:
                at[j], part[j] = s, behind / send[s]
                break
            behind -= send[s]
    busy, sent, unhindered = np.zeros(len(job)), np.zeros(len(job)), np.zeros(len(job))
    begun, took, ended = -offset, np.zeros(n_jobs), np.zeros(n_jobs, np.int64)
    on, hot = np.zeros(len(job), np.bool_), np.zeros(len(link_ptr), np.int64)
    state, now, logged = np.uint64(0), 0.0, 0
    for j in range(n_jobs):
        if at[j] >= 0:
            state ^= cache.code[at[j]]
    speed = _speeds_of(problem, cache, state, at, on, hot)
    for _ in range(most_events):
        step, who = horizon - now, -1
        for j in range(n_jobs):
            wait = until[j] - now if at[j] < 0 else (1.0 - part[j]) * send[at[j]] / speed[j]
            if wait < step:
                step, who = max(wait, 0.0), j
        now += step
        if logged < len(log_seconds):
            log_at[logged] = at
            log_seconds[logged] = step
            logged += 1
        for j in range(n_jobs):
            if at[j] >= 0:
                done = speed[j] * step / send[at[j]]
                part[j] += done
                busy[at[j]] += step
                sent[at[j]] += done
                if speed[j] > 1.0 - ROUNDING:
                    unhindered[at[j]] += step
        if who < 0:
            break
        if at[who] >= 0:
            state ^= cache.code[at[who]]
            at[who] = -1
            stage[who] += 1
            begin = now
            if stage[who] == first[who + 1]:
                stage[who] = first[who]
                if hold[who] > 0.0:
                    begin = max(now, hold[who] * np.floor((now + offset[who]) / hold[who] + 0.5) - offset[who])
                took[who] += begin - begun[who]
                ended[who] += 1
                begun[who] = begin
            until[who] = begin + compute[stage[who]]
        else:
            at[who], part[who] = stage[who], 0.0
            state ^= cache.code[at[who]]
        speed = _speeds_of(problem, cache, state, at, on, hot)
    return Played(busy, sent, unhindered, took, ended, now, logged)


@inner_kernel
def _speeds_of(problem, cache, state, at, on, hot):
    """Return the speeds [J] of a state, from the cache if they are there."""
    slot = np.int64(state % np.uint64(len(cache.state)))
    if cache.state[slot] != state:
        speeds(
            at, problem.weight, problem.job, problem.link_ptr, problem.link_stage, problem.link_part, on, hot,
            cache.speed[slot],
        )  # fmt: skip
        cache.state[slot] = state
    return cache.speed[slot]
