"""Iterations of jobs that compute and send by turns, as a fluid: speeds by the set of sending jobs, and a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.without_runtime import without_runtime


class Iterations(NamedTuple):
    """S stages of J jobs, and the links that they share (arrays, because compiled code reads them).

    Attributes:
        first: [J+1] first stage of each job.
        job: [S] job of each stage.
        weight: [S] speeds of stages that share a full link are in these proportions.
        compute: [S] seconds of computing before the stage.
        send: [S] seconds that the stage takes alone.
        link_ptr: [E+1] first entry of each link.
        link_stage: [N] stage of each entry.
        stage_ptr: [S+1] first entry of each stage.
        stage_link: [N] link of each entry.
        stage_part: [N] the part of the link that the stage takes at speed 1.
    """

    first: Any
    job: Any
    weight: Any
    compute: Any
    send: Any
    link_ptr: Any
    link_stage: Any
    stage_ptr: Any
    stage_link: Any
    stage_part: Any


class SpeedCache(NamedTuple):
    """Speeds by the set of sending stages; a slot holds the newest set of those that belong to it.

    Attributes:
        code: [S] random 64-bit number of each stage; a set is the exclusive or of its stages' (Zobrist 1970).
        state: [N] the set whose speeds each slot has; 0: no stage is sent.
        speed: [N, J].
        room: [E] scratch: the part of each link that is free.
        slope: [E] scratch: the part that it loses while the level of the jobs grows by 1.
        hot: [E] scratch: the links that limit some job.
        work: [1] links and entries examined so far for speeds.
    """

    code: Any
    state: Any
    speed: Any
    room: Any
    slope: Any
    hot: Any
    work: Any


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


@without_runtime
def speeds(problem, cache, at, speed):
    """Compute the speeds of the jobs that send, by progressive filling.

    Args:
        problem: the jobs and the links.
        cache: scratch.
        at: [J] the stage that each job sends, -1 while it computes.
        speed: [J] the result; 0 for jobs that compute.
    """
    weight, stage_ptr = problem.weight, problem.stage_ptr
    stage_link, stage_part = problem.stage_link, problem.stage_part
    room, slope, hot = cache.room, cache.slope, cache.hot
    n_jobs, n_hot, left, work = len(at), 0, 0, 0
    room[:] = 1.0
    slope[:] = 0.0
    for j in range(n_jobs):
        speed[j] = 0.0
        if at[j] >= 0:
            speed[j] = -1.0
            left += 1
            for i in range(stage_ptr[at[j]], stage_ptr[at[j] + 1]):
                room[stage_link[i]] -= stage_part[i]
                slope[stage_link[i]] += stage_part[i] * weight[at[j]]
            work += stage_ptr[at[j] + 1] - stage_ptr[at[j]]
    for e in range(len(room)):
        # A link that can carry all of them at full speed limits none of them.
        if room[e] < -ROUNDING:
            hot[n_hot] = e
            n_hot += 1
        room[e] = 1.0
    while left > 0:
        level, full = np.inf, -1
        for j in range(n_jobs):
            if speed[j] < 0.0:
                level = min(level, 1.0 / weight[at[j]])
        work += n_hot + n_jobs
        h = 0
        while h < n_hot:
            e = hot[h]
            if slope[e] <= ROUNDING:
                n_hot -= 1
                hot[h] = hot[n_hot]
                continue
            if max(room[e], ROUNDING) / slope[e] < level:
                level, full = max(room[e], ROUNDING) / slope[e], e
            h += 1
        for j in range(n_jobs):
            if speed[j] >= 0.0 or (full < 0 and 1.0 / weight[at[j]] > level):
                continue
            if full >= 0 and not _loads(problem, at[j], full):
                continue
            speed[j] = level * weight[at[j]] if full >= 0 else 1.0
            left -= 1
            for i in range(stage_ptr[at[j]], stage_ptr[at[j] + 1]):
                room[stage_link[i]] -= stage_part[i] * speed[j]
                slope[stage_link[i]] -= stage_part[i] * weight[at[j]]
            work += stage_ptr[at[j] + 1] - stage_ptr[at[j]]
    cache.work[0] += work + len(room)


@without_runtime
def _loads(problem, stage, link):
    """Return whether a stage loads a link."""
    any_link = False
    for i in range(problem.link_ptr[link], problem.link_ptr[link + 1]):
        any_link |= problem.link_stage[i] == stage
    return any_link


@nb.njit(nogil=True, cache=True)
def binding(link_ptr, link_stage, link_part, n_stages):
    """Return whether each link [E] can limit speeds: no other link has at least its part of every stage.

    A link that is full only when another is full, too, changes no speed. Of equal links one is kept.
    """
    n = len(link_ptr) - 1
    keep = np.ones(n, np.bool_)
    whole, stages = np.zeros(n), np.zeros(n, np.uint64)
    for e in range(n):
        for i in range(link_ptr[e], link_ptr[e + 1]):
            whole[e] += link_part[i]
            stages[e] |= np.uint64(1) << np.uint64(link_stage[i] % 64)
    # The other link has at least the same total: in this order it comes first.
    order = np.argsort(-whole, kind="mergesort")
    part = np.zeros(n_stages)
    kept, n_kept = np.empty(n, np.int64), 0
    for e in order:
        for i in range(link_ptr[e], link_ptr[e + 1]):
            part[link_stage[i]] = link_part[i] * (1.0 - ROUNDING)
        for k in range(n_kept):
            other = kept[k]
            if stages[e] & ~stages[other]:
                continue
            covered = 0
            for i in range(link_ptr[other], link_ptr[other + 1]):
                covered += 0.0 < part[link_stage[i]] <= link_part[i]
            if covered == link_ptr[e + 1] - link_ptr[e]:
                keep[e] = False
                break
        if keep[e]:
            kept[n_kept] = e
            n_kept += 1
        for i in range(link_ptr[e], link_ptr[e + 1]):
            part[link_stage[i]] = 0.0
    return keep


@nb.njit(nogil=True, cache=True)
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
    first, job, compute, send = problem.first, problem.job, problem.compute, problem.send
    n_jobs = len(first) - 1
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
    state, now, logged = np.uint64(0), 0.0, 0
    for j in range(n_jobs):
        if at[j] >= 0:
            state ^= cache.code[at[j]]
    speed = _speeds_of(problem, cache, state, at)
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
                    begin = max(
                        now, hold[who] * np.floor((now + offset[who]) / hold[who] + 0.5 + ROUNDING) - offset[who]
                    )
                took[who] += begin - begun[who]
                ended[who] += 1
                begun[who] = begin
            until[who] = begin + compute[stage[who]]
        else:
            at[who], part[who] = stage[who], 0.0
            state ^= cache.code[at[who]]
        speed = _speeds_of(problem, cache, state, at)
    return Played(busy, sent, unhindered, took, ended, now, logged)


@nb.njit(nogil=True, cache=True)
def _speeds_of(problem, cache, state, at):
    """Return the speeds [J] of a state, from the cache if they are there."""
    slot = np.int64(state % np.uint64(len(cache.state)))
    if cache.state[slot] != state:
        speeds(problem, cache, at, cache.speed[slot])
        cache.state[slot] = state
    return cache.speed[slot]
