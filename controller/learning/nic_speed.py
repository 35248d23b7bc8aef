"""Volumes that a NIC can send: a report of more is wrong, and must not make a plan give its host the network."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

from controller.learning.learned_job import LearnedGroup, LearnedJob


def within_speed(job: LearnedJob, bytes_per_second: Callable[[int], float]) -> LearnedJob:
    """Return a job with no more bytes of each host than its NIC sends in the job's period (in a second without one).

    Where a host's QPs have more together, each of them gets the same part of what it had.

    Args:
        job: the job.
        bytes_per_second: returns what the NIC with an address sends at most.
    """
    sent: Counter[int] = Counter()
    for group in job.groups:
        for key, size in zip(group.qps, group.bytes, strict=True):
            sent[key.src] += size
    most = {src: (job.period_seconds or 1.0) * bytes_per_second(src) for src in sent}
    if all(size <= most[src] for src, size in sent.items()):
        return job

    def bounded(group: LearnedGroup) -> LearnedGroup:
        sizes = (
            size if sent[key.src] <= most[key.src] else max(1, int(size * (most[key.src] / sent[key.src])))
            for key, size in zip(group.qps, group.bytes, strict=True)
        )
        return dataclasses.replace(group, bytes=tuple(sizes))

    return dataclasses.replace(job, groups=tuple(bounded(group) for group in job.groups))
