"""Iterations of jobs that compute and send by turns, with a max-min fair rate for each flow, which ends on its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING


class FlowIterations(NamedTuple):
    """R flows (or pieces of flows) in the order of S stages of J jobs (arrays, because compiled code reads them).

    Attributes:
        first: [J+1] first stage of each job.
        compute: [S] seconds of computing before the stage.
        send: [S] seconds that the stage takes alone.
        stage_ptr: [S+1] first flow of each stage.
        gbit: [R] amount that each flow sends.
        most: [R] its highest rate in Gbit/s.
        weight: [R] rates of flows that share a full link are in these proportions.
        flow_ptr: [R+1] first entry of each flow.
        flow_link: [N] link of each entry, of the links that can be full.
        capacity: [E] Gbit/s.
    """

    first: Any
    compute: Any
    send: Any
    stage_ptr: Any
    gbit: Any
    most: Any
    weight: Any
    flow_ptr: Any
    flow_link: Any
    capacity: Any


class FlowsPlayed(NamedTuple):
    """The result of a simulation.

    Attributes:
        busy: [S] seconds for which each stage was sent.
        sent: [S] how often it was sent (2.5: two and a half times).
        took: [J] seconds of the complete iterations, waiting for the next one included.
        ended: [J] number of these iterations.
        examined: entries examined for rates.
    """

    busy: Any
    sent: Any
    took: Any
    ended: Any
    examined: Any


@nb.njit(nogil=True, cache=True)
def share(problem, active, n_active, rate, room, slope):
    """Compute the max-min fair rates of the active flows; return the number of entries examined.

    Args:
        problem: the flows and the links.
        active: [R] the first ``n_active`` are the active flows; their order changes.
        n_active: their number.
        rate: [R] the result.
        room: [E] scratch.
        slope: [E] scratch.
    """
    flow_ptr, flow_link, weight, most = problem.flow_ptr, problem.flow_link, problem.weight, problem.most
    for i in range(n_active):
        for k in range(flow_ptr[active[i]], flow_ptr[active[i] + 1]):
            room[flow_link[k]], slope[flow_link[k]] = problem.capacity[flow_link[k]], 0.0
    for i in range(n_active):
        for k in range(flow_ptr[active[i]], flow_ptr[active[i] + 1]):
            slope[flow_link[k]] += weight[active[i]]
    level, rising, examined = 0.0, n_active, 0
    while rising > 0:
        lowest = np.inf
        for i in range(rising):
            r = active[i]
            lowest = min(lowest, most[r] / weight[r])
            for k in range(flow_ptr[r], flow_ptr[r + 1]):
                lowest = min(lowest, room[flow_link[k]] / slope[flow_link[k]])
            examined += flow_ptr[r + 1] - flow_ptr[r] + 1
        # Rounding must not let a later link be full at a lower level.
        level = max(level, lowest)
        limit, known, i = level * (1.0 + ROUNDING), rising, 0
        while i < rising:
            r = active[i]
            limited = most[r] <= limit * weight[r]
            for k in range(flow_ptr[r], flow_ptr[r + 1]):
                limited |= room[flow_link[k]] <= limit * slope[flow_link[k]]
            if limited:
                rising -= 1
                active[i], active[rising] = active[rising], r
            else:
                i += 1
        for i in range(rising, known):
            r = active[i]
            rate[r] = level * weight[r]
            for k in range(flow_ptr[r], flow_ptr[r + 1]):
                room[flow_link[k]] -= rate[r]
                slope[flow_link[k]] -= weight[r]
    return examined


@nb.njit(nogil=True, cache=True)
def _place(problem, job, behind):
    """Return the stage of a job that has advanced so far, the sent part of the stage, and when it has computed."""
    compute, send, s = problem.compute, problem.send, problem.first[job]
    while behind >= compute[s] + send[s] and s + 1 < problem.first[job + 1]:
        behind -= compute[s] + send[s]
        s += 1
    return s, min(max(0.0, behind - compute[s]) / send[s], 1.0 - ROUNDING), max(0.0, compute[s] - behind)


@nb.njit(nogil=True, cache=True)
def _done(problem, stage, left):
    """Return the part of a stage that its slowest flow has sent."""
    done = 1.0
    for r in range(problem.stage_ptr[stage], problem.stage_ptr[stage + 1]):
        done = min(done, 1.0 - max(0.0, left[r]) / problem.gbit[r])
    return done


@nb.njit(nogil=True, cache=True)
def _next_begin(now, offset, hold):
    """Return the begin of an iteration after one that ends now: the nearest time of the grid if the job is held."""
    if hold <= 0.0:
        return now
    return max(now, hold * np.floor((now + offset) / hold + 0.5 + ROUNDING) - offset)


@nb.njit(nogil=True, cache=True)
def _step(most, now, sending, until, active, n_active, left, rate):
    """Return the seconds until a job has computed or a flow ends, at most ``most``."""
    step = most
    for j in range(len(sending)):
        if not sending[j]:
            step = min(step, until[j] - now)
    for i in range(n_active):
        step = min(step, left[active[i]] / rate[active[i]])
    return step


@nb.njit(nogil=True, cache=True)
def play(problem, offset, hold, horizon, most_examined):
    """Simulate the iterations of jobs up to a horizon.

    Args:
        problem: the jobs, flows and links.
        offset: [J] seconds by which each job has advanced in its iteration at the beginning, as if it had been alone;
            negative: the job begins only after that time.
        hold: [J] period of the grid of times at which the job's iterations begin; 0: they follow at once. The grid
            contains ``-offset``.
        horizon: seconds after which to stop.
        most_examined: entries examined for rates after which to give up.

    Returns:
        ``FlowsPlayed``.
    """
    first, compute, stage_ptr = problem.first, problem.compute, problem.stage_ptr
    n_jobs, n_stages, n_flows = len(first) - 1, len(compute), len(problem.gbit)
    left, rate, active = np.zeros(n_flows), np.zeros(n_flows), np.zeros(n_flows, np.int64)
    room, slope = np.zeros(len(problem.capacity)), np.zeros(len(problem.capacity))
    busy, sent = np.zeros(n_stages), np.zeros(n_stages)
    owner = np.zeros(n_flows, np.int64)
    sending, running = np.zeros(n_jobs, np.bool_), np.zeros(n_jobs, np.int64)
    stage, until = first[:-1].copy(), np.zeros(n_jobs)
    # Where the present run of a job's stage began, and the part of it that had been sent before.
    began, part = np.zeros(n_jobs), np.zeros(n_jobs)
    for j in range(n_jobs):
        owner[stage_ptr[first[j]] : stage_ptr[first[j + 1]]] = j
        stage[j], part[j], until[j] = _place(problem, j, offset[j])
    begun, took, ended = -offset, np.zeros(n_jobs), np.zeros(n_jobs, np.int64)
    now, n_active, examined = 0.0, 0, 0
    while now < horizon and examined <= most_examined:
        for j in range(n_jobs):
            if not sending[j] and until[j] <= now * (1.0 + ROUNDING):
                s = stage[j]
                sending[j], began[j], running[j] = True, now, stage_ptr[s + 1] - stage_ptr[s]
                for r in range(stage_ptr[s], stage_ptr[s + 1]):
                    left[r] = problem.gbit[r] * (1.0 - part[j])
                    active[n_active] = r
                    n_active += 1
        examined += share(problem, active, n_active, rate, room, slope) + n_jobs
        step = _step(horizon - now, now, sending, until, active, n_active, left, rate)
        now += step
        i = 0
        while i < n_active:
            r = active[i]
            left[r] -= rate[r] * step
            if left[r] <= problem.gbit[r] * ROUNDING:
                running[owner[r]] -= 1
                n_active -= 1
                active[i] = active[n_active]
            else:
                i += 1
        for j in range(n_jobs):
            if sending[j] and running[j] == 0:
                s = stage[j]
                busy[s] += now - began[j]
                sent[s] += 1.0 - part[j]
                sending[j], part[j], stage[j], begin = False, 0.0, s + 1, now
                if stage[j] == first[j + 1]:
                    stage[j] = first[j]
                    begin = _next_begin(now, offset[j], hold[j])
                    took[j] += begin - begun[j]
                    ended[j] += 1
                    begun[j] = begin
                until[j] = begin + compute[stage[j]]
    for j in range(n_jobs):
        if sending[j]:
            busy[stage[j]] += now - began[j]
            sent[stage[j]] += max(0.0, _done(problem, stage[j], left) - part[j])
    return FlowsPlayed(busy, sent, took, ended, examined)
