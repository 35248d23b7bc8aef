"""Iterations of jobs that compute and send by turns, with a max-min fair rate for each flow, which ends on its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING
from controller.routing.kernels.times.flow_sharing import begin, finish, left, no_rates, share
from controller.routing.kernels.without_runtime import without_runtime

SCANNED = 4
"""Number of flows whose ends are compared that count as one more entry examined."""


class FlowIterations(NamedTuple):
    """R flows (or pieces of flows) in the order of S stages of J jobs (arrays, because compiled code reads them).

    Attributes:
        first: [J+1] first stage of each job.
        compute: [S] seconds of computing before the stage.
        send: [S] seconds that the stage takes alone.
        stage_ptr: [S+1] first flow of each stage.
        gbit: [R] amount that each flow sends.
        links: ``FlowLinks`` of the flows, with the links that can be full.
    """

    first: Any
    compute: Any
    send: Any
    stage_ptr: Any
    gbit: Any
    links: Any


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


@without_runtime
def _place(problem, job, behind):
    """Return the stage of a job that has advanced so far, the sent part of the stage, and when it has computed."""
    compute, send, s = problem.compute, problem.send, problem.first[job]
    while behind >= compute[s] + send[s] and s + 1 < problem.first[job + 1]:
        behind -= compute[s] + send[s]
        s += 1
    return s, min(max(0.0, behind - compute[s]) / send[s], 1.0 - ROUNDING), max(0.0, compute[s] - behind)


@without_runtime
def _done(problem, rates, stage, now):
    """Return the part of a stage that its slowest flow has sent."""
    done = 1.0
    for r in range(problem.stage_ptr[stage], problem.stage_ptr[stage + 1]):
        done = min(done, 1.0 - left(rates, r, now) / problem.gbit[r])
    return done


@without_runtime
def _next_begin(now, offset, hold):
    """Return the begin of an iteration after one that ends now: the nearest time of the grid if the job is held."""
    if hold <= 0.0:
        return now
    return max(now, hold * np.floor((now + offset) / hold + 0.5 + ROUNDING) - offset)


@without_runtime
def _next_event(most, sending, until, active, n_active, end):
    """Return when the next job has computed or the next flow ends, at most ``most``."""
    event = most
    for j in range(len(sending)):
        if not sending[j]:
            event = min(event, until[j])
    for i in range(n_active):
        event = min(event, end[active[i]])
    return event


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
    first, compute, stage_ptr, links = problem.first, problem.compute, problem.stage_ptr, problem.links
    n_jobs, n_stages, n_flows = len(first) - 1, len(compute), len(problem.gbit)
    rates = no_rates(n_flows, len(links.capacity))
    busy, sent = np.zeros(n_stages), np.zeros(n_stages)
    active, owner = np.zeros(n_flows, np.int64), np.zeros(n_flows, np.int64)
    sending, running = np.zeros(n_jobs, np.bool_), np.zeros(n_jobs, np.int64)
    stage, until = first[:-1].copy(), np.zeros(n_jobs)
    # Where the present run of a job's stage began, and the part of it that had been sent before.
    began, part = np.zeros(n_jobs), np.zeros(n_jobs)
    for j in range(n_jobs):
        owner[stage_ptr[first[j]] : stage_ptr[first[j + 1]]] = j
        stage[j], part[j], until[j] = _place(problem, j, offset[j])
    begun, took, ended = -offset, np.zeros(n_jobs), np.zeros(n_jobs, np.int64)
    now, n_active, n_changed, examined = 0.0, 0, 0, 0
    while now < horizon and examined <= most_examined:
        for j in range(n_jobs):
            if not sending[j] and until[j] <= now * (1.0 + ROUNDING):
                s = stage[j]
                sending[j], began[j], running[j] = True, now, stage_ptr[s + 1] - stage_ptr[s]
                for r in range(stage_ptr[s], stage_ptr[s + 1]):
                    begin(links, rates, r, problem.gbit[r] * (1.0 - part[j]), now)
                    active[n_active], rates.changed[n_changed] = r, r
                    n_active, n_changed = n_active + 1, n_changed + 1
        examined += share(links, rates, n_changed, now) + n_active // SCANNED + n_jobs
        now = _next_event(horizon, sending, until, active, n_active, rates.end)
        i, n_changed = 0, 0
        while i < n_active:
            r = active[i]
            if left(rates, r, now) <= problem.gbit[r] * ROUNDING:
                finish(links, rates, r)
                rates.changed[n_changed] = r
                running[owner[r]] -= 1
                n_active, n_changed = n_active - 1, n_changed + 1
                active[i] = active[n_active]
            else:
                i += 1
        for j in range(n_jobs):
            if sending[j] and running[j] == 0:
                s = stage[j]
                busy[s] += now - began[j]
                sent[s] += 1.0 - part[j]
                sending[j], part[j], stage[j], starts = False, 0.0, s + 1, now
                if stage[j] == first[j + 1]:
                    stage[j] = first[j]
                    starts = _next_begin(now, offset[j], hold[j])
                    took[j] += starts - begun[j]
                    ended[j] += 1
                    begun[j] = starts
                until[j] = starts + compute[stage[j]]
    for j in range(n_jobs):
        if sending[j]:
            busy[stage[j]] += now - began[j]
            sent[stage[j]] += max(0.0, _done(problem, rates, stage[j], now) - part[j])
    return FlowsPlayed(busy, sent, took, ended, examined)
