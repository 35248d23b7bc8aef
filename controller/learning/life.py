"""The life of learned jobs: when one appears, which volumes it keeps, and when it is forgotten."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.odometer import Activity
from controller.learning.sightings import QpKey
from controller.model.choices.protocol import ROCE

AGREEING = 3
"""Iterations that must have been seen before a job appears; where none shows, looks that found the same QPs."""
SETTLED = 5
"""Iterations of which the volumes are kept; those of fewer are replaced by those of more."""
DIFFERENT = 3
"""Looks in a row that must find another volume, or other groups, before a job takes them."""
LEAST_SILENCE, SILENT_PERIODS = 30.0, 5
"""A job is forgotten after so many seconds or periods of silence, whichever is longer."""
COUNTED_PERIODS = 10
"""So many periods after iterations were last told by equal bytes, a job takes others: busy machines hide pauses."""
MERGED = 1.5
"""So it is if so many iterations are taken for one, or more: some of them may have been seen one by one."""
PAUSING_PERIODS = 10
"""So many periods a connection that its host says is open may pause while others of its job go on."""

Activities = Callable[[Iterable[QpKey]], Mapping[QpKey, Activity]]
"""Returns what is known of those of some QPs that were seen."""


def expires(job: LearnedJob) -> float:
    """Return the time at which a job is forgotten unless it is seen again."""
    return job.seen + max(LEAST_SILENCE, SILENT_PERIODS * job.period_seconds)


def _ends(job: LearnedJob) -> set[tuple[str, int]]:
    """Return the hosts of a job, each with the job's protocol: jobs of others have nothing to do with it."""
    return {(job.protocol, host) for key in job.qps for host in (key.src, key.dst)}


def _last_whole(job: LearnedJob, activities: Mapping[QpKey, Activity]) -> float:
    """Return until when each connection of a job is known to send, or to be open; -inf: of some, nothing is known."""
    if not job.qps <= activities.keys():
        return -math.inf
    known = (activities[key] for key in job.qps)
    return min(each.seen if each.is_open else each.sent for each in known)


def _only_pauses(job: LearnedJob, key: QpKey, activities: Mapping[QpKey, Activity], now: float) -> bool:
    """Return whether a connection of a job, of which others send, may go on to send."""
    known = activities.get(key)
    if known is None or known.is_open is False:
        return False
    periods = PAUSING_PERIODS if known.is_open else SILENT_PERIODS
    return now - known.sent < max(LEAST_SILENCE, periods * job.period_seconds)


def _is_merged(old: LearnedJob, new: LearnedJob) -> bool:
    """Return whether a job may have several iterations of what it was in one, because pauses were missed."""
    times = sum(new.volumes.values()) / sum(old.volumes.values())
    return new.iterations < old.iterations and times >= MERGED


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
        self._counted: dict[str, float] = {}

    def step(self, inferred: Iterable[LearnedJob], now: float, activities: Activities | None = None) -> None:
        """Take over what was inferred now.

        Args:
            inferred: the jobs.
            now: seconds.
            activities: tells of connections of TCP, so that jobs stay while these go on; ``None``: nothing is known.
        """
        inferred = list(inferred) if activities is None else self._with_pausing(list(inferred), now, activities)
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
        self._counted = {name: at for name, at in self._counted.items() if name in self.jobs}
        self._counted |= {
            name: now for name, job in ready.items() if job.is_counted and self.jobs[name].has_volumes_of(job)
        }

    def _with_pausing(
        self, inferred: Collection[LearnedJob], now: float, activities: Activities
    ) -> Collection[LearnedJob]:
        """Return what was inferred, with the present jobs of TCP that only pause, or of which a connection does.

        On a busy machine iterations may not show for some time, and a connection may send nothing for an iteration.
        """
        names = {job.name for job in inferred}
        for job in [job for job in self.jobs.values() if job.protocol != ROCE and job.name not in names]:
            known = activities(job.qps)
            parts = [other for other in inferred if _ends(other) & _ends(job)]
            missing = job.qps - {key for part in parts for key in part.qps}
            # If none sends, and all are open, the job may do anything but send.
            is_there = not parts and all(key in known and known[key].is_open for key in job.qps)
            goes_on = is_there or all(_only_pauses(job, key, known, now) for key in missing)
            if goes_on and all(part.qps <= job.qps for part in parts):
                whole = dataclasses.replace(
                    job, seen=max([job.seen, _last_whole(job, known), *(part.seen for part in parts)])
                )
                inferred = [*(other for other in inferred if other not in parts), whole]
        return inferred

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
        """Return the new job with the old groups, unless they differ for some time, or are of few iterations."""
        if old is not None and old.is_counted and not new.is_single and (not new.is_counted or _is_merged(old, new)):
            counted = self._counted.get(old.name, -math.inf)
            if new.seen - counted < max(LEAST_SILENCE, COUNTED_PERIODS * old.period_seconds):
                return dataclasses.replace(old, seen=new.seen)
        if old is not None and new.is_counted and not old.is_counted:
            return new
        if old is None or (new.period_seconds and old.iterations < SETTLED):
            self._different.pop(new.name, None)
            return new
        if old.is_like(new):
            self._different.pop(new.name, None)
        else:
            self._different[new.name] = self._different.get(new.name, 0) + 1
            if self._different[new.name] >= DIFFERENT:
                del self._different[new.name]
                return new
        groups: tuple[LearnedGroup, ...] = old.groups
        return dataclasses.replace(new, groups=groups)
