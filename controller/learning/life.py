"""The life of learned jobs: when one appears, which volumes it keeps, and when it is forgotten."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from controller.learning.learned_job import LearnedGroup, LearnedJob

AGREEING = 3
"""Iterations that must have been seen before a job appears; where none shows, looks that found the same QPs."""
SETTLED = 5
"""Iterations of which the volumes are kept; those of fewer are replaced by those of more."""
DIFFERENT = 3
"""Looks in a row that must find another volume before a job takes it."""
LEAST_SILENCE, SILENT_PERIODS = 30.0, 5
"""A job is forgotten after so many seconds or periods of silence, whichever is longer."""


def expires(job: LearnedJob) -> float:
    """Return the time at which a job is forgotten unless it is seen again."""
    return job.seen + max(LEAST_SILENCE, SILENT_PERIODS * job.period_seconds)


def _ends(job: LearnedJob) -> set[tuple[str, int]]:
    """Return the hosts of a job, each with the job's protocol: jobs of others have nothing to do with it."""
    return {(job.protocol, host) for key in job.qps for host in (key.src, key.dst)}


class LearnedLife:
    """The jobs that are there. Time, in seconds from any origin, is an argument.

    Attributes:
        jobs: by name.
    """

    def __init__(self) -> None:
        """Begin without jobs."""
        self.jobs: Mapping[str, LearnedJob] = {}
        self._looks: dict[str, int] = {}
        self._different: dict[str, int] = {}

    def step(self, inferred: Iterable[LearnedJob], now: float) -> None:
        """Take over what was inferred now."""
        newest = {job.name: job for job in inferred if now < expires(job)}
        self._looks = {name: self._looks.get(name, 0) + 1 for name in newest}
        ready = {name: job for name, job in newest.items() if self._is_ready(job)}
        # QPs of these hosts that go on would be found with them, as one job: what is not has ended.
        taken = {end for job in ready.values() for end in _ends(job)}
        stay = {
            name: job
            for name, job in self.jobs.items()
            if name in newest or (now < expires(job) and not taken & _ends(job))
        }
        changed = {name: self._with_steady_volumes(stay.get(name), job) for name, job in ready.items()}
        kept = {name: newest.get(name, job) if name not in ready else job for name, job in stay.items()}
        self.jobs = dict(sorted({**kept, **changed}.items()))
        self._different = {name: count for name, count in self._different.items() if name in self.jobs}

    def forget(self, name: str) -> None:
        """Forget a job; it appears again if it goes on."""
        self.jobs = {other: job for other, job in self.jobs.items() if other != name}
        self._looks.pop(name, None)
        self._different.pop(name, None)

    def _is_ready(self, job: LearnedJob) -> bool:
        if job.period_seconds:
            return job.iterations >= AGREEING
        return self._looks[job.name] >= AGREEING

    def _with_steady_volumes(self, old: LearnedJob | None, new: LearnedJob) -> LearnedJob:
        """Return the new job with the old volumes, unless they differ for some time, or are of few iterations."""
        if old is None or (new.period_seconds and old.iterations < SETTLED):
            self._different.pop(new.name, None)
            return new
        if old.has_volumes_of(new):
            self._different.pop(new.name, None)
        else:
            self._different[new.name] = self._different.get(new.name, 0) + 1
            if self._different[new.name] >= DIFFERENT:
                del self._different[new.name]
                return new
        groups: tuple[LearnedGroup, ...] = old.groups
        return dataclasses.replace(new, groups=groups)
