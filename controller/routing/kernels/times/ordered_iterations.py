"""Iterations of jobs whose stages may overlap with computing and with each other, flow by flow (max-min fair rates).

A phase computes, and its stages are sent as soon as what each waits for has ended; the next phase begins when all that
has ended, but for stages that a later phase waits for (docs/explanation/objective.md, "Overlap").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.routing.kernels.times.flow_sharing import begin, finish, left, no_rates, share
from controller.routing.kernels.without_runtime import without_runtime

SCANNED = 4
"""Number of flows whose ends are compared that count as one more entry examined."""

LONGEST = 8
"""A draw is at most so many times as long as asked: until each job has completed an iteration that began in it."""

WAITING, SENT, ENDED = 0, 1, 2


class OrderedIterations(NamedTuple):
    """R flows in the order of S stages, in P phases of J jobs (arrays, because compiled code reads them).

    Attributes:
        first: [J+1] first phase of each job.
        compute: [P] seconds of computing of each phase.
        alone: [P] seconds of the phase without other jobs.
        stage_first: [P+1] first stage of each phase.
        waits: [S] whether the stage waits for the computing.
        after_first: [S+1] first entry of each stage in ``after``.
        after: [N] a stage that it waits for, which is an earlier one of the job.
        begin: [S] seconds from the begin of the phase to that of the stage, without other jobs.
        due: [S] the phase that ends only when the stage has ended: its own, or a later one of the job.
        reach: [P] the earliest phase of which a stage may be sent in the phase.
        send: [S] seconds that the stage takes alone.
        flow_first: [S+1] first flow of each stage.
        gbit: [R] amount that each flow sends.
        links: ``FlowLinks`` of the flows, with the links that can be full.
    """

    first: Any
    compute: Any
    alone: Any
    stage_first: Any
    waits: Any
    after_first: Any
    after: Any
    begin: Any
    due: Any
    reach: Any
    send: Any
    flow_first: Any
    gbit: Any
    links: Any


class OrderedState(NamedTuple):
    """The state of a simulation.

    Attributes:
        phase: [J] present phase.
        opened: [J] when it began, or will begin.
        computed: [J] when it has computed.
        missing: [J] number of stages for which it waits and that have not ended.
        waiting: [J] number of stages, of it and earlier phases, that have not begun.
        sent: [J] number of stages that are sent.
        state: [S] ``WAITING``, ``SENT`` or ``ENDED``, in the present run of the phase.
        running: [S] number of flows that have not ended.
        began: [S] when the stage began.
        ended: [S] when it ended.
        part: [S] the part that had been sent before the simulation began.
        latest: [S] scratch: when it could have ended at the latest.
        begun: [P] when the phase began.
        closing: [P] scratch: when it could have ended at the latest.
    """

    phase: Any
    opened: Any
    computed: Any
    missing: Any
    waiting: Any
    sent: Any
    state: Any
    running: Any
    began: Any
    ended: Any
    part: Any
    latest: Any
    begun: Any
    closing: Any


class OrderedPlayed(NamedTuple):
    """The result of a simulation: sums over the complete iterations that began in it.

    Attributes:
        took: [J] seconds.
        iterations: [J] number of the iterations.
        sending: [P] seconds in which some stage of the phase was sent.
        busy: [S] seconds for which the stage was sent.
        slack: [S] seconds by which it could have ended later without a longer iteration.
        binds: [S] number of iterations in which this was 0.
        examined: entries examined for rates.
    """

    took: Any
    iterations: Any
    sending: Any
    busy: Any
    slack: Any
    binds: Any
    examined: Any


@without_runtime
def _place(problem, st, job, behind):
    """Place a job that has advanced so far in its iteration."""
    p = problem.first[job]
    while behind >= problem.alone[p] and p + 1 < problem.first[job + 1]:
        behind -= problem.alone[p]
        p += 1
    _open(problem, st, job, p, -behind)
    st.waiting[job] = 0
    for q in range(p, problem.reach[p] - 1, -1):
        behind += problem.alone[q] if q < p else 0.0
        for s in range(problem.stage_first[q], problem.stage_first[q + 1]):
            st.part[s] = max(0.0, (behind - problem.begin[s]) / problem.send[s])
            if st.part[s] >= 1.0 or problem.due[s] < p:
                st.state[s], st.part[s] = ENDED, 0.0
                st.missing[job] -= problem.due[s] == p
            else:
                st.waiting[job] += 1


@without_runtime
def _open(problem, st, job, phase, at):
    """Let a job begin a phase at a time."""
    st.phase[job], st.opened[job], st.computed[job] = phase, at, at + problem.compute[phase]
    st.begun[phase] = at
    st.missing[job] = 0
    first, last = problem.stage_first[phase], problem.stage_first[phase + 1]
    st.waiting[job] += last - first
    for s in range(first, last):
        st.state[s] = WAITING
    for s in range(problem.stage_first[problem.reach[phase]], last):
        st.missing[job] += problem.due[s] == phase and st.state[s] != ENDED


@without_runtime
def _is_ready(problem, st, job, stage, now):
    """Return whether all has ended that a stage of the job's present phase, or an earlier one, waits for."""
    if st.state[stage] != WAITING:
        return False
    if problem.waits[stage] and st.computed[job] > now and stage >= problem.stage_first[st.phase[job]]:
        return False
    for i in range(problem.after_first[stage], problem.after_first[stage + 1]):
        if st.state[problem.after[i]] != ENDED:
            return False
    return True


@without_runtime
def _has_ended(st, job, now):
    """Return whether the present phase of a job has ended."""
    return st.missing[job] == 0 and st.computed[job] <= now and st.opened[job] <= now


@without_runtime
def _next_event(st, most, now, active, n_active, end):
    """Return when the next phase begins or has computed or the next flow ends, at most ``most``."""
    event = most
    for j in range(len(st.phase)):
        if st.opened[j] > now:
            event = min(event, st.opened[j])
        elif st.computed[j] > now:
            event = min(event, st.computed[j])
        elif st.missing[j] == 0:
            event = now
    for i in range(n_active):
        event = min(event, end[active[i]])
    return event


@without_runtime
def _slack(problem, st, job, now, slack, binds):
    """Compute for each stage of an iteration that ends now by how much it could have ended later, and what binds.

    Phase by phase from the last one: what a later phase waits for can bind instead of what its own does.
    """
    first, last = problem.first[job], problem.first[job + 1]
    for s in range(problem.stage_first[first], problem.stage_first[last]):
        st.latest[s] = np.inf
    closing = now
    for p in range(last - 1, first - 1, -1):
        st.closing[p] = closing
        opening, computed = np.inf, closing
        for s in range(problem.stage_first[p + 1] - 1, problem.stage_first[p] - 1, -1):
            due = problem.due[s]
            st.latest[s] = min(st.latest[s], st.closing[due])
            slack[s] = max(0.0, st.latest[s] - st.ended[s])
            ends = st.begun[due + 1] if due + 1 < last else now
            binds[s] = slack[s] <= TOLERANCE * (ends - st.begun[p])
            latest = st.latest[s] - (st.ended[s] - st.began[s])
            for i in range(problem.after_first[s], problem.after_first[s + 1]):
                st.latest[problem.after[i]] = min(st.latest[problem.after[i]], latest)
            if problem.waits[s]:
                computed = min(computed, latest)
            else:
                opening = min(opening, latest)
        opening = min(opening, computed - problem.compute[p])
        # Where a phase waits for nothing but its own stages, one of them binds, or its computing: the rest is rounding.
        is_bound = opening - st.begun[p] <= TOLERANCE * (now - st.begun[first])
        closing = st.begun[p] if is_bound else opening


@nb.njit(nogil=True, cache=True)
def play(problem, offset, horizon, most_examined):
    """Simulate the iterations of jobs up to a horizon, or until each job has completed one that began in it.

    Args:
        problem: the jobs, flows and links.
        offset: [J] seconds by which each job has advanced in its iteration at the beginning, as if it had been alone;
            negative: the job begins only after that time.
        horizon: seconds after which to stop.
        most_examined: entries examined for rates after which to give up.

    Returns:
        ``OrderedPlayed``.
    """
    first, stage_first, links = problem.first, problem.stage_first, problem.links
    n_jobs, n_phases, n_stages, n_flows = len(first) - 1, len(problem.compute), len(problem.send), len(problem.gbit)
    st = OrderedState(
        np.zeros(n_jobs, np.int64),
        np.zeros(n_jobs),
        np.zeros(n_jobs),
        np.zeros(n_jobs, np.int64),
        np.zeros(n_jobs, np.int64),
        np.zeros(n_jobs, np.int64),
        np.zeros(n_stages, np.int64),
        np.zeros(n_stages, np.int64),
        np.zeros(n_stages),
        np.zeros(n_stages),
        np.zeros(n_stages),
        np.zeros(n_stages),
        np.zeros(n_phases),
        np.zeros(n_phases),
    )
    rates = no_rates(n_flows, len(links.capacity))
    job_of, stage_of = np.zeros(n_stages, np.int64), np.zeros(n_flows, np.int64)
    active = np.zeros(n_flows, np.int64)
    took, iterations = np.zeros(n_jobs), np.zeros(n_jobs, np.int64)
    sending, busy, slack, binds = np.zeros(n_phases), np.zeros(n_stages), np.zeros(n_stages), np.zeros(n_stages)
    # The same of the present iteration.
    now_sending, now_slack, now_binds = np.zeros(n_phases), np.zeros(n_stages), np.zeros(n_stages)
    began, whole = -offset, offset <= 0.0
    for j in range(n_jobs):
        for s in range(stage_first[first[j]], stage_first[first[j + 1]]):
            job_of[s] = j
            stage_of[problem.flow_first[s] : problem.flow_first[s + 1]] = s
        _place(problem, st, j, offset[j])
    now, n_active, n_changed, examined = 0.0, 0, 0, 0
    while examined <= most_examined and (
        now < horizon or (now < LONGEST * horizon and n_jobs > 0 and iterations.min() == 0)
    ):
        soon = now * (1.0 + ROUNDING)
        for j in range(n_jobs):
            if st.waiting[j] == 0 or st.opened[j] > soon:
                continue
            for s in range(stage_first[problem.reach[st.phase[j]]], stage_first[st.phase[j] + 1]):
                if _is_ready(problem, st, j, s, soon):
                    st.state[s], st.began[s] = SENT, now
                    st.waiting[j] -= 1
                    st.running[s] = problem.flow_first[s + 1] - problem.flow_first[s]
                    st.sent[j] += 1
                    for r in range(problem.flow_first[s], problem.flow_first[s + 1]):
                        begin(links, rates, r, problem.gbit[r] * (1.0 - st.part[s]), now)
                        active[n_active], rates.changed[n_changed] = r, r
                        n_active, n_changed = n_active + 1, n_changed + 1
        examined += share(links, rates, n_changed, now) + n_active // SCANNED + n_jobs
        before = now
        now = _next_event(st, LONGEST * horizon, soon, active, n_active, rates.end)
        now = max(now, before)
        for j in range(n_jobs):
            if st.sent[j] > 0:
                now_sending[st.phase[j]] += now - before
        i, n_changed = 0, 0
        while i < n_active:
            r = active[i]
            if left(rates, r, now) <= problem.gbit[r] * ROUNDING:
                finish(links, rates, r)
                rates.changed[n_changed] = r
                n_active, n_changed = n_active - 1, n_changed + 1
                active[i] = active[n_active]
                s = stage_of[r]
                st.running[s] -= 1
                if st.running[s] == 0:
                    st.state[s], st.ended[s], st.part[s] = ENDED, now, 0.0
                    st.sent[job_of[s]] -= 1
                    st.missing[job_of[s]] -= problem.due[s] == st.phase[job_of[s]]
            else:
                i += 1
        for j in range(n_jobs):
            if not _has_ended(st, j, now * (1.0 + ROUNDING)):
                continue
            p = st.phase[j] + 1
            if p == first[j + 1]:
                p = first[j]
                if whole[j]:
                    _slack(problem, st, j, now, now_slack, now_binds)
                for s in range(stage_first[p] if whole[j] else n_stages, stage_first[first[j + 1]]):
                    busy[s] += st.ended[s] - st.began[s]
                    slack[s] += now_slack[s]
                    binds[s] += now_binds[s]
                for k in range(first[j], first[j + 1]):
                    sending[k] += now_sending[k] if whole[j] else 0.0
                    now_sending[k] = 0.0
                if whole[j]:
                    took[j] += now - began[j]
                    iterations[j] += 1
                whole[j], began[j] = True, now
            _open(problem, st, j, p, now)
    return OrderedPlayed(took, iterations, sending, busy, slack, binds, examined)
