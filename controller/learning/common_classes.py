"""Volumes that several learned jobs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controller.learning.learned_job import LearnedJob
from controller.learning.volumes import Volumes, classes
from controller.model.tolerances import TOLERANCE


def with_common_classes(jobs: Sequence[LearnedJob]) -> list[LearnedJob]:
    """Return jobs whose equal volumes are equal numbers, too.

    Rings of one job that share no host are learned one by one, each with an error of its own. On a fabric with failed
    links, a plan for slightly different volumes has a lower mean speed.
    """
    merged: dict[int, LearnedJob] = {}
    for with_period in (True, False):
        chosen = [i for i, job in enumerate(jobs) if bool(job.period_seconds) == with_period]
        value = np.array([group.bytes[0] for i in chosen for group in jobs[i].groups], dtype=np.float64)
        flows = np.array([len(group.qps) for i in chosen for group in jobs[i].groups])
        # The more flows a group has, the smaller is its error.
        mean_volumes = Volumes(value, value / np.sqrt(flows) * TOLERANCE, np.full(len(value), np.nan))
        common = iter(classes(mean_volumes, np.arange(len(value), dtype=np.int32)).tolist())
        for i in chosen:
            groups = tuple(
                replace(group, bytes=(max(1, round(next(common))),) * len(group.bytes)) for group in jobs[i].groups
            )
            merged[i] = replace(jobs[i], groups=groups)
    return [merged[i] for i in range(len(jobs))]
