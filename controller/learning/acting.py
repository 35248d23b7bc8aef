"""Acting: which learned jobs to plan, and when another plan of them pays.

Rules are written only for a reason: flows that are in no plan are hashed, and a single one of them can halve the worth
of the plan; but a volume that is estimated anew, or a period that has drifted, mostly changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from controller.learning.learned_job import LearnedJob

PERIOD_CHANGES = 0.1
"""Part of the period by which it must have changed."""
LEAST_GAIN = 0.01
"""Relative gain that a new plan needs at least, if all flows are planned already."""

FlowIdentity = tuple[int, int, int]
"""Source address, destination address and UDP source port: what a switch knows of a QP."""


class Need(Enum):
    """The differences between the planned learned jobs and the present ones."""

    NONE = 0
    IF_IT_PAYS = 1
    NOW = 2


def flows_of(jobs: Mapping[str, LearnedJob]) -> set[FlowIdentity]:
    """Return the flows of jobs."""
    return {(key.src, key.dst, key.udp_src) for job in jobs.values() for key in job.qps}


def need(planned: Mapping[str, LearnedJob], present: Mapping[str, LearnedJob]) -> Need:
    """Return whether the present jobs should be planned in place of the planned ones.

    ``NOW``: flows are in no plan. ``IF_IT_PAYS``: jobs or flows have ended (``EndedFlows`` tells when these must leave
    the plan, whether it pays or not), or volumes, phases or the period have changed.
    """
    before, after = flows_of(planned), flows_of(present)
    if after - before:
        return Need.NOW
    if before - after or planned.keys() != present.keys():
        return Need.IF_IT_PAYS
    same = all(_alike(planned[name], job) for name, job in present.items())
    return Need.NONE if same else Need.IF_IT_PAYS


def pays(kept: float, new: float, moved: int, flows: int, price: float) -> bool:
    """Return whether a new plan is worth the rules that it changes.

    Args:
        kept: the value of the present paths, larger is better.
        new: the value of the new plan.
        moved: number of flows that change their paths.
        flows: number of all flows.
        price: relative gain required to move all flows; moving some of them requires the same part of it.
    """
    required = max(LEAST_GAIN, price * moved / max(flows, 1))
    return moved > 0 and new >= kept * (1 + required)


def _alike(one: LearnedJob, other: LearnedJob) -> bool:
    if abs(one.period_seconds - other.period_seconds) > PERIOD_CHANGES * one.period_seconds:
        return False
    return one.is_like(other)
