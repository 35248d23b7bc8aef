"""Jobs of rings."""

from __future__ import annotations

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.sightings import QpKey


def job(edges: list[tuple[int, int]], size: int = 1000, period: float = 1.0) -> LearnedJob:
    qps = tuple(QpKey(src, dst, 49152 + src, dst) for src, dst in edges)
    return LearnedJob(period, 5, (LearnedGroup(0, "ring", qps, (size,) * len(qps)),), (0.4,), 1.0, 0.0, 0.0)


def by_name(*jobs: LearnedJob) -> dict[str, LearnedJob]:
    return {each.name: each for each in jobs}


RING = [(1, 2), (2, 3), (3, 1)]
OTHER = [(4, 5), (5, 4)]
