"""Flows of a plan that have ended: until when each may stay in the plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from controller.learning.acting import FlowIdentity, flows_of
from controller.learning.learned_job import LearnedJob
from controller.learning.life import expires


class EndedFlows:
    """The planned flows that no learned job has any more.

    Such a flow may stay in the plan for as long as a job may be silent (``life.expires``), counted from what was seen
    of the last job that had it: a QP of which few packets are sampled is missed now and then, and a plan without it
    would have to be followed by one with it. So a flow comes and goes at most once in that time.
    """

    def __init__(self) -> None:
        """Begin without flows."""
        self._until: dict[FlowIdentity, float] = {}
        self._before: Mapping[str, LearnedJob] = {}

    def look(self, planned: Mapping[str, LearnedJob], present: Mapping[str, LearnedJob]) -> None:
        """Compare the planned jobs with those that are present now; a flow that is there again has not ended."""
        absent = flows_of(planned) - flows_of(present)
        until = {flow: self._until[flow] for flow in absent & self._until.keys()}
        if len(until) < len(absent):
            for job in (*planned.values(), *self._before.values()):
                for flow in (absent & flows_of({job.name: job})) - self._until.keys():
                    until[flow] = max(until.get(flow, -math.inf), expires(job))
        self._until, self._before = until, present

    def forget(self, flows: Iterable[FlowIdentity]) -> None:
        """Let flows end at once, unless the next look finds them in a job."""
        self._until.update(dict.fromkeys(flows, -math.inf))

    def at(self, now: float) -> frozenset[FlowIdentity]:
        """Return the flows that must leave the plan."""
        return frozenset(flow for flow, until in self._until.items() if now >= until)
