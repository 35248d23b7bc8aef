"""Iterations of jobs that compute and send by turns, as a fluid: speeds by the set of sending jobs, and a run."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def play(
    first, job, weight, compute, send, link_ptr, link_stage, link_part, offset, horizon, most_events, known, table,
):  # fmt: skip
    """Simulate the iterations of jobs up to a horizon.

    Args:
        first: [J+1] first stage of each job.
        job: [S] job of each stage.
        weight: [J] weight of each job.
        compute: [S] seconds of computing before the stage.
        send: [S] seconds that the stage takes alone.
        link_ptr: [E+1] first entry of each link.
        link_stage: [N] stage of each entry.
        link_part: [N] the part of the link that the stage takes at speed 1.
        offset: [J] seconds by which each job has advanced in its iteration at the beginning, as if it had been alone.
        horizon: seconds after which to stop.
        most_events: events after which to stop.
        known: [N] whether the speeds of each state are known; N is 1 where there are too many states.
        table: [N, J] the known speeds of each state.

    Returns:
        Seconds [S] for which each stage was sending, and how often [S] it was sent (2.5: two and a half times).
    """
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
    busy, sent = np.zeros(len(job)), np.zeros(len(job))
    on, hot = np.zeros(len(job), np.bool_), np.zeros(len(link_ptr), np.int64)
    speed = np.zeros(n_jobs)
    # The state is a number with a digit for each job: 0 if it computes, else the number of the stage it sends.
    digit = np.ones(n_jobs, np.int64)
    if len(known) > 1:
        for j in range(1, n_jobs):
            digit[j] = digit[j - 1] * (first[j] - first[j - 1] + 1)
    state, now = 0, 0.0
    for j in range(n_jobs):
        if at[j] >= 0:
            state += digit[j] * (at[j] - first[j] + 1)
    speeds(at, weight, job, link_ptr, link_stage, link_part, on, hot, speed)
    for _ in range(most_events):
        step, who = horizon - now, -1
        for j in range(n_jobs):
            wait = until[j] - now if at[j] < 0 else (1.0 - part[j]) * send[at[j]] / speed[j]
            if wait < step:
                step, who = max(wait, 0.0), j
        now += step
        for j in range(n_jobs):
            if at[j] >= 0:
                done = speed[j] * step / send[at[j]]
                part[j] += done
                busy[at[j]] += step
                sent[at[j]] += done
        if who < 0:
            break
        if at[who] >= 0:
            state -= digit[who] * (at[who] - first[who] + 1)
            at[who] = -1
            stage[who] += 1
            if stage[who] == first[who + 1]:
                stage[who] = first[who]
            until[who] = now + compute[stage[who]]
        else:
            at[who], part[who] = stage[who], 0.0
            state += digit[who] * (at[who] - first[who] + 1)
        if len(known) == 1:
            speeds(at, weight, job, link_ptr, link_stage, link_part, on, hot, speed)
            continue
        if not known[state]:
            speeds(at, weight, job, link_ptr, link_stage, link_part, on, hot, table[state])
            known[state] = True
        speed = table[state]
    return busy, sent
