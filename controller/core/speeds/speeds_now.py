"""The speeds of jobs now: those of the rules that switches hold, as far as these are known and decide them.

This is the only source of present speeds for documents, metrics, history, events and pages. What is not known is never
a number: a job that switches hash, or whose switches have not confirmed their rules, has no speed. A job of which some
flow cannot arrive stands still: its speed is 0, whatever the plan says of its other flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core.controller_state import ControllerState
from controller.core.speeds.job_speeds import JobSpeeds
from controller.model.choices.enforcement import Mode


@dataclass(frozen=True)
class Hindrance:
    """The effect on jobs of rules that others have put on the switches.

    Attributes:
        stopped: jobs with a flow that does not arrive.
        diverted: some flow takes another path than by the rules of this controller, or its path is not known, so the
            loads of links, and the speeds of all jobs, are not known.
        off_path: jobs with a flow that does not take the path that these rules give it.
    """

    stopped: frozenset[str] = frozenset()
    diverted: bool = False
    off_path: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SpeedsNow:
    """The present speed of each job that uses the network.

    Attributes:
        jobs: speed of the slowest collective of each; ``None``: not known.
        unknown: why those are not known, for people; empty: all are, or there are none.
        off_path: jobs of which some flow is kept off its path by rules of others.
    """

    jobs: Mapping[str, float | None] = field(default_factory=dict)
    unknown: str = ""
    off_path: frozenset[str] = frozenset()

    @property
    def slowest(self) -> tuple[str, float] | None:
        """The slowest job and its speed; ``None`` where this is not known, or no job uses the network.

        A job that stands still is the slowest one, also while the speeds of others are not known.
        """
        known = {job: speed for job, speed in self.jobs.items() if speed is not None}
        if not known:
            return None
        job = min(known, key=lambda name: known[name])
        return (job, known[job]) if known[job] == 0 or len(known) == len(self.jobs) else None


def speeds_now(state: ControllerState, *, connected: bool, unconfirmed: str, hindrance: Hindrance) -> SpeedsNow:
    """Return the present speeds.

    Args:
        state: the newest state, with the speeds by the rules that switches should hold.
        connected: whether any switch is connected; without one, nothing is known of the present network.
        unconfirmed: why some switch may not hold these rules; empty: all have confirmed them and hold nothing else.
        hindrance: the effect of rules of others.
    """
    speeds = state.speeds
    if not connected:
        return SpeedsNow(dict.fromkeys(speeds.jobs), "no switch is connected" if speeds.jobs else "")
    unknown = unconfirmed or ("rules of others divert flows" if hindrance.diverted else "")
    by_rules: Mapping[str, float] = {} if unknown else speeds.speed or {}
    jobs = {job: 0.0 if job in speeds.cut_off or job in hindrance.stopped else by_rules.get(job) for job in speeds.jobs}
    reason = unknown or undecided_because(state.desired.mode, speeds)
    return SpeedsNow(jobs, reason if None in jobs.values() else "", hindrance.off_path)


def undecided_because(mode: Mode, speeds: JobSpeeds) -> str:
    """Return why rules do not decide the speeds of jobs; empty: they do."""
    if speeds.speed is not None:
        return ""
    if mode == "planned":
        return "some flows have no planned path, and base forwarding hashes them"
    return "switches hash flows" if mode == "ecmp" else "switches hash flows, or some flow has no live path"
