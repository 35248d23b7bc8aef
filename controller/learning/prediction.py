"""Prediction: when learned jobs send next, and when they pause.

A path that changes while a QP sends reorders its packets, and go-back-N then sends them again; so rules of learned jobs
are written while these jobs pause. Phases are widened by what iterations may differ in length.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from controller.learning.learned_job import LearnedJob

UNSURE = 0.03
"""Part of the period by which a phase may begin earlier or end later than expected, in the next iteration."""
MOST_UNSURE = 0.15
"""The same where iterations are far ahead: this many of them are looked at, and no more."""


class TimeSpan(NamedTuple):
    """Seconds from ``begin`` to ``end``, by the clock of the sightings."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """The length."""
        return self.end - self.begin


def bursts(job: LearnedJob, now: float, until: float) -> Iterator[TimeSpan]:
    """Yield when a job is expected to send, in order, from the burst that is still going on at ``now``.

    A job without a period sends all the time, and one whose iterations are too far ahead to be told may do so.
    """
    if not job.period_seconds or not job.phases:
        yield TimeSpan(now, until)
        return
    last_end = job.phases[-1].end
    ahead = max(0, math.floor((now - job.begun - last_end) / job.period_seconds))
    while True:
        unsure = UNSURE * max(1, ahead)
        begun = job.begun + ahead * job.period_seconds
        if unsure > MOST_UNSURE:
            if begun < until:
                yield TimeSpan(max(now, begun), until)
            return
        for phase in job.phases:
            span = TimeSpan(
                begun + phase.begin - unsure * job.period_seconds, begun + phase.end + unsure * job.period_seconds
            )
            if span.begin >= until:
                return
            if span.end > now:
                yield span
        ahead += 1


def next_idle(jobs: Collection[LearnedJob], now: float, within: float, least: float) -> TimeSpan | None:
    """Return the next time of ``least`` seconds or more in which none of the jobs is expected to send.

    Args:
        jobs: the learned jobs.
        now: seconds.
        within: seconds from now in which it must begin; later iterations are not predicted.
        least: seconds.
    """
    until = now + within + least
    free = now
    for burst in sorted(burst for job in jobs for burst in bursts(job, now, until)):
        if burst.begin - free >= least:
            return TimeSpan(free, burst.begin)
        free = max(free, burst.end)
    return TimeSpan(free, until) if until - free >= least else None
